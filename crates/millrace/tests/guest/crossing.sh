# The kernel's NFS client on a volume with crossmnt, in which two file systems are mounted. Argument: the filer's port.
. "$(dirname "$0")/lib.sh"
mkdir -p /mnt/vol
mount -t nfs -o "vers=3,proto=tcp,mountproto=tcp,hard,nolock,port=$1,mountport=$1" 10.0.2.2:/vol /mnt/vol
fact before "$(grep -c ' /mnt/vol' /proc/mounts)"
fact listed "$(ls /mnt/vol | tr '\n' ' ')"
for dir in one two; do echo "of $dir" >"/mnt/vol/$dir/file"; done
fact mounts "$(grep -c ' /mnt/vol' /proc/mounts)"
fact devices "$(stat -c %d /mnt/vol /mnt/vol/one /mnt/vol/two | sort -u | wc -l)"
fact numbers "$(stat -c %i /mnt/vol/one/file /mnt/vol/two/file | sort -u | wc -l)"
fact mebibytes "$(stat -f -c '%b %S' /mnt/vol/one /mnt/vol/two | awk '{ printf "%d ", $1 * $2 / 1048576 }')"
fact link "$(ln /mnt/vol/one/file /mnt/vol/two/link 2>&1)"
mv /mnt/vol/one/file /mnt/vol/two/moved
echo 3 >/proc/sys/vm/drop_caches
fact content "$(cat /mnt/vol/two/file /mnt/vol/two/moved | tr '\n' ' ')"
fact left "$(find /mnt/vol/one -type f | wc -l)"
umount /mnt/vol/one /mnt/vol/two /mnt/vol
