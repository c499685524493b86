# Fibre Channel with both ends in the guest: libfc and fcoe as initiator on one end of each of two
# veth pairs, the kernel's target (tcm_fc) on the other, VN2VN (FC-BB-6: two ports without a
# switch) between them, dm-multipath above. No arguments.
. "$(dirname "$0")/lib.sh"
start_multipathd "fast_io_fail_tmo 3" "dev_loss_tmo 600"
truncate -s 64M /run/disk
start_fibre_channel /run/disk fileio 2 || { say "no disk came up over Fibre Channel"; dmesg | tail -n 30; exit 1; }
await_multipath_disk
fact disk "$(blockdev --getsz "$disk")"
fact transport "$(cat /sys/class/fc_host/host*/port_state | sort -u | tr '\n' ' ')"

# A pair is cut at the initiator's end, whose fcoe gets that event at once. At the other end fcoe
# sometimes misses the return of the carrier. The cut waits first for commands in flight: for the
# data of a write whose initiator is gone, the kernel's target waits for ever and blocks all ports
# of the guest (ft_prlo of tcm_fc, kernel 6.1; docs/guest.md).
take_down() {
  dmsetup suspend --noflush "$disk"
  for pair; do ip link set "a$pair" down; done
  dmsetup --noudevsync resume "$disk" # udev reads the disk, and gives up after three minutes if no path is left
}
bring_up() { for pair; do ip link set "a$pair" up; done; }

# Removes the target and its ports, and creates a new one with the data on the disk, as a restart
# of a storage system does.
restart_target() {
  local pair
  for pair in 1 2; do echo 0 >"$(echo /sys/class/net/b$pair/ctlr_*)/enabled"; done
  for pair in 1 2; do
    name_fc_port $pair
    rm "$fc_initiator/lun_0/mapped"
    rmdir "$fc_initiator/lun_0" "$fc_initiator"
    rm "$fc_group/lun/lun_0/disk"
    rmdir "$fc_group/lun/lun_0" "$fc_group" "${fc_group%/*}"
  done
  rmdir "$fc_disk"
  make_fc_disk /run/disk fileio
  for pair in 1 2; do
    make_fc_port $pair
    echo 1 >"$(echo /sys/class/net/b$pair/ctlr_*)/enabled"
  done
}

statistics=/sys/block/$(basename "$(readlink -f "$disk")")/stat
sectors_written() { read -r _ _ _ _ _ _ sectors _ <"$statistics" && echo "$sectors"; }
written() { [ "$(sectors_written)" -gt "$before" ]; }

# NAME, FAILED, MEANWHILE and PAIR…: runs a verified load and cuts these pairs until FAILED paths
# have failed. Then runs MEANWHILE and restores the pairs.
load_over_a_cut() {
  local name=$1 failed=$2 meanwhile=$3 before load
  shift 3
  before=$(sectors_written)
  verified_load "$name" "--filename=$disk" &
  load=$!
  await 60 written
  still_runs $load
  take_down "$@"
  await 90 paths_failed "$failed"
  say "failed: $failed"
  [ "$failed" = 2 ] || ended_well $load "$name"
  $meanwhile
  bring_up "$@"
  await 120 both_active
  [ "$failed" = 1 ] || ended_well $load "$name"
  verified_again "$name" "--filename=$disk"
}

say "one path is cut below a verified load, which goes on over the other, and comes back"
load_over_a_cut one 1 : 2
fact cut verified

say "both paths are cut below a verified load, which waits for them"
load_over_a_cut both 2 : 1 2
fact both verified

say "the target is restarted below a verified load, which waits for it"
load_over_a_cut restart 2 restart_target 1 2
fact restart verified
