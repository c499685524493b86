# What a guest starts for the kernel's storage clients, as no service manager runs in it: udev, iscsid, multipathd, and a Fibre Channel
# disk. Functions of a POSIX shell; the scripts of the guest's tests have them too.

# SECONDS COMMAND...: waits until the command succeeds.
wait_until() {
  tries=$(($1 * 10))
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}

# udev names disks and tells multipathd of them. SETTING...: of dm-multipath, which uses all paths of a disk at once, these too.
start_multipathd() {
  modprobe -a sd_mod dm_multipath dm_service_time scsi_dh_alua || return 1
  {
    printf 'blacklist {\n  devnode "^vd"\n}\ndefaults {\n  user_friendly_names yes\n  find_multipaths no\n'
    printf '  polling_interval 1\n  max_polling_interval 1\n}\n'
    # Of multipathd's own table of devices, LIO's would fail what waits for a path after twelve tries.
    printf 'overrides {\n  path_grouping_policy multibus\n  no_path_retry queue\n'
    [ $# = 0 ] || printf '  %s\n' "$@"
    printf '}\n'
  } >/etc/multipath.conf
  [ -S /run/udev/control ] || /lib/systemd/systemd-udevd --daemon >/dev/null 2>&1 || return 1
  multipathd
}

# open-iscsi's daemon, with a name for this initiator where the host has none.
start_iscsid() {
  modprobe iscsi_tcp || return 1
  mkdir -p /run/lock/iscsi /etc/iscsi
  [ -s /etc/iscsi/initiatorname.iscsi ] || echo InitiatorName=iqn.2026-11.internal.millrace:guest >/etc/iscsi/initiatorname.iscsi
  iscsid
}

# DEVICE BACKSTORE: the disk of the kernel's FC target.
make_fc_disk() {
  fc_disk=$fc_config/core/$2_0/disk
  mkdir -p "$fc_disk" || return 1
  case $2 in
  fileio) echo "fd_dev_name=$1,fd_dev_size=$(stat -c %s "$1")" >"$fc_disk/control" || return 1 ;;
  *) echo "udev_path=$1" >"$fc_disk/control" || return 1 ;;
  esac
  echo 1 >"$fc_disk/enable" || return 1
  # One disk, whatever the path: without a serial multipath sees disks without a name.
  echo 5f1c0000-0000-4000-8000-000000000001 >"$fc_disk/wwn/vpd_unit_serial"
}

# PAIR: the names of its target port's group and of the initiator in it. A port's name is 20:00 and the address of its interface.
name_fc_port() {
  fc_group=$fc_config/fc/20:00:02:00:00:00:0b:0$1/tpgt_1
  fc_initiator=$fc_group/acls/20:00:02:00:00:00:0a:0$1
}

# PAIR: the disk is shown to the initiator's port by the target's.
make_fc_port() {
  name_fc_port "$1"
  mkdir -p "${fc_group%/*}" && mkdir "$fc_group" && mkdir -p "$fc_group/lun/lun_0" || return 1
  ln -s "$fc_disk" "$fc_group/lun/lun_0/disk" && mkdir "$fc_initiator" && mkdir "$fc_initiator/lun_0" || return 1
  ln -s "$fc_group/lun/lun_0" "$fc_initiator/lun_0/mapped"
}

# DEVICE BACKSTORE PAIRS: the kernel's FC target on the device (a file: fileio, a block device: iblock), and software FCoE between the
# ends of so many veth pairs, VN2VN (FC-BB-6: two ports without a switch) between them: one disk for each pair.
# The ports are enabled last, once the target is there: a port that was enabled before shows no disk.
start_fibre_channel() {
  modprobe -a libfc libfcoe fcoe tcm_fc target_core_mod "target_core_${2%io}" sd_mod veth || return 1
  mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config || return 1
  fc_config=/sys/kernel/config/target
  mkdir -p "$fc_config/fc" && make_fc_disk "$1" "$2" || return 1
  for pair in $(seq "$3"); do
    ip link add "a$pair" type veth peer name "b$pair" || return 1
    ip link set "a$pair" address "02:00:00:00:0a:0$pair"
    ip link set "b$pair" address "02:00:00:00:0b:0$pair"
    for end in "a$pair" "b$pair"; do
      ip link set "$end" mtu 2500 up # an FC frame has up to 2148 bytes
      printf %s "$end" >/sys/bus/fcoe/ctlr_create || return 1
    done
    make_fc_port "$pair" || return 1
  done
  for controller in /sys/bus/fcoe/devices/ctlr_*; do printf vn2vn >"$controller/mode" || return 1; done
  for controller in /sys/bus/fcoe/devices/ctlr_*; do echo 1 >"$controller/enabled" || return 1; done
  wait_until 120 has_fc_disks "$3"
}

# COUNT: whether so many disks have come up over Fibre Channel.
has_fc_disks() {
  fc_found=0
  for host in /sys/class/fc_host/host*; do
    for disk in "$(readlink -f "$host/device")"/rport-*/target*/*/block/*; do
      [ -d "$disk" ] && fc_found=$((fc_found + 1))
    done
  done
  [ "$fc_found" = "$1" ]
}
