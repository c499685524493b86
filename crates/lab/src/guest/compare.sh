# What is run once the guest is up: names of the storage clients to start, then the comparison's words. Modules and programs that are
# lacking make the paths that need them say so.
clients=,$1,
shift
modprobe -a virtio_blk ext4 || exit 2
modprobe -aq nfs fuse loop
# One inode for each MiB is enough, and written at once, so that nothing writes them while something is measured.
mkfs.ext4 -q -F -T largefile -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda || exit 2
mkdir -p /run/millrace-work && mount /dev/vda /run/millrace-work || exit 2

# Groups that hold what a database may keep in the page cache; without them a plan that asks for it says so.
echo +memory >/sys/fs/cgroup/cgroup.subtree_control

did_not() { echo "millrace guest: $1 did not come up; the paths that need it are skipped" >&2; }
case $clients in
*,iscsi,* | *,fc,*) start_multipathd "fast_io_fail_tmo 5" "dev_loss_tmo 600" || did_not multipathd ;;
esac
case $clients in
*,iscsi,*) start_iscsid || did_not open-iscsi ;;
esac
# A disk of the guest's own, delayed by nothing yet, behind two paths. Its map is the only one now.
fibre_channel() {
  modprobe dm_delay || return 1
  same="/dev/vdb 0 0"
  dmsetup create millrace-fc --table "0 $(blockdev --getsz /dev/vdb) delay $same $same $same" || return 1
  start_fibre_channel /dev/mapper/millrace-fc iblock 2 || return 1
  wait_until 30 ls /dev/mapper/mpatha || return 1
  echo /dev/mapper/mpatha >/run/millrace/fibre-channel
}
case $clients in
*,fc,*) fibre_channel || did_not "Fibre Channel" ;;
esac
exec "$@"
