# The kernel's NFS client on the filer. Arguments: the filer's port.
. "$(dirname "$0")/lib.sh"
port=$1
mkdir -p /mnt/vol
vol() { mount -t nfs -o "vers=3,proto=tcp,mountproto=tcp,hard,nolock,port=$port,mountport=$port" 10.0.3.2:/vol /mnt/vol; }
vol
fact mounted "$(grep -c ' /mnt/vol nfs ' /proc/mounts)"

say "names, sizes and links"
mkdir /mnt/vol/d
echo hello >/mnt/vol/d/a
mv /mnt/vol/d/a /mnt/vol/d/b
ln /mnt/vol/d/b /mnt/vol/d/hard
ln -s b /mnt/vol/d/soft
truncate -s 1M /mnt/vol/d/long
mkfifo /mnt/vol/d/fifo
fact tree "$(cd /mnt/vol/d && for name in *; do printf '%s:%s:%s ' "$name" "$(stat -c %F:%s "$name" | tr ' ' _)" "$(stat -c %h "$name")"; done)"
fact content "$(cat /mnt/vol/d/soft)"

say "the filer is killed and restarted below a load"
verified_load restart --directory=/mnt/vol &
load=$!
await 20 test -s /mnt/vol/restart.0.0
still_runs $load
ask restart the filer
still_runs $load
ended_well $load restart
fact restart verified

say "the path is cut for two seconds below a load"
verified_load cut --directory=/mnt/vol &
load=$!
await 20 test -s /mnt/vol/cut.0.0
ip link set eth1 down
sleep 2 # the length of the cut
still_runs $load
ip link set eth1 up
ended_well $load cut
fact cut verified

say "another mount reads what was written"
umount /mnt/vol
ask restart the filer
vol
verified_again restart --directory=/mnt/vol
verified_again cut --directory=/mnt/vol
fact again verified
rm -r /mnt/vol/d
umount /mnt/vol
