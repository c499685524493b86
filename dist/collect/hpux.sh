#!/bin/sh
# Collects what an audit needs of an HP-UX host, in the layout of `millrace collect`. It only reads.
# usage: hpux.sh [FOLDER]     writes FOLDER (default: millrace-HOST) and, where tar and gzip are there, FOLDER.tar.gz
#   MILLRACE_ROOT=/x  reads files below /x instead of /
# Run as root for all of it; as another user what may not be read is listed as such. Passwords, CHAP names, users of
# oranfstab and logins in URLs are left out. 
system=HP-UX
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/usr/contrib/bin
export PATH
# --- what follows up to the next line of this form is the same in each script of this folder ---
umask 077
host=`hostname 2>/dev/null || uname -n`
out=${1:-millrace-$host}
root=${MILLRACE_ROOT:-}
if mkdir "$out"; then :; else
  echo "collect: cannot make $out; name a folder that does not exist" >&2
  exit 2
fi
mkdir "$out/commands" "$out/files"
user=`(id 2>/dev/null || echo 'uid=?(unknown)') | sed 's/^[^(]*(\([^)]*\)).*/\1/'`
tab=`printf '\t' 2>/dev/null || echo x | tr x '\011'`
{
  echo "millrace-capture 1"
  echo "host $host"
  echo "system $system"
  echo "time `date -u '+%Y-%m-%dT%H:%M:%SZ'`"
} >"$out/MANIFEST"

# Leaves secrets out of what passes through: $1 is what it comes from.
redact() {
  case $1 in
    *oranfstab*) sed -e 's/^\([ 	]*user[ 	]*[:=]\).*/\1 [redacted]/' -e 's/^\([ 	]*mount_user[ 	]*[:=]\).*/\1 [redacted]/' \
      -e 's/^\([ 	]*community[ 	]*[:=]\).*/\1 [redacted]/' | redact_all ;;
    *iscsi*) sed 's/\([Uu]ser[Nn]ame[a-z_]*[ 	]*[:=][ 	]*\).*/\1[redacted]/' | redact_all ;;
    *) redact_all ;;
  esac
}
redact_all() {
  sed -e 's/password_encryption/pw_encryption_kept/g' \
    -e 's#\(://\)[^/ @]*@#\1[redacted]@#g' \
    -e 's/^\([ 	#]*[A-Za-z_.-]*[Pp][Aa][Ss][Ss][Ww][Oo][Rr][Dd][A-Za-z_.-]*[ 	]*[=:|	]\).*/\1 [redacted]/' \
    -e 's/\([Pp][Aa][Ss][Ss][Ww][Oo][Rr][Dd][A-Za-z_.-]*[ 	]*[=:|	][ 	]*\)[^ ,;]*/\1[redacted]/g' \
    -e 's/\([Pp]assphrase[A-Za-z_.-]*[ 	]*[=:|	][ 	]*\)[^ ,;]*/\1[redacted]/g' \
    -e 's/\([Ss]ecret[A-Za-z_.-]*[ 	]*[=:|	][ 	]*\)[^ ,;]*/\1[redacted]/g' \
    -e 's/\([Cc][Hh][Aa][Pp][A-Za-z_.-]*[ 	]*[=:|	][ 	]*\)[^ ,;]*/\1[redacted]/g' \
    -e 's/\(psk[ 	]*[=:|	][ 	]*\)[^ ,;]*/\1[redacted]/g' \
    -e 's/\(sst_auth[ 	]*[=:|	][ 	]*\)[^ ,;]*/\1[redacted]/g' \
    -e 's/pw_encryption_kept/password_encryption/g'
}
listed() {
  echo "entry $1$tab$2$tab$user$tab$3" >>"$out/MANIFEST"
}
# The output of a command, given as words.
run() {
  slug=`echo "$*" | sed -e 's/[^A-Za-z0-9][^A-Za-z0-9]*/-/g' -e 's/^-//' -e 's/-$//'`
  "$@" >"$out/raw" 2>"$out/complaint" </dev/null
  code=$?
  case $code in
    126|127) echo "there is no such command" >"$out/raw" ;;
  esac
  redact "$*" <"$out/raw" >"$out/commands/$slug.txt"
  rm -f "$out/raw" "$out/complaint"
  listed "commands/$slug.txt" $code "$*"
}
# Copies of files.
copy() {
  for file in "$@"; do
    [ -f "$root$file" ] || continue
    folder=`dirname "$file"`
    mkdir -p "$out/files$folder"
    if [ -r "$root$file" ]; then
      redact "$file" <"$root$file" >"$out/files$file" 2>/dev/null
      listed "files$file" $? "$file"
    else
      echo "permission denied" >"$out/files$file"
      listed "files$file" 126 "$file"
    fi
  done
}
# Files of folders, given as patterns.
copy_all() {
  for pattern in "$@"; do
    for file in $root$pattern; do
      if [ -f "$file" ]; then
        plain=`echo "$file" | sed "s#^$root##"`
        copy "$plain"
      fi
    done
  done
}
finish() {
  # The archive lies beside the folder and holds it by its own name.
  parent=`dirname "$out"`
  base=`basename "$out"`
  if (cd "$parent" && tar cf - "$base" | gzip) >"$out.tar.gz" 2>/dev/null; then
    echo "written: $out.tar.gz (and the folder $out, to be reviewed before you pass it on)"
  else
    rm -f "$out.tar.gz"
    echo "written: $out"
  fi
}
# --- the same in each script up to here ---

run uname -a
run hostname
run getconf KERNEL_BITS
run machinfo
run kctune -v
run swlist -l bundle
run swlist -l product
run swlist -l patch
run ioscan -fnkC lan
run netstat -in
run netstat -rn
run mount -v
run nfsstat -m
run vgdisplay -v
for instance in `ioscan -kfC lan 2>/dev/null | awk '$1 == "lan" { print $2 }'`; do
  run lanadmin -m $instance
  run lanadmin -x $instance
done
for parameter in tcp_recv_hiwater_def tcp_xmit_hiwater_def tcp_recv_hiwater_max tcp_ts_enable tcp_sack_enable; do
  run ndd -get /dev/tcp $parameter
done
copy /stand/system /etc/fstab /etc/mnttab /etc/hosts /etc/oranfstab /var/opt/oracle/oranfstab /etc/rc.config.d/nddconf /etc/rc.config.d/nfsconf \
  /etc/rc.config.d/netconf
copy_all '/etc/rc.config.d/hp*conf'
for home in `sed -n 's/^[^#:]*:\(\/[^:]*\):.*/\1/p' "$root/etc/oratab" 2>/dev/null | sort -u`; do
  copy "$home/dbs/oranfstab"
  copy_all "$home/dbs/init*.ora"
done
finish
