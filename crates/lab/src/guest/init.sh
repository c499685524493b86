#!/bin/busybox sh
# The guest's first process, in the first root: loads modules, puts the host's root under an overlay, goes there.
B=/bin/busybox
fail() {
  echo "millrace guest: cannot $*"
  $B reboot -f
}
. /millrace/settings
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
while read -r module; do
  $B insmod "/modules/$module" || fail "load the module $module"
done </modules/order
if [ "$PROBE" = yes ]; then
  echo "$MARK"
  $B poweroff -f
fi
nine=trans=virtio,version=9p2000.L,msize=262144
$B mount -t 9p -o "$nine,ro,cache=loose" host /host || fail "mount the host's root"
$B mount -t tmpfs -o size=60% tmpfs /upper
$B mkdir /upper/up /upper/work
$B mount -t overlay -o lowerdir=/host,upperdir=/upper/up,workdir=/upper/work,xino=off,index=off,metacopy=off overlay /new ||
  fail "put an overlay on the host's root"
for directory in proc sys dev; do
  $B mkdir -p "/new/$directory"
  $B mount --move "/$directory" "/new/$directory"
done
$B mkdir -p /new/lib/modules /new/dev/shm /new/dev/pts /new/run
$B mount --bind "/host$MODULES" /new/lib/modules || fail "bind the modules of $MODULES"
$B mount -t tmpfs tmpfs /new/run
$B mount -t tmpfs shm /new/dev/shm
$B mount -t devpts devpts /new/dev/pts
$B cp -r /millrace /new/run/millrace
$B cp $B /new/run/millrace/busybox
exec $B switch_root /new /run/millrace/busybox sh /run/millrace/pid1
