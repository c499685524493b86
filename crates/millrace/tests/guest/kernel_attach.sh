# `millrace iscsi attach` where the kernel has its own initiator. Arguments: millrace, name of the
# target, ports of two portals. LUN 0 and LUN 1 of the target are empty.
. "$(dirname "$0")/lib.sh"
millrace=$1 iqn=$2
portals=10.0.2.2:$3,10.0.3.2:$4
first=iscsi://$portals/$iqn/0 second=iscsi://$portals/$iqn/1
modprobe -a ext4 loop fuse
mkdir -p /mnt/lun
start_iscsid
start_multipathd

iscsi() { "$millrace" iscsi "$@"; }
# Words of `attach`: puts its object into /run/attached, or prints its message.
attach() { iscsi attach "$@" --json >/run/attached 2>/run/said || { cat /run/said; return 1; }; }
# NAME: a string of the object.
value() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" /run/attached; }
# WORDS: must be refused. The message is then in /run/said.
refused() { if iscsi "$@" >/run/said 2>&1; then cat /run/said; return 1; fi; }
sessions() { ls /sys/class/iscsi_session | wc -l; }
disks() { ls -d /sys/class/iscsi_session/session*/device/target*/*/block/* 2>/dev/null | wc -l; }
maps() { dmsetup ls --target multipath | grep -vc '^No devices found' || true; }
records() { iscsiadm -m node 2>/dev/null | wc -l; }
left() { echo "$(sessions) sessions $(disks) disks $(maps) maps $(records) records $(ls /run/millrace-iscsi 2>/dev/null | wc -l) attachments"; }
none_left() { [ "$(left)" = "0 sessions 0 disks 0 maps 0 records 0 attachments" ]; }

say "auto takes open-iscsi, with both portals below one map"
attach "$first" --mkfs ext4 --mount /mnt/lun
fact client "$(value client)"
fact reason "$(value client_reason)"
fact kind "$(value kind)"
disk=$(value device)
await 60 both_active
fact paths "$(paths A)"
fact depth "$(cat /sys/class/iscsi_session/session*/device/target*/*/queue_depth | sort -u | tr '\n' ' ')"
head -c 4M /dev/urandom >/run/data
cp /run/data /mnt/lun/data
sync -f /mnt/lun
fact listed "$(iscsi list --json | grep -c '"client":"open-iscsi".*"state":"attached"')"

say "another LUN of the target comes over the same sessions, and goes alone"
attach "$second"
other=$(value device)
fact second "$(sessions) $(disks) $(maps)"
refused attach "$second"
exec 9<"$other"
refused detach "$second"
fact busy "$(grep -c 'it is used by process' /run/said)"
exec 9<&-
iscsi detach "$other"
fact after_second "$(sessions) $(disks) $(maps)"

say "what is used is not taken away"
cd /mnt/lun
sleep 1000 &
user=$!
cd /
refused detach /mnt/lun
fact used "$(grep -c "process $user (sleep" /run/said)"
kill "$user"
wait "$user" || true
cmp /run/data /mnt/lun/data

say "detach leaves nothing, and attach reads what was written"
iscsi detach /mnt/lun
await 60 none_left || { left; exit 1; }
attach "$first" --mount /mnt/lun
fact again "$(value client) $(cmp /run/data /mnt/lun/data && echo same)"
iscsi detach --all
await 60 none_left || { left; exit 1; }

say "one portal is a disk, and its own client reads the same"
attach "iscsi://10.0.2.2:$3/$iqn/0" --mount /mnt/lun --client open-iscsi
fact single "$(value client) $(cmp /run/data /mnt/lun/data && echo same)"
iscsi detach "$(value device)"
await 60 none_left || { left; exit 1; }
attach "$first" --mount /mnt/lun --client millrace
fact own "$(value client) $(value kind) $(sessions) $(cmp /run/data /mnt/lun/data && echo same)"
iscsi detach /mnt/lun
await 60 none_left || { left; exit 1; }

say "a session and a record of somebody else's are left alone"
iscsiadm -m node -o new -T "$iqn" -p "10.0.2.2:$3,1" >/dev/null
attach "$first"
fact record "$(value client) $(value client_reason)"
iscsi detach "$(value device)"
iscsiadm -m node -T "$iqn" -p "10.0.2.2:$3" --login >/dev/null
attach "$first"
fact session "$(value client) $(value client_reason)"
refused attach "$second" --client open-iscsi
fact insisted "$(tr '\n' ' ' </run/said)"
iscsi detach "$first"
fact theirs "$(sessions) $(records)"
multipath -F # of both LUNs, which use that session
iscsiadm -m node -T "$iqn" --logout >/dev/null
iscsiadm -m node -T "$iqn" -o delete
await 60 none_left || { left; exit 1; }

say "without iscsid its own client is taken, with the command that helps"
pkill -x iscsid
no_iscsid() { ! grep -q ISCSIADM_ABSTRACT_NAMESPACE /proc/net/unix; }
await 30 no_iscsid
attach "$first" --mount /mnt/lun
fact without "$(value client) $(value client_reason)"
cmp /run/data /mnt/lun/data
iscsi detach --all
await 60 none_left || { left; exit 1; }
fact left none
