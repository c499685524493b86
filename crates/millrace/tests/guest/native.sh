# A comparison by this kernel's own clients, without --guest, as on any machine that has them.
# Arguments: millrace, the directory of the record, further options. First it starts what a service
# manager and an administrator would have started: a disk for the files, udev, iscsid, multipathd,
# and a Fibre Channel disk, which the comparison gets as a named device.
. "$(dirname "$0")/lib.sh"
millrace=$1 out=$2
shift 2
modprobe -a ext4 loop nfs fuse
mkdir -p /var/tmp/files
truncate -s 40G /var/tmp/disk
mkfs.ext4 -q -F -T largefile -E lazy_itable_init=0,lazy_journal_init=0 /var/tmp/disk
mount -o loop /var/tmp/disk /var/tmp/files
truncate -s 16G /var/tmp/fc-disk
start_multipathd "fast_io_fail_tmo 5" "dev_loss_tmo 600"
start_iscsid
start_fibre_channel /var/tmp/fc-disk fileio 2
await_multipath_disk
say "kernel clients are up, Fibre Channel is $disk"
"$millrace" compare --work /var/tmp/files --out "$out" --paths local,dnfs,knfs,iscsi --path "fc=$disk" "$@" </dev/null
fact left "$(ls /var/tmp/files | tr '\n' ' ')"
fact sessions "$(ls /sys/class/iscsi_session | wc -l)"
# The directory of the record is a mount of the guest.
fact mounts "$(grep millrace-compare /proc/mounts | grep -vc ' 9p ' || true)"
