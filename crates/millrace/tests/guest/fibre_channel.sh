# Fibre Channel in the guest alone: libfc and fcoe as initiator on one end of a veth pair, the kernel's target (tcm_fc) on the other,
# VN2VN (FC-BB-6: two ports without a switch) between them. No arguments.
. "$(dirname "$0")/lib.sh"
modprobe -a libfc libfcoe fcoe tcm_fc target_core_mod target_core_file sd_mod veth
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
ip link add va type veth peer name vb
ip link set va address 02:00:00:00:0a:01
ip link set vb address 02:00:00:00:0b:01
for end in va vb; do
  ip link set "$end" mtu 2500 up # an FC frame has up to 2148 bytes
  echo -n "$end" >/sys/bus/fcoe/ctlr_create
done
for controller in /sys/bus/fcoe/devices/ctlr_*; do echo -n vn2vn >"$controller/mode"; done

# A port's name is 20:00 and the address of its interface.
target=20:00:02:00:00:00:0b:01
initiator=20:00:02:00:00:00:0a:01
config=/sys/kernel/config/target
mkdir -p "$config/core/fileio_0/disk"
truncate -s 64M /run/disk
echo fd_dev_name=/run/disk,fd_dev_size=67108864 >"$config/core/fileio_0/disk/control"
echo 1 >"$config/core/fileio_0/disk/enable"
mkdir -p "$config/fc"
mkdir "$config/fc/$target"
mkdir "$config/fc/$target/tpgt_1"
mkdir -p "$config/fc/$target/tpgt_1/lun/lun_0"
ln -s "$config/core/fileio_0/disk" "$config/fc/$target/tpgt_1/lun/lun_0/disk"
mkdir "$config/fc/$target/tpgt_1/acls/$initiator"
mkdir "$config/fc/$target/tpgt_1/acls/$initiator/lun_0"
ln -s "$config/fc/$target/tpgt_1/lun/lun_0" "$config/fc/$target/tpgt_1/acls/$initiator/lun_0/mapped"

say "enable both ports, now that the target is there: a port that was enabled before shows no disk"
for controller in /sys/bus/fcoe/devices/ctlr_*; do echo 1 >"$controller/enabled"; done
is_target() { grep -q 'FCP Target' /sys/class/fc_remote_ports/*/roles; }
await 60 is_target
disk() { ls -d /sys/class/scsi_disk/*/device/block/*; }
await 30 disk
disk=/dev/$(basename "$(disk)")
await 10 test -b "$disk"
fact disk "$(cat "/sys/class/block/${disk#/dev/}/size")"
fact transport "$(cat /sys/class/fc_host/host*/port_state | sort -u | tr '\n' ' ')"

# No path is cut here: of kernel 6.1, fcoe below a load does not survive it dependably (docs/guest.md).
say "a verified load"
verified_load disk "--filename=$disk" &
ended_well $! disk
fact load verified
verified_again disk "--filename=$disk"
fact again verified
