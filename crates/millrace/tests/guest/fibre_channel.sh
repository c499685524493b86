# Fibre Channel in the guest alone: libfc and fcoe as initiator on one end of each of two veth pairs, the kernel's target (tcm_fc) on the
# other, VN2VN (FC-BB-6: two ports without a switch) between them, dm-multipath above. No arguments.
. "$(dirname "$0")/lib.sh"
start_multipathd "fast_io_fail_tmo 3" "dev_loss_tmo 600"
truncate -s 64M /run/disk
start_fibre_channel /run/disk fileio 2 || { say "no disk came up over Fibre Channel"; dmesg | tail -n 30; exit 1; }
await_multipath_disk
fact disk "$(blockdev --getsz "$disk")"
fact transport "$(cat /sys/class/fc_host/host*/port_state | sort -u | tr '\n' ' ')"

say "one path is cut below a verified load"
statistics=/sys/block/$(basename "$(readlink -f "$disk")")/stat
written() { read -r _ _ _ _ _ _ sectors _ <"$statistics" && [ "$sectors" -gt 0 ]; }
verified_load disk "--filename=$disk" &
load=$!
await 20 written
still_runs $load
# It is not brought up again: of kernel 6.1, fcoe misses now and then that a link is back (docs/guest.md).
ip link set b2 down
ended_well $load disk
fact load verified
await 30 one_failed
fact failed "$(paths F)"
verified_again disk "--filename=$disk"
fact again verified
