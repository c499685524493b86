#!/bin/sh
# Collects what an audit needs of a Linux host, in the layout of `millrace collect`. It only reads.
# usage: linux.sh [FOLDER]     writes FOLDER (default: millrace-HOST) and, where tar and gzip are there, FOLDER.tar.gz
#   MILLRACE_ROOT=/x  reads files below /x instead of /
# Run as root for all of it; as another user what may not be read is listed as such. Passwords, CHAP names, users of
# oranfstab and logins in URLs are left out. Settings of databases: see the end.
system=Linux
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin
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
run sysctl -a
copy /etc/os-release /etc/redhat-release /etc/oracle-release /etc/debian_version /etc/fstab /etc/hosts /etc/sysctl.conf /etc/modprobe.conf \
  /etc/security/limits.conf /etc/pam.d/login /etc/pam.d/su /etc/pam.d/sshd /etc/pam.d/system-auth /etc/pam.d/common-session \
  /etc/iscsi/iscsid.conf /etc/iscsi.conf /etc/multipath.conf /etc/sysconfig/oracleasm /etc/network/interfaces /etc/init.d/netfs \
  /etc/nfsmount.conf /etc/nfs.conf /etc/tuned/active_profile /etc/oranfstab /etc/my.cnf /home/oracle/.bash_profile \
  /proc/cmdline /proc/meminfo /proc/cpuinfo /proc/mounts /proc/self/mountinfo /proc/self/mountstats /proc/net/route
copy_all '/etc/sysctl.d/*.conf' '/usr/lib/sysctl.d/*.conf' '/run/sysctl.d/*.conf' '/etc/modprobe.d/*' '/etc/security/limits.d/*' \
  '/etc/multipath/conf.d/*' '/etc/sysconfig/network-scripts/ifcfg-*' '/etc/netplan/*' '/etc/systemd/network/*' '/etc/my.cnf.d/*' \
  '/etc/mysql/*.cnf' '/etc/mysql/*/*.cnf' '/etc/postgresql/*/*/postgresql.conf'
for home in `sed -n 's/^[^#:]*:\(\/[^:]*\):.*/\1/p' "$root/etc/oratab" 2>/dev/null | sort -u`; do
  copy "$home/dbs/oranfstab"
  copy_all "$home/dbs/init*.ora"
done
# Many small files in one: PATH:TEXT.
small() {
  grep -H . $root/sys/block/*/queue/scheduler $root/sys/block/*/queue/nr_requests $root/sys/block/*/queue/read_ahead_kb \
    $root/sys/block/*/queue/max_sectors_kb $root/sys/block/*/queue/rotational $root/sys/block/*/queue/rq_affinity \
    $root/sys/block/*/device/queue_depth $root/sys/block/*/device/vendor $root/sys/block/*/device/model $root/sys/block/*/device/timeout \
    $root/sys/block/*/alignment_offset $root/sys/block/*/*/start $root/sys/block/*/*/alignment_offset \
    $root/sys/class/net/*/mtu $root/sys/class/net/*/speed $root/sys/class/net/*/operstate \
    $root/sys/class/fc_host/*/speed $root/sys/class/fc_host/*/port_state $root/sys/class/fc_host/*/symbolic_name \
    $root/sys/class/iscsi_session/*/targetname $root/sys/class/iscsi_session/*/recovery_tmo \
    $root/sys/class/nvme-subsystem/*/iopolicy $root/sys/class/nvme-subsystem/*/model \
    $root/sys/module/*/parameters/* $root/sys/kernel/mm/transparent_hugepage/enabled $root/sys/kernel/mm/transparent_hugepage/defrag 2>/dev/null
}
drivers() {
  for nic in `ls "$root/sys/class/net" 2>/dev/null`; do
    link=`ls -l "$root/sys/class/net/$nic/device/driver" 2>/dev/null | sed 's#.*/##'`
    if [ -n "$link" ]; then echo "/sys/class/net/$nic/device/driver:$link"; fi
  done
}
(small; drivers) | sed "s#^$root##" | redact /sys >"$out/commands/grep-H-sys.txt"
listed commands/grep-H-sys.txt 0 "grep -H . /sys"
run ip address
run ip route show
run multipath -l
run iscsiadm -m session -P 3
run iscsiadm -m node -o show
run systemctl list-unit-files --type=service --no-legend --no-pager
if [ -d /var/lib/dpkg ]; then run dpkg-query -W; else run rpm -qa; fi
for nic in `ls /sys/class/net 2>/dev/null`; do
  [ -e "/sys/class/net/$nic/device" ] || continue
  run ethtool "$nic"
  run ethtool -i "$nic"
  run ethtool -a "$nic"
  run ethtool -k "$nic"
  run ethtool -g "$nic"
done
# Databases: run these yourself as a user who may, with their output into FOLDER/commands under these names, before packing:
#   psql -A -F '|' -c 'SELECT name, setting, unit, pending_restart FROM pg_settings'   psql-pg-settings.txt
#   mysql -e 'SHOW GLOBAL VARIABLES'                                                   mysql-SHOW-VARIABLES.txt
#   sqlplus: SHOW PARAMETER; SELECT * FROM v$dnfs_servers                              sqlplus-show-parameter.txt, sqlplus-v-dnfs-servers.txt
finish
