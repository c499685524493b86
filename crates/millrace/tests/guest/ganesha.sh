# A comparison on the export of another server, NFS-Ganesha. This kernel's client mounts it with
# version 3 and with version 4.1. Arguments: millrace, the directory of the record, further
# options.
. "$(dirname "$0")/lib.sh"
millrace=$1 out=$2
shift 2
modprobe -a ext4 loop nfs nfsv4
files=/var/tmp/files
mkdir -p "$files" /run/rpcbind /run/ganesha /mnt/v3 /mnt/v41
truncate -s 40G /var/tmp/disk
mkfs.ext4 -q -F -T largefile -E lazy_itable_init=0,lazy_journal_init=0 /var/tmp/disk
mount -o loop /var/tmp/disk "$files"
mkdir "$files/export" "$files/work"
chmod 755 "$files" "$files/export"

cat >/run/ganesha.conf <<END
NFS_CORE_PARAM { Protocols = 3, 4; NFS_Port = 2049; MNT_Port = 20048; Enable_RQUOTA = false; Enable_NLM = false; mount_path_pseudo = false; }
NFSV4 { Graceless = true; Only_Numeric_Owners = true; }
EXPORT { Export_Id = 1; Path = $files/export; Pseudo = /vol; Access_Type = RW; Squash = No_Root_Squash; Protocols = 3, 4; Transports = TCP;
  SecType = sys; FSAL { Name = VFS; } }
END
answers() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
rpcbind -f -i >/run/rpcbind.log 2>&1 &
await 60 answers 111
ganesha.nfsd -F -f /run/ganesha.conf -L /run/ganesha.log -p /run/ganesha.pid -N NIV_EVENT >/run/ganesha.out 2>&1 &
server=$!
await 120 answers 2049
mount -t nfs -o vers=3,proto=tcp,mountproto=tcp,nolock,port=2049,mountport=20048 "127.0.0.1:$files/export" /mnt/v3
mount -t nfs -o vers=4.1,proto=tcp 127.0.0.1:/vol /mnt/v41
fact versions "$(grep -ow 'vers=[0-9.]*' /proc/mounts | tr '\n' ' ')"
say "Ganesha is mounted by both versions"
"$millrace" compare --work "$files/work" --out "$out" --path knfs:v3=/mnt/v3 --path knfs:v41=/mnt/v41 "$@" </dev/null
fact left "$(find "$files/export" -mindepth 1 | wc -l)"
umount /mnt/v3 /mnt/v41
kill "$server"
