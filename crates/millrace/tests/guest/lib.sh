# What the scripts of the guest share. A line `ASK WORDS` is a request to the test on the host, and
# `FACT NAME VALUE` is a value that the test checks.
set -euo pipefail
. "$(dirname "$0")/../../../lab/src/guest/storage_clients.sh"

ask() {
  echo "ASK $*"
  local answer
  read -r answer
  [ "$answer" = granted ]
}
fact() { echo "FACT $*"; }
say() { echo "$(cut -d' ' -f1 /proc/uptime) $*"; }

# SECONDS COMMAND…: waits until the command succeeds. Prints a message if it does not.
await() {
  wait_until "$@" && return
  shift
  say "waited in vain for: $*"
  dmesg | tail -n 20
  return 1
}

# NAME and where: 512 blocks of 8 KiB at random places, each checked afterwards. It writes 100 a
# second, so it takes five seconds.
verified_load() {
  fio --name="$1" "$2" --size=4M --bs=8k --rw=randwrite --direct=1 --ioengine=psync --rate_iops=,100 \
    --verify=crc32c --verify_fatal=1 --minimal </dev/null >"/run/fio-$1" 2>&1
}

# Reads and checks the same blocks without a write.
verified_again() {
  fio --name="$1" "$2" --size=4M --bs=8k --rw=randwrite --direct=1 --ioengine=psync \
    --verify=crc32c --verify_fatal=1 --verify_only --minimal </dev/null >"/run/fio-$1" 2>&1
}

# PID of a load, which must still run, so that the next event affects it.
still_runs() { kill -0 "$1" || { echo "the load has ended too early"; cat /run/fio-*; return 1; }; }

# PID and name of a load: waits for its end.
ended_well() { wait "$1" || { cat "/run/fio-$2"; dmesg | tail -n 30; return 1; }; }

# Waits for a multipath device with both paths active, and puts its name into $disk.
await_multipath_disk() {
  await 90 map
  disk=$(map)
  await 90 both_active
}
map() { ls /dev/mapper/mpath*; }
# A for active or F for failed: number of paths of $disk in that state.
paths() { dmsetup status "$disk" | grep -o '[0-9]*:[0-9]* [AF] ' | grep -c "$1 "; }
both_active() { [ "$(paths A)" = 2 ]; }
paths_failed() { [ "$(paths F)" = "$1" ]; }
