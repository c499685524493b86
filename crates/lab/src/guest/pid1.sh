# The guest's first process, in its root: network, shared directories, ports; then the command, its output and its exit code.
B=/run/millrace/busybox
export PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root TERM=dumb
fail() {
  echo "millrace guest: cannot $*" >/dev/console
  $B reboot -f
}
. /run/millrace/settings
export MILLRACE_GUEST="$ACCELERATOR"
$B ln -s /proc/self/fd /dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do
  $B ln -s "/proc/self/fd/${stream%:*}" "/dev/${stream#*:}"
done
$B mount -t cgroup2 cgroup2 /sys/fs/cgroup
$B hostname guest
$B ip link set lo up
number=0
while [ "$number" -lt "$NICS" ]; do
  $B ip addr add "10.0.$((number + 2)).15/24" dev "eth$number" || fail "use the network interface eth$number"
  $B ip link set "eth$number" up
  number=$((number + 1))
done
[ "$NICS" = 0 ] || $B ip route add default via 10.0.2.2
while read -r tag directory; do
  $B mkdir -p "$directory"
  $B mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,rw,cache=none "$tag" "$directory" || fail "mount the share $directory"
done </run/millrace/shares

# The ports come up one by one after their driver's handshake with the host.
port() { # its number; a redirection expands no pattern
  for file in /dev/vport*p"$1"; do
    [ -c "$file" ] && echo "$file"
  done
}
waited=0
while ! { out=$(port 1) && err=$(port 2) && up=$(port 3) && in=$(port 4); }; do
  [ "$waited" -lt 1500 ] || fail "find the ports to the host"
  waited=$((waited + 1))
  $B usleep 20000
done
# A port takes no more than 32 KiB of a write, which not every program goes on from: programs write to a pipe.
$B mkfifo /run/millrace/out /run/millrace/err
$B cat /run/millrace/out >"$out" &
$B cat /run/millrace/err >"$err" &
exec 3>/run/millrace/out 4>/run/millrace/err
input=/dev/null
[ "$INPUT" = no ] || input=$in
read -r uptime rest </proc/uptime
echo "$uptime" >"$up"

# By the host's shell: busybox's would run its own applets in place of programs.
$B setsid /bin/sh /run/millrace/command <"$input" >&3 2>&4 3>&- 4>&- &
wait $!
code=$?
# Behind everything the command wrote. The host ends the guest once it has read both.
printf '%s%s\n' "$MARK" "$code" >&3
printf '%s%s\n' "$MARK" "$code" >&4
while :; do $B sleep 3600; done
