# A comparison without a guest of its own, as on a host whose kernel has the initiator, killed while it is logged in. Argument: millrace.
. "$(dirname "$0")/lib.sh"
millrace=$1
start_multipathd
start_iscsid
mkdir -m 755 /run/place
mount -t tmpfs -o size=5g tmpfs /run/place
mkdir -m 755 /run/place/work
iscsiadm -m node -o new -T iqn.2026-11.test:other -p 192.0.2.1:3260,1 >/dev/null # a record of the user's own
compare() { exec "$millrace" compare --quick --warehouses 1 --users 2 --seconds 2 --work /run/place/work "$@" >>/run/compare 2>&1; }

say "compare, killed once its LUN is mounted"
compare --paths iscsi --out /run/place/out &
killed=$!
mounted() { grep -q ' /run/place/work/.*/iscsi/data ' /proc/mounts; }
mounted_or_over() { mounted || ! kill -0 "$killed"; }
await 600 mounted_or_over
mounted || { cat /run/compare; exit 1; }
kill -9 "$killed"
wait "$killed" || true
fact sessions "$(ls /sys/class/iscsi_session | wc -l)"
fact maps "$(dmsetup ls --target multipath | grep -c mpath)"

say "the next one takes it away before it begins"
compare --paths local --out /run/place/next &
next=$!
none_left() { ! mounted && [ -z "$(ls /sys/class/iscsi_session)" ] && [ "$(dmsetup ls --target multipath)" = "No devices found" ]; }
await 120 none_left || { cat /run/compare; ls /sys/class/iscsi_session; dmsetup ls; exit 1; }
kill -INT "$next"
wait "$next" || true
fact left none
fact nodes "$(iscsiadm -m node | tr '\n' ' ')"
