//! PostgreSQL in a container's /dev/shm of 64 MiB, the default of docker, podman and Kubernetes.

use crate::support::filer::Filer;
use crate::support::postgres::{database_user, give_to_database_user, server_programs};
use crate::support::{
    Scratch, find_program, is_root, may_make_namespaces, millrace, preload_library, skip, skip_unsupported, text,
};
use std::process::Command;

/// Arguments: folder of the runtime directory, user, group, URL, folder of sockets, seconds.
const SCRIPT: &str = r#"
shm=$1 uid=$2 gid=$3 url=$4 sockets=$5 seconds=$6
mount -t tmpfs -o size=64m,mode=700,uid=$uid,gid=$gid none "$shm"
as_user="setpriv --reuid $uid --regid $gid --clear-groups --no-new-privs"
exec_in="$as_user $MILLRACE exec --mount /db=$url&close=nothing --"
$exec_in initdb -D /db/pg >"$sockets/initdb" 2>&1 || { cat "$sockets/initdb"; exit 1; }
$exec_in postgres -D /db/pg -c listen_addresses= -k "$sockets" -c max_wal_size=64MB >"$sockets/log" 2>&1 &
server=$!
tries=0
until $as_user psql -h "$sockets" -c 'select 1' postgres >/dev/null 2>&1; do
    tries=$((tries + 1)); [ $tries -lt 300 ] || { cat "$sockets/log"; exit 1; }
    sleep 0.1
done
$as_user pgbench -h "$sockets" -i -q -s 10 postgres
$as_user pgbench -h "$sockets" -n -c 8 -j 2 -T "$seconds" postgres
$as_user psql -h "$sockets" -Atc 'select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history)' postgres
$as_user $MILLRACE nfs counters | grep 'kept until COMMIT'
kill -INT $server
wait $server
grep -E 'PANIC|signal 7' "$sockets/log" || echo unharmed
"#;

fn in_64_mib(label: &str, seconds: u32) {
    let Some(programs) = server_programs() else { return skip("PostgreSQL server programs are not installed") };
    if !is_root() || !may_make_namespaces() || find_program("pgbench").is_none() || find_program("setpriv").is_none() {
        return skip_unsupported("no root, no namespaces, no pgbench or no setpriv");
    }
    let scratch = Scratch::new(label);
    let filer = Filer::start(&scratch, &[]);
    give_to_database_user(filer.export());
    let (shm, sockets) = (scratch.folder("shm"), scratch.folder("sockets"));
    give_to_database_user(&sockets);
    let (uid, gid) = database_user();
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let output = Command::new("unshare")
        .args(["--pid", "--mount-proc", "--kill-child", "--fork", "sh", "-ec", SCRIPT, "sh"])
        .arg(&shm)
        .args([uid.to_string(), gid.to_string(), filer.url.clone()])
        .arg(&sockets)
        .arg(seconds.to_string())
        .env("MILLRACE", millrace().get_program())
        .env("MILLRACE_PRELOAD", preload_library())
        .env("MILLRACE_RUNTIME_DIR", &shm)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .current_dir("/")
        .output()
        .unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for part in ["number of failed transactions: 0 (0.000%)", "\nt\n", " of 16MiB\n", "\nunharmed\n"] {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
}

#[test]
#[ignore = "nightly: a cluster and a load, half a minute"]
fn eight_sessions_work_in_a_dev_shm_of_64_mib() {
    in_64_mib("pg-shm", 5);
}

#[test]
#[ignore = "nightly: a minute of pgbench"]
fn eight_sessions_work_a_minute_in_a_dev_shm_of_64_mib() {
    in_64_mib("pg-shm-minute", 60);
}
