# The kernel's NFS client on the filer. Arguments: the filer's port, and millrace, which serves for the locks.
. "$(dirname "$0")/lib.sh"
port=$1 millrace=$2
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
await 60 test -s /mnt/vol/restart.0.0
still_runs $load
ask restart the filer
still_runs $load
ended_well $load restart
fact restart verified

say "the path is cut for two seconds below a load"
verified_load cut --directory=/mnt/vol &
load=$!
await 60 test -s /mnt/vol/cut.0.0
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

# The kernel asks only port 111 of the server's address for the lock service. The test cannot use
# that port on its host, so a filer in its own network namespace in the guest has it.
say "a mount without nolock, on a filer with portmap"
ip netns add server
ip link add va type veth peer name vb netns server
ip addr add 10.9.0.1/24 dev va
ip link set va up
ip -n server addr add 10.9.0.2/24 dev vb
ip -n server link set vb up
mkdir /run/served
cat >/run/filer.toml <<'C'
[filer]
listen = ["10.9.0.2:2049"]
portmap = ["10.9.0.2:111"]
admin = "/run/filer.sock"
[[volume]]
name = "vol"
dir = "/run/served"
clients = ["10.9.0.1"]
squash = "none"
C
ip netns exec server "$millrace" serve --config /run/filer.toml </dev/null >/run/filer.log 2>&1 &
rpcbind -w
rpc.statd --no-notify # mount.nfs needs it for a mount with locks
await 60 test -S /run/filer.sock
mount -t nfs -o vers=3,proto=tcp,hard 10.9.0.2:/vol /mnt/vol || { cat /run/filer.log; exit 1; }
touch /mnt/vol/file
timeout 20 flock --nonblock /run/filer.toml true # loads the program, so that the time below excludes that
for lock in first second; do
  began=$(date +%s%N)
  said=$(timeout 20 flock --nonblock /mnt/vol/file true 2>&1) || fact "${lock}_lock" "$said"
  fact "${lock}_lock_ms" $((($(date +%s%N) - began) / 1000000))
done
umount /mnt/vol
