# Fibre Channel in the guest alone: libfc and fcoe as initiator on one end of a veth pair, the kernel's target (tcm_fc) on the other,
# VN2VN (FC-BB-6: two ports without a switch) between them. No arguments.
. "$(dirname "$0")/lib.sh"
modprobe -a sch_netem libfc libfcoe fcoe tcm_fc target_core_mod target_core_file sd_mod veth
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

say "every frame is lost for two seconds below a load"
name=${disk#/dev/}
# Far longer than any answer here; what was lost is sent again after it.
echo 4 >"/sys/class/block/$name/device/timeout"
verified_load cut "--filename=$disk" &
load=$!
writes() { [ "$(awk '{print $5}' "/sys/class/block/$name/stat")" -gt 64 ]; }
await 60 writes
still_runs $load
# Not by the state of the link: kernel 6.1 now and then does not see that it is up again, and then waits for ever with its network locked.
for end in va vb; do tc qdisc add dev "$end" root netem loss 100%; done
sleep 2 # the length of the cut
still_runs $load
fact lost "$(tc -s qdisc show dev va | grep -o 'dropped [0-9]*' | cut -d' ' -f2)"
for end in va vb; do tc qdisc del dev "$end" root; done
say "the path is back"
ended_well $load cut
fact cut verified
verified_again cut "--filename=$disk"
fact again verified
