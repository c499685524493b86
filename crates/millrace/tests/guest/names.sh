# What the kernel's NFS client asks again after its own changes of names. Arguments: the port of a
# filer whose volume is `exclusive`, and the port of one whose volume is not.
. "$(dirname "$0")/lib.sh"
# Calls that the client has sent for a mount. Each line has a procedure and its number of calls.
calls() {
  awk -v mount="/mnt/$1" '$1 == "device" { ours = $5 == mount } ours && $1 ~ /^[A-Z]+:$/ { sub(":", "", $1); print $1, $2 }' \
    /proc/self/mountstats
}
# MOUNT and function: reports the number of calls of each procedure that the function makes on that mount.
count() {
  calls "$1" >/run/before
  "$2" "/mnt/$1/d"
  calls "$1" >/run/after
  paste -d' ' /run/before /run/after | while read -r procedure before _ after; do
    fact "$1.$2.$procedure" $((after - before))
  done
}
# Creates and removes a file, and looks up ten known names in between.
names() {
  for _ in $(seq 40); do
    : >"$1/new"
    for old in 0 1 2 3 4 5 6 7 8 9; do [ -e "$1/old$old" ]; done
    rm "$1/new"
  done
}
copy_tree() { cp -a /run/tree "$1/"; }
remove_tree() { rm -r "$1/tree"; }

mkdir -p /run/tree/{a,b,c,d}
for dir in a b c d; do for file in $(seq 20); do echo content >"/run/tree/$dir/$file"; done; done
for volume in exclusive shared; do
  mkdir -p /mnt/$volume
  mount -t nfs -o "vers=3,proto=tcp,mountproto=tcp,hard,nolock,port=$1,mountport=$1" 10.0.2.2:/vol /mnt/$volume
  shift
  mkdir /mnt/$volume/d
  for old in 0 1 2 3 4 5 6 7 8 9; do : >/mnt/$volume/d/old$old; done
  ls -l /mnt/$volume/d >/run/listed
  for work in names copy_tree remove_tree; do count $volume $work; done
  umount /mnt/$volume
done
