# The kernel's iSCSI initiator with dm-multipath on a LUN of the filer. Arguments: name of the
# target, ports of two portals.
. "$(dirname "$0")/lib.sh"
iqn=$1
portals=("10.0.2.2:$2" "10.0.3.2:$3")
start_iscsid
start_multipathd

say "log in over both portals"
# SendTargets returns the address at which the filer was reached on its host. The guest uses other
# addresses in QEMU's network, so the script creates the nodes.
group=0 # each portal of a filer is a portal group
for portal in "${portals[@]}"; do
  group=$((group + 1))
  iscsiadm -m node -o new -T "$iqn" -p "$portal,$group" >/dev/null
  for setting in conn[0].timeo.noop_out_interval=1 conn[0].timeo.noop_out_timeout=2 session.timeo.replacement_timeout=3; do
    iscsiadm -m node -T "$iqn" -p "$portal" -o update -n "node.${setting%=*}" -v "${setting#*=}"
  done
  iscsiadm -m node -T "$iqn" -p "$portal" --login
done
await_multipath_disk
say "both paths are active"
fact paths "$(paths A)"
mkfs.ext4 -q -E nodiscard "$disk"
mkdir -p /mnt/lun
mount "$disk" /mnt/lun

say "one path is cut below a load, and comes back"
verified_load cut --directory=/mnt/lun &
load=$!
await 60 test -s /mnt/lun/cut.0.0
still_runs $load
ip link set eth1 down
await 90 paths_failed 1
say "failed over"
ended_well $load cut
ip link set eth1 up
await 120 both_active
fact cut verified

say "the filer is killed and restarted below a load"
verified_load restart --directory=/mnt/lun &
load=$!
await 60 test -s /mnt/lun/restart.0.0
still_runs $load
ask restart the filer
ended_well $load restart
await 120 both_active
fact restart verified

say "another mount reads what was written"
umount /mnt/lun
e2fsck -fn "$disk" >/run/fsck 2>&1 || { cat /run/fsck; exit 1; }
mount "$disk" /mnt/lun
verified_again cut --directory=/mnt/lun
verified_again restart --directory=/mnt/lun
fact again verified
umount /mnt/lun
multipath -f "$disk"
iscsiadm -m node --logoutall=all >/dev/null
none_left() { [ -z "$(ls /sys/class/iscsi_session)" ]; }
await 60 none_left
fact sessions none
