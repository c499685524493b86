#!/bin/sh
# Collects what an audit needs of a Linux, Solaris, AIX or HP-UX host, in the layout of `millrace collect`. It only reads.
# usage: collect.sh [FOLDER]     writes FOLDER (default: millrace-HOST) and, where tar and gzip are there, FOLDER.tar.gz
#   MILLRACE_ROOT=/x  reads files below /x instead of /
# Under the name aix.sh, hpux.sh, linux.sh or solaris.sh it collects as on that system, else as on the one that uname names.
# Run it as root: as another user it lists the files that it may not read. It leaves out passwords, CHAP names, users of
# oranfstab and logins in URLs. Settings of databases on Linux: see the end. Plain Bourne shell, as /bin/sh of Solaris 8 is one.
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/usr/ucb:/usr/contrib/bin
export PATH
case $0 in
  *aix.sh) system=AIX ;;
  *hpux.sh) system=HP-UX ;;
  *linux.sh) system=Linux ;;
  *solaris.sh) system=SunOS ;;
  *) system=`uname -s` ;;
esac
case $system in
  AIX|HP-UX|Linux|SunOS) ;;
  *)
    echo "collect: does not know the system $system; it collects on AIX, HP-UX, Linux and SunOS" >&2
    exit 2
    ;;
esac
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
  echo "millrace-capture 2"
  echo "host $host"
  echo "system $system"
  echo "time `date -u '+%Y-%m-%dT%H:%M:%SZ'`"
} >"$out/MANIFEST"

# Leaves secrets out of what passes through: $1 is what it comes from. Of each kind of text only what rules read stays: values of known
# keys, known mount options, amounts. Comments go. The number of lines stays.
if nawk 'BEGIN { exit 0 }' </dev/null >/dev/null 2>&1; then awk=nawk; else awk=awk; fi
redact() {
  case $1 in
    *oranfstab) form=oranfstab ;;
    *.mount|*.mount.d/*) form=unit ;;
    /proc/cmdline) form=boot ;;
    /proc/*mount*|/etc/fstab|/etc/vfstab|/etc/mnttab|/etc/mtab|/etc/filesystems|/etc/auto*|mount*|nfsstat*) form=mounts ;;
    /proc/*|/sys*) form=plain ;;
    *.cnf) form=mysql ;;
    *.ora) form=oracle ;;
    *nfsmount.conf*) form=nfsmount ;;
    *sysctl*) form=sysctl ;;
    *modprobe*) form=modprobe ;;
    /etc/multipath*|'multipath -t') form=multipath ;;
    /etc/iscsi*|iscsiadm*) form=iscsi ;;
    /etc/hosts) form=hosts ;;
    /etc/security/limits*) form=columns ;;
    /etc/pam.d/*) form=pam ;;
    /etc/network/*) form=interfaces ;;
    /etc/netplan/*) form=netplan ;;
    /etc/systemd/network/*|/etc/NetworkManager/*|/etc/sysconfig/network*) form=network ;;
    /etc/rc.config.d/*|/etc/sysconfig/*) form=shell ;;
    */netfs) form=netfs ;;
    /etc/rc*|/etc/init.d/*) form=ndd ;;
    *.bash_profile) form=ulimit ;;
    *postgresql*) form=postgres ;;
    'ps '*) form=processes ;;
    *) form=plain ;;
  esac
  $awk -v form=$form "$redacting"
}
redacting='
function trim(s) { sub(/^[ \t\r]+/, "", s); sub(/[ \t\r]+$/, "", s); return s }
function known(list, key) { return key != "" && index(list, " " key " ") > 0 }
function plain(s) { return s ~ /^[][A-Za-z0-9_.:\/+"-]*$/ }
function login(s) { return index(s, "://") || index(s, "@") || (index(s, "%") && substr(s, 1, 1) != "[") }
function secret(key, n, i, w) {
  n = split(tolower(key), w, /[^a-z0-9]+/)
  for (i = 1; i <= n; i++) {
    if (w[i] ~ /^(pass|passphrase|pin|psk|pw|secret|token|key|community|cred|auth)$/ || w[i] ~ /pass$/ || w[i] ~ /pw$/ || w[i] ~ /passw/) return 1
  }
  return 0
}
function amount(key, v, n, i, w) {
  v = tolower(v); gsub(/["\047]/, "", v); v = trim(v)
  if (secret(key)) return 0
  if (v ~ /^(on|off|yes|no|true|false|y|n|auto|default|none|unlimited)$/) return 1
  n = v; gsub(/ /, "", n); if (n ~ /^[-+]?[0-9.]+(b|k|m|g|t|kb|mb|gb|tb|kib|mib|gib|us|ms|s|min|h|d)$/) return 1
  n = split(v, w, /[ \t,()]+/)
  for (i = 1; i <= n; i++) {
    if (w[i] != "" && w[i] !~ /^[-+]?(0x[0-9a-f]+|[0-9.]+(b|k|m|g|t|kb|mb|gb|tb|kib|mib|gib|us|ms|s|min|h|d)?)$/) return 0
  }
  return 1
}
function option(o, s, at, key) {
  s = o; gsub(/^[("\047;*-]+/, "", s); gsub(/[)"\047;*-]+$/, "", s)
  at = index(s, "=")
  if (!at) return (s == "" || known(options, s) || s ~ /^x-systemd\./) ? o : out
  key = substr(s, 1, at - 1)
  if ((known(valued, key) || key ~ /^x-systemd\./) && plain(substr(s, at + 1))) return o
  return key "=" out
}
function word(w, is_login, n, i, all, mark, kept, bare) {
  is_login = login(w)
  if (substr(w, 1, 1) == "/" && !is_login) return w
  bare = w; gsub(/^=+/, "", bare); gsub(/=+$/, "", bare)
  if (!index(w, ",") && !index(bare, "=")) return is_login ? out : w
  mark = ","
  if (!index(w, ",") && index(substr(w, 1, index(w, "=") - 1), "/")) mark = "/"
  n = split(w, all, mark)
  for (i = 1; i <= n; i++) kept = kept (i > 1 ? mark : "") option(all[i])
  return kept
}
function mounts(line, n, i, all, kept) {
  if (trim(line) ~ /^#/) return "#"
  n = split(line, all, /[ \t]+/)
  for (i = 1; i <= n && substr(all[i], 1, 1) != "#"; i++) kept = kept (i > 1 ? " " : "") word(all[i])
  return kept
}
function uncommented(v, hash, at, q, i, c) {
  q = substr(v, 1, 1)
  if (q == "\047" || q == "\"") {
    for (i = 2; i <= length(v); i++) {
      c = substr(v, i, 1)
      if (c == "\\" || (c == q && substr(v, i + 1, 1) == q)) i++
      else if (c == q) break
    }
    if (substr(v, i + 1) !~ /^[ \t]*,/) return substr(v, 1, i)
  }
  at = hash ? index(v, "#") : 0
  return at ? trim(substr(v, 1, at - 1)) : v
}
function keeps(key, v, k, n, i, all) {
  if (form == "iscsi")
    return key ~ /^node\.(session\.(cmds_max|err_timeo|initial_login_retry_max|iscsi|nr_sessions|queue_depth|reopen_max|scan|timeo|xmit)|conn\[0\]\.(iscsi|timeo)|discovery_port|leading_login|name$|startup|tpgt)/ ||
      key ~ /^(Target$|Current Portal|Persistent Portal|SID|Iface |iSCSI |Internal iscsid|Recovery Timeout|LUN Reset|Abort Timeout|HeaderDigest|DataDigest|MaxRecv|MaxXmit|FirstBurst|MaxBurst|ImmediateData|InitialR2T|MaxOutstandingR2T|Host Number|Attached scsi disk|scsi)/
  if (form == "sysctl") {
    k = key; sub(/^-+/, "", k); k = trim(k); gsub(/\//, ".", k)
    if (k ~ /(stable_secret|boot_id|uuid)$/) return 0
    gsub(/ /, "", v)
    return amount(k, v) || (known(sysctl, k) && plain(v))
  }
  if (form == "network") return known(network, key) && plain(v)
  if (form == "nfsmount") { k = tolower(key); return (known(tolower(options), k) || known(tolower(valued), k)) && plain(v) }
  if (form == "shell") { k = key; sub(/\[.*/, "", k); return amount(k, v) || known(shell, k) || (k ~ /^HP_/ && plain(v)) }
  if (form == "postgres") { k = tolower(key); return known(postgres, k) || (v != "" && !index(k, ".") && amount(k, v)) }
  if (form == "oracle") { k = tolower(key); sub(/^.*\./, "", k); return amount(k, v) || (known(oracle, k) && !index(v, "@")) }
  if (form == "mysql") {
    if (substr(key, 1, 1) == "!") return 1
    k = tolower(key); gsub(/-/, "_", k)
    sub(/^loose_/, "", k); sub(/^skip_/, "", k); sub(/^disable_/, "", k); sub(/^enable_/, "", k); sub(/^maximum_/, "", k)
    if (known(mysql, k) || (length(k) >= 8 && index(mysql, " " k))) return 1
    if (v == "") return k ~ /^innodb/ || length(k) < length(key)
    return !index(k, ".") && amount(k, v)
  }
  return 0
}
function setting(line, marks, comments, hash, s, i, c, at, key, rest, v, between, inner, more) {
  s = trim(line)
  if (s == "") return ""
  c = substr(s, 1, 1)
  if (index(comments, c)) return c
  if (c == "[") {
    inner = substr(s, 1, index(s, "]"))
    return inner != "" && substr(inner, 2) ~ /^[A-Za-z0-9_. "\/:\t-]*]$/ ? inner : "[" (inner == "" ? "?" : out)
  }
  for (at = 0; at < length(s); at++) if (index(marks, substr(s, at + 1, 1))) break
  if (at == length(s)) return keeps(s, "") ? s : "?"
  key = substr(s, 1, at); rest = substr(s, at + 1)
  v = trim(rest); if (index("=:", substr(v, 1, 1)) && index(marks, substr(v, 1, 1))) v = trim(substr(v, 2))
  between = substr(rest, 1, length(rest) - length(v))
  more = ""
  if (form == "postgres" && substr(v, 1, 1) == "\047") { more = v; v = uncommented(v, hash); more = trim(substr(more, length(v) + 1)) }
  else if (form == "postgres") { more = v; sub(/[ \t#].*/, "", v); more = trim(substr(more, length(v) + 1)) }
  else v = uncommented(v, hash)
  if (form == "postgres" && v ~ /^\047/ && (length(v) < 2 || v !~ /\047$/)) more = "?"
  more = more == "" || more ~ /^#/ ? "" : " ?"
  if (trim(key) == "" || key ~ /["\047$`;|&]/) return "?"
  if (v == "") return key between
  if (keeps(trim(key), v)) return key between v more
  return key (more != "" ? more : (between == "" ? " " : between) out)
}
function modules(line, continued, n, i, all, kept, w, at, bare, end) {
  continued = is_continued; is_continued = line ~ /\\$/
  if (substr(line, 1, 1) == "#" && !continued) { goes = 1; return is_continued ? "#\\" : "#" }
  n = split(trim(line), all, /[ \t]+/)
  if (!continued) { goes = all[1] != "options"; if (goes) return all[1] (is_continued ? " \\" : "") }
  if (goes) return is_continued ? "\\" : ""
  for (i = 1; i <= n; i++) {
    w = all[i]; end = ""; bare = w
    if (bare ~ /\\$/) { end = "\\"; bare = substr(bare, 1, length(bare) - 1) }
    at = index(bare, "=")
    if (at && !amount(substr(bare, 1, at - 1), substr(bare, at + 1))) w = substr(bare, 1, at) out end
    kept = kept (i > 1 ? " " : "") w
  }
  return (line ~ /^[ \t]/ ? " " : "") kept
}
function maps(line, s, at, key, v, said, end) {
  s = trim(line)
  if (s ~ /^[#!]/) return substr(s, 1, 1)
  at = match(s, /[ \t{"]/); if (!at) at = length(s) + 1
  key = substr(s, 1, at - 1); v = trim(substr(s, at))
  if (key == "" || key == "}" || (known(sections, key) && (v == "" || v ~ /^\{/))) return trim(key (v ~ /^\{/ ? " {" : ""))
  if (v ~ /^"/) { end = index(substr(v, 2), "\""); said = end ? substr(v, 1, end + 1) : v }
  else { end = match(v, /[ \t#!{}"]/); said = end ? substr(v, 1, end - 1) : v }
  return "\t" key " " (said == "" || known(multipath, key) || amount(key, said) ? said : "\"" out "\"")
}
function paths(line, s, at, key, n, all, v, kept) {
  s = line; sub(/#.*/, "", s)
  if (trim(s) == "dontroute") return s
  while ((at = index(s, ":")) > 0) {
    n = split(trim(substr(s, 1, at - 1)), all, /[ \t]+/); key = all[n]
    s = substr(s, at + 1); sub(/^[ \t]+/, "", s)
    v = s; sub(/[ \t].*/, "", v)
    s = substr(s, length(v) + 1)
    kept = kept (kept == "" ? "" : " ") key ": " (known(oranfstab, key) ? v : out)
    if (!known(oranfstab, key)) break
  }
  return kept
}
function only(line, what, count, s, at, n, i, all, kept) {
  s = trim(line)
  if (s ~ /^#/) return "#"
  at = match(s, what); if (!at) return ""
  s = substr(s, at); sub(/[;|&#`$].*/, "", s)
  n = split(s, all, /[ \t]+/)
  for (i = 1; i <= n && i <= count; i++) { if (!plain(all[i])) break; kept = kept (i > 1 ? " " : "") all[i] }
  return kept
}
function booted(line, n, i, all, at, key, v, kept, w) {
  n = split(line, all, / /)
  for (i = 1; i <= n; i++) {
    w = all[i]; at = index(w, "=")
    if (!at) { if (w != "" && !known(flags, w)) w = out }
    else { key = substr(w, 1, at - 1); v = substr(w, at + 1); if (!((known(boot, key) && plain(v)) || amount(key, v))) w = key "=" out }
    kept = kept (i > 1 ? " " : "") w
  }
  return kept
}
function unit(line, s, at, key, v) {
  s = trim(line)
  if (s ~ /^\[(Install|Mount|Unit)\]$/) return s
  at = index(s, "="); key = trim(substr(s, 1, at - 1)); v = trim(substr(s, at + 1))
  if (key == "Options") { v = mounts("," v); sub(/^,/, "", v); return key "=" v }
  return key ~ /^(What|Where|Type)$/ ? key "=" mounts(v) : ""
}
function process(line, n, i, all, kept) {
  if (line ~ /NLWP|PID/) return line
  n = split(trim(line), all, /[ \t]+/)
  for (i = 1; i <= n; i++) { kept = kept (i > 1 ? " " : "") all[i]; if (all[i] ~ /^ora_/) return kept }
  return ""
}
function init(line, kept, continued) {
  continued = is_continued || (line ~ /^[ \t]/ && !index(line, "="))
  is_continued = line ~ /[,\\][ \t]*$/
  if (continued && trim(line) !~ /^#/) { if (goes) return out; sub(/#.*/, "", line); return line }
  kept = setting(line, "=", "#", 1); goes = index(kept, out) > 0
  return kept
}
# Secrets that the words around them show.
function words(line, at, from, rest, kept, w, low, before) {
  while ((at = index(line, "://")) > 0) {
    kept = kept substr(line, 1, at + 2); line = substr(line, at + 3)
    w = line; sub(/[ \t"\047].*/, "", w)
    if (w ~ /@/) { before = w; sub(/@[^@]*$/, "", before); line = out substr(line, length(before) + 1) }
  }
  line = kept line
  low = tolower(line)
  if (low ~ /(password|passwd|passphrase|secret|psk|token|sst_auth|credential|auth\.username|chap)[a-z0-9_.-]*["\047 \t]*[=:|\t,]/ && low !~ /password_encryption|old_passwords|default_password_lifetime/) {
    at = match(low, /(password|passwd|passphrase|secret|psk|token|sst_auth|credential|auth\.username|chap)[a-z0-9_.-]*["\047 \t]*[=:|\t,]/)
    return substr(line, 1, at + RLENGTH - 1) " " out
  }
  return line
}
BEGIN {
    out = "[redacted]"
    options = " NFSv2 NFSv3 NFSv4 _netdev ac acl async atime auto bg bind cio convosync cto defaults delaylog dev devices dio "
    options = options "diratime dirsync discard exec fg forcedirectio fsc group grpid hard intr largefiles lazytime llock lock "
    options = options "logging migration nbmand noac noacl noatime noauto nobarrier nocto nodev nodevices nodiratime noexec "
    options = options "nofail noforcedirectio nofsc nogrpid nointr nolargefiles nollock nolock nologging nonbmand noposix "
    options = options "noquota nordirplus norelatime noresvport norootcontext nosetuid nosharecache nosub nosuid "
    options = options "notrunkdiscovery nouser noxattr owner posix private public quota rbind rbr rbw rbrw rdirplus rdma rdma6 "
    options = options "read relatime remote remount resvport ro rq rw setuid sharecache shared slave soft softerr softreval "
    options = options "nosoftreval strictatime suid sync tcp tcp6 trunkdiscovery udp udp6 user users v2 v3 v4 v4.0 v4.1 v4.2 "
    options = options "write write/setuid xattr link symlink printer vers "
    valued = " LABEL PARTLABEL PARTUUID UUID acdirmax acdirmin acregmax acregmin actimeo addr barrier biods bsize clientaddr "
    valued = valued "commit convosync data dev errors flags fstype local_lock lookupcache max_connect maxgroups mincache "
    valued = valued "minorversion mountaddr mountport mountproto mountvers namlen nconnect nfsvers numclust port proto retrans "
    valued = valued "retry rsize sec timeo timeout vers version write wsize xprtsec statvers bg fg intr nointr hard soft ac noac "
    valued = valued "sync dirsync acl lock cto rdirplus sharecache resvport posix fsc defaultproto defaultvers background "
    valued = valued "foreground softerr softreval trunkdiscovery log "
    postgres = " archive_mode autovacuum backend_flush_after bgwriter_delay bgwriter_lru_maxpages block_size "
    postgres = postgres "checkpoint_completion_target checkpoint_flush_after checkpoint_timeout config_file data_checksums "
    postgres = postgres "data_directory data_sync_retry debug_io_direct dynamic_shared_memory_type effective_cache_size "
    postgres = postgres "effective_io_concurrency external_pid_file fsync full_page_writes hba_file huge_pages "
    postgres = postgres "ignore_checksum_failure include include_dir include_if_exists io_method io_workers listen_addresses "
    postgres = postgres "log_checkpoints maintenance_io_concurrency max_connections max_wal_size min_wal_size port "
    postgres = postgres "random_page_cost recovery_init_sync_method server_version server_version_num shared_buffers "
    postgres = postgres "shared_memory_size_in_huge_pages shared_memory_type synchronous_commit track_counts track_io_timing "
    postgres = postgres "track_wal_io_timing unix_socket_directories wal_buffers wal_compression wal_init_zero wal_level "
    postgres = postgres "wal_recycle wal_sync_method zero_damaged_pages "
    mysql = " aria_log_dir_path basedir binlog_format datadir default_storage_engine flavor innodb_buffer_pool_size "
    mysql = mysql "innodb_change_buffering innodb_data_file_buffering innodb_data_home_dir innodb_doublewrite "
    mysql = mysql "innodb_flush_log_at_trx_commit innodb_flush_method innodb_io_capacity innodb_io_capacity_max "
    mysql = mysql "innodb_log_file_size innodb_log_group_home_dir innodb_page_size innodb_redo_log_capacity "
    mysql = mysql "innodb_undo_directory innodb_use_native_aio innodb_version log_bin log_bin_basename pid_file port socket sync_binlog tmpdir "
    mysql = mysql "version version_comment version_compile_machine version_compile_os "
    oracle = " _enable_listio _kgl_large_heap_warning_threshold audit_file_dest background_dump_dest compatible control_files "
    oracle = oracle "core_dump_dest cpu_count db_block_size db_create_file_dest db_create_online_log_dest_1 "
    oracle = oracle "db_create_online_log_dest_2 db_create_online_log_dest_3 db_create_online_log_dest_4 "
    oracle = oracle "db_create_online_log_dest_5 db_file_multiblock_read_count db_name db_recovery_file_dest db_unique_name "
    oracle = oracle "db_writer_processes dbwr_lwp_count diagnostic_dest disk_asynch_io filesystemio_options hpux_sched_noage "
    oracle = oracle "instance_name lgwr_lwp_count log_archive_dest log_archive_dest_1 log_archive_dest_2 log_archive_dest_3 "
    oracle = oracle "log_archive_dest_4 log_archive_duplex_dest log_archive_format log_archive_start memory_target processes "
    oracle = oracle "spfile standby_archive_dest undo_management use_large_pages user_dump_dest "
    multipath = " alias checker deferred_remove detect_checker detect_path_checker detect_prio dev_loss_tmo eh_deadline failback "
    multipath = multipath "fast_io_fail_tmo features find_multipaths flush_on_last_del getuid_callout hardware_handler "
    multipath = multipath "no_path_retry path_checker path_grouping_policy path_selector prio prio_callout product recheck_wwid "
    multipath = multipath "retain_attached_hw_handler revision rr_weight user_friendly_names vendor wwid "
    sections = " blacklist blacklist_exceptions defaults device devices multipath multipaths overrides protocol "
    sysctl = " net.core.default_qdisc net.ipv4.tcp_congestion_control sunrpc.transports "
    boot = " default_hugepagesz elevator hugepagesz intel_iommu iommu mitigations numa_balancing transparent_hugepage "
    flags = " nohz nomodeset noquiet nosmt quiet ro rw splash fips nopti nosplash "
    network = " DEVICE IPADDR MTU MTUBytes Name interface-name mtu "
    oranfstab = " server path local export mount nfs_version mnt_timeout "
    shell = " IP_ADDRESS NDD_NAME NDD_VALUE ORACLEASM_ENABLED ORACLEASM_GID ORACLEASM_SCANBOOT ORACLEASM_SCANEXCLUDE "
    shell = shell "ORACLEASM_SCANORDER ORACLEASM_UID SUBNET_MASK TRANSPORT_NAME "
    if (form == "sysctl" || form == "network" || form == "nfsmount" || form == "mysql") comments = "#;"
    else comments = "#"
}
{
  sub(/\r$/, "")
  if (form == "plain") kept = $0
  else if (form == "mounts") kept = mounts($0)
  else if (form == "iscsi") kept = setting($0, "=:", comments, 1)
  else if (form == "sysctl" && $0 ~ /^# \/[A-Za-z0-9_.\/+-]*$/) kept = $0
  else if (form == "sysctl" || form == "network" || form == "nfsmount") kept = setting($0, "=", comments, 0)
  else if (form == "postgres") kept = setting($0, "= \t\047", comments, 1)
  else if (form == "mysql" || form == "shell") kept = setting($0, "=", comments, 1)
  else if (form == "oracle") kept = init($0)
  else if (form == "modprobe") kept = modules($0)
  else if (form == "multipath") kept = maps($0)
  else if (form == "oranfstab") kept = paths($0)
  else if (form == "boot") kept = booted($0)
  else if (form == "unit") kept = unit($0)
  else if (form == "hosts") { kept = $0; sub(/#.*/, "", kept) }
  else if (form == "columns") { kept = $0; sub(/#.*/, "", kept); if (kept ~ /^[ \t]*\*[^ \t]/ || NF > 4 && kept !~ /^[ \t]*$/ && split(trim(kept), unused, /[ \t]+/) > 4) kept = out }
  else if (form == "pam") kept = only($0, "pam_limits[.]so", 1)
  else if (form == "interfaces") kept = only($0, "^(iface|mtu) ", 2)
  else if (form == "netfs") kept = only($0, "sysctl -p|mount -a", 2)
  else if (form == "ndd") kept = only($0, "ndd -set", 5)
  else if (form == "ulimit") kept = only($0, "ulimit", 3)
  else if (form == "netplan") { kept = trim($0); if (kept !~ /^[A-Za-z0-9_.-]+:$/ && kept !~ /^mtu:[ ]*[0-9]+$/) kept = "" }
  else if (form == "processes") kept = process($0)
  else kept = ""
  print form == "plain" ? words(kept) : kept
}
'
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
# Whether this user sees what is not there in a folder, which may be missing itself.
shows() {
  at=$1
  while [ ! -e "$root$at" ] && [ "$at" != / ]; do at=`dirname "$at"`; done
  [ -x "$root$at" ]
}
# Where paths of databases lead.
follow() {
  for path in "$@"; do
    [ -e "$root$path" ] || [ -h "$root$path" ] || continue
    slug=`echo "readlink -f $path" | sed -e 's/[^A-Za-z0-9][^A-Za-z0-9]*/-/g' -e 's/-$//'`
    real=`readlink -m "$root$path" 2>/dev/null`
    if [ -z "$real" ]; then real=`readlink -f "$root$path" 2>/dev/null`; fi
    echo "$real" | sed "s#^$root/#/#" >"$out/commands/$slug.txt"
    listed "commands/$slug.txt" 0 "readlink -f $path"
  done
}
# Copies of files.
copy() {
  for file in "$@"; do
    folder=`dirname "$file"`
    # A link to /dev/null masks a file of the same name elsewhere.
    case `ls -ld "$root$file" 2>/dev/null` in
      *'-> /dev/null') mkdir -p "$out/files$folder"; : >"$out/files$file"; listed "files$file" 0 "$file"; continue ;;
    esac
    [ -f "$root$file" ] || continue
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
# Names of the files in folders of configuration, so that a reader sees what is missing; or that a file or a folder is not there.
list() {
  for place in "$@"; do
    if [ -d "$root$place" ] && [ ! -r "$root$place" ]; then
      listed "files$place" 126 "$place"
    elif [ -d "$root$place" ]; then
      slug=`echo "ls $place/" | sed -e 's/[^A-Za-z0-9][^A-Za-z0-9]*/-/g' -e 's/-$//'`
      ls -Ap "$root$place" 2>/dev/null | grep -v '/$' >"$out/commands/$slug.txt"
      listed "commands/$slug.txt" 0 "ls $place/"
    else
      [ -f "$root$place" ] || listed "files$place" 2 "$place"
    fi
  done
}
# Files of folders, given as patterns.
copy_all() {
  for pattern in "$@"; do
    for file in $root$pattern; do
      if [ -f "$file" ] || [ -h "$file" ]; then
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
# What belongs to each Oracle home that the table $1 lists.
oracle_homes() {
  for home in `sed -n 's/^[^#:]*:\(\/[^:]*\):.*/\1/p' "$root$1" 2>/dev/null | sort -u`; do
    copy "$home/dbs/oranfstab"
    copy_all "$home/dbs/init*.ora"
    # An instance reads the first of spfileSID.ora, spfile.ora and initSID.ora. The first two are binary.
    for init in $root$home/dbs/init*.ora; do
      [ -f "$init" ] || continue
      sid=`echo "$init" | sed -e 's#.*/init##' -e 's#\.ora$##'`
      for instead in "$home/dbs/spfile$sid.ora" "$home/dbs/spfile.ora"; do
        ls -ld "$root$instead" >/dev/null 2>&1 || listed "files$instead" 2 "$instead"
      done
    done
  done
}

collect_aix() {
  run oslevel -s
  run oslevel -r
  run bootinfo -K
  run getconf KERNEL_BITMODE
  run prtconf
  for tool in no nfso vmo ioo schedo; do
    # -F adds the restricted ones; old levels do not know it.
    if $tool -F -a >/dev/null 2>&1; then run $tool -F -a; else run $tool -a; fi
  done
  run lsattr -El sys0
  run lsattr -El aio0
  for device in `lsdev -C -F name 2>/dev/null`; do
    case $device in
      hdisk[0-9]*|ent[0-9]*|en[0-9]*|fcs[0-9]*|fscsi[0-9]*|iscsi[0-9]*) run lsattr -El $device ;;
    esac
  done
  run lsdev -C
  run lspath
  run lslpp -Lc
  run instfix -i
  run mount
  run nfsstat -m
  run netstat -rn
  copy /etc/filesystems /etc/security/limits /etc/tunables/nextboot /etc/hosts /etc/oranfstab
  oracle_homes /etc/oratab
}

collect_hpux() {
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
  oracle_homes /etc/oratab
}

collect_solaris() {
  run isainfo -kv
  run prtconf
  run psrinfo
  run modinfo
  run ifconfig -a
  run mount -v
  run nfsstat -m
  run netstat -rn
  run projects -l
  run showrev -p
  copy /etc/release /etc/system /etc/vfstab /etc/mnttab /etc/project /etc/hosts /etc/oranfstab /var/opt/oracle/oranfstab /etc/default/nfs
  copy_all '/etc/hostname.*' '/platform/*/kernel/drv/ce.conf' '/platform/*/kernel/drv/ge.conf' '/kernel/drv/*.conf' '/etc/rc2.d/S*'
  for parameter in tcp_recv_hiwat tcp_xmit_hiwat tcp_max_buf tcp_cwnd_max tcp_wscale_always tcp_tstamp_always tcp_sack_permitted; do
    run ndd -get /dev/tcp $parameter
  done
  # From Solaris 11 on these take the place of ndd.
  run ipadm show-prop
  run dladm show-linkprop
  run ps -efL
  run fcinfo hba-port
  run iscsiadm list target -v
  run mpathadm list lu
  run iostat -En
  oracle_homes /var/opt/oracle/oratab
}

# Option files of MySQL and MariaDB, which ignore one that every user may write.
options() {
  for pattern in "$@"; do
    for file in $root$pattern; do
      [ -f "$file" ] || continue
      plain=`echo "$file" | sed "s#^$root##"`
      case `ls -lL "$file"` in
        ????????w*) listed "files$plain" 2 "$plain" ;;
        *) copy "$plain" ;;
      esac
    done
  done
}
# What a file of PostgreSQL includes, and what that includes; more is left to the audit to miss.
includes() {
  [ -f "$root$1" ] || return 0
  sed -n "s/^[ 	]*[Ii][Nn][Cc][Ll][Uu][Dd][Ee][A-Za-z_]*[ 	]*=*[ 	]*'\([^']*\)'.*/\1/p" "$root$1" 2>/dev/null | while read -r found; do
    case $found in
      /*) ;;
      *) found=`dirname "$1"`/$found ;;
    esac
    if [ -d "$root$found" ]; then
      list "$found"
      copy_all "$found/*.conf"
    elif [ "$2" = 1 ]; then
      copy "$found"
      includes "$found" 2
    else
      copy "$found"
    fi
  done
}
# Data directories of clusters that run.
running() {
  for at in $root/proc/[0-9]*; do
    case `cat "$at/comm"` in
      postgres) readlink "$at/cwd" ;;
    esac
  done 2>/dev/null | sort -u
}
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
# Asks a program for its configuration: in an empty environment, and 5 seconds at most. An incomplete answer is not an answer.
ask() {
  if timeout 5 true 2>/dev/null; then limit='timeout 5'; else limit=; fi
  slug=`echo "$*" | sed -e 's/[^A-Za-z0-9][^A-Za-z0-9]*/-/g' -e 's/-$//'`
  $limit env -i PATH="$PATH" LC_ALL=C "$@" >"$out/raw" 2>"$out/complaint" </dev/null
  code=$?
  if grep -i 'permission denied' "$out/raw" "$out/complaint" >/dev/null; then
    code=126
    echo 'permission denied' >"$out/raw"
  fi
  redact "$*" <"$out/raw" | sed -e '/^alias$/d' -e '/^blacklist$/d' >"$out/commands/$slug.txt"
  rm -f "$out/raw" "$out/complaint"
  listed "commands/$slug.txt" $code "$*"
}
collect_linux() {
  run sysctl -a
  copy /etc/os-release /etc/redhat-release /etc/oracle-release /etc/debian_version /etc/fstab /etc/hosts /etc/sysctl.conf /etc/modprobe.conf \
    /etc/security/limits.conf /etc/pam.d/login /etc/pam.d/su /etc/pam.d/sshd /etc/pam.d/system-auth /etc/pam.d/common-session \
    /etc/iscsi/iscsid.conf /etc/multipath.conf /etc/sysconfig/oracleasm /etc/network/interfaces /etc/init.d/netfs \
    /etc/nfsmount.conf /etc/auto.master /etc/tuned/active_profile /etc/oranfstab /home/oracle/.bash_profile \
    /proc/cmdline /proc/meminfo /proc/cpuinfo /proc/mounts /proc/self/mountinfo /proc/self/mountstats /proc/net/route
  for base in /etc /run /usr/local/lib /usr/lib /lib; do
    copy_all "$base/sysctl.d/*.conf" "$base/modprobe.d/*" "$base/systemd/system/*.mount" "$base/systemd/system/*.mount.d/*.conf"
    list $base/sysctl.d $base/modprobe.d
  done
  list /etc/multipath/conf.d /etc/nfsmount.conf.d /etc/auto.master.d /etc/sysctl.conf /etc/modprobe.conf /etc/multipath.conf \
    /etc/nfsmount.conf /etc/auto.master /etc/fstab /etc/init.d/netfs /etc/sysconfig/oracleasm /home/oracle/.bash_profile
  copy_all '/etc/security/limits.d/*' '/etc/nfsmount.conf.d/*.conf' '/etc/auto.master.d/*.autofs' '/etc/auto.[!m]*' \
    '/etc/multipath/conf.d/*.conf' '/etc/sysconfig/network-scripts/ifcfg-*' '/etc/netplan/*' '/etc/systemd/network/*'
  options '/etc/my.cnf' '/etc/my.cnf.d/*.cnf' '/etc/mysql/*.cnf' '/etc/mysql/*/*.cnf'
  list /etc/my.cnf.d /etc/mysql /etc/mysql/conf.d /etc/mysql/mariadb.conf.d /etc/mysql/mysql.conf.d
  copy /var/lib/mysql/mysqld-auto.cnf
  # Clusters: those of Debian and Red Hat, and those that run.
  for conf in $root/etc/postgresql/*/*/postgresql.conf $root/var/lib/pgsql/data/postgresql.conf $root/var/lib/pgsql/*/data/postgresql.conf \
    `running | sed -e "s#^#$root#" -e 's#$#/postgresql.conf#'`; do
    [ -f "$conf" ] || continue
    plain=`echo "$conf" | sed "s#^$root##"`
    copy "$plain"
    includes "$plain" 1
    data=`sed -n "s/^[ 	]*data_directory[ 	]*=*[ 	]*'\([^']*\)'.*/\1/p" "$conf" 2>/dev/null | tail -1`
    if [ -z "$data" ]; then data=`dirname "$plain"`; fi
    copy "$data/postgresql.auto.conf" "$data/PG_VERSION"
    if shows "$data"; then list "$data/postgresql.auto.conf" "$data/PG_VERSION"; fi
    follow "$data" "$data/pg_wal" "$data/pg_xlog"
    for link in $root$data/pg_tblspc/*; do
      follow `echo "$link" | sed "s#^$root##"`
    done
  done
  follow /var/lib/mysql
  oracle_homes /etc/oratab
  (small; drivers) | sed "s#^$root##" | redact /sys >"$out/commands/grep-H-sys.txt"
  listed commands/grep-H-sys.txt 0 "grep -H . /sys"
  run ip address
  run ip route show
  run multipath -l
  if [ -z "$root" ]; then
    ask multipath -t
    ask systemd-analyze cat-config sysctl.d
    ask modprobe -c
    if [ -f /etc/nfsmount.conf ] || [ -d /etc/nfsmount.conf.d ]; then ask nfsconf --file /etc/nfsmount.conf --dump; fi
  fi
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
}

# Databases: run these yourself as a user who may, with their output into FOLDER/commands under these names, before packing:
#   psql -A -F '|' -c 'SELECT name, setting, unit, pending_restart FROM pg_settings'   psql-pg-settings.txt
#   mysql -e 'SHOW GLOBAL VARIABLES'                                                   mysql-SHOW-VARIABLES.txt
#   sqlplus: SHOW PARAMETER; SELECT * FROM v$dnfs_servers                              sqlplus-show-parameter.txt, sqlplus-v-dnfs-servers.txt
#   sqlplus: SELECT member FROM v$logfile; SELECT name FROM v$datafile                 sqlplus-v-logfile.txt, sqlplus-v-datafile.txt
run uname -a
run hostname
case $system in
  AIX) collect_aix ;;
  HP-UX) collect_hpux ;;
  SunOS) collect_solaris ;;
  *) collect_linux ;;
esac
finish
