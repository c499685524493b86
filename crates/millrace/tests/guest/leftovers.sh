# What a killed comparison leaves of open-iscsi: a work directory with a mount and the name of a
# target, whose filer is gone. Argument: millrace. The script kills the comparison before it loads
# its database, which takes minutes here, and then creates the rest as a comparison does.
. "$(dirname "$0")/lib.sh"
millrace=$1
start_multipathd
start_iscsid
iscsiadm -m node -o new -T iqn.2026-11.test:other -p 192.0.2.1:3260,1 >/dev/null # a record of the user's own
mkdir -m 755 /run/place
mount -t tmpfs -o size=5g tmpfs /run/place
mkdir -m 755 /run/place/work
compare() { exec "$millrace" compare --quick --warehouses 1 --work /run/place/work --paths local --out "$1" >/run/compare 2>&1; }

compare /run/place/one &
killed=$!
mark() { ls /run/place/work/*/.millrace-owner; }
await 60 mark
kill -9 "$killed"
wait "$killed" || true
left=$(dirname "$(mark)")

say "log in to a LUN, mount it there, and kill its filer"
mkdir -p /run/volume /run/state "$left/iscsi/data" "$left/open-iscsi"
"$millrace" serve /run/volume --listen 127.0.0.1:0 --iscsi 127.0.0.1:0 --iscsi 127.0.0.1:0 --state /run/state --json >/run/ready 2>/run/filer &
filer=$!
await 60 test -s /run/ready
"$millrace" lun create vol/db-0 --size 1GiB --write-cache --admin /run/state/admin.sock >/dev/null
iqn=$(sed 's#.*"iscsi":"iscsi://[^/]*/\([^"]*\)".*#\1#' /run/ready)
printf %s "$iqn" >"$left/open-iscsi/target"
group=0
for portal in $(sed 's/.*"portals":\[\([^]]*\)\].*/\1/; s/[",]/ /g' /run/ready); do
  group=$((group + 1))
  iscsiadm -m node -o new -T "$iqn" -p "$portal,$group" >/dev/null
  iscsiadm -m node -T "$iqn" -p "$portal" --login >/dev/null
done
await_multipath_disk
mkfs.ext4 -q "$disk"
mount "$disk" "$left/iscsi/data"
head -c 20M /dev/urandom >"$left/iscsi/data/unwritten"
fact paths "$(paths A)"
kill -9 "$filer"
wait "$filer" || true

say "the next comparison takes it away before it begins"
compare /run/place/two &
next=$!
gone() { [ ! -e "$left" ] && [ -z "$(ls /sys/class/iscsi_session)" ] && [ "$(dmsetup ls --target multipath)" = "No devices found" ]; }
await 90 gone || { cat /run/compare; exit 1; }
kill -INT "$next"
wait "$next" || true
fact left none
fact nodes "$(iscsiadm -m node | tr '\n' ' ')"
