//! A host that runs a page's commands. It has the programs and libraries of this host and nothing
//! else of it. Files that it writes are in memory, on top of an overlay. It has its own processes,
//! network and host name. Millrace is where `make install` puts it, PATH is Debian's, and
//! PostgreSQL is as its package leaves it: a cluster main that runs on port 5432.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::blocks::{Block, Mark};
use super::support::{self, Scratch, find_program, is_root, may_make_namespaces, skip, skip_unsupported};

const SECONDS_MAX: u32 = 300;
const SECONDS_MAX_AT_NIGHT: u32 = 3600;

/// Sets up the host, from a shell in new namespaces. $1: directory of the test, $2: millrace, $3:
/// its library, $4: PostgreSQL's version.
const HOST: &str = r#"
set -eu
mount --make-rprivate /
mkdir "$1/over"
mount -t tmpfs -o mode=755 tmpfs "$1/over"
mkdir "$1/over/upper" "$1/over/work" "$1/over/root"
r=$1/over/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/over/upper,workdir=$1/over/work" "$r"
mount -t proc proc "$r/proc"
# Settings of the kernel are those of the host: to be read only.
mount --bind "$r/proc/sys" "$r/proc/sys"
mount -o remount,bind,ro "$r/proc/sys"
mount -t sysfs sysfs "$r/sys"
mount -t cgroup2 cgroup2 "$r/sys/fs/cgroup" || true
mount -o remount,bind,ro "$r/sys"
mount --rbind /dev "$r/dev"
mount -t tmpfs -o mode=1777 tmpfs "$r/dev/shm"
for place in root home srv usr/local run var/lib/millrace var/lib/containers; do
  mkdir -p "$r/$place"
  mount -t tmpfs -o mode=755 tmpfs "$r/$place"
done
chmod 700 "$r/root"
mkdir -p "$r/usr/local/bin" "$r/usr/local/lib/millrace" "$r/run/page"
touch "$r/usr/local/bin/millrace" "$r/usr/local/lib/millrace/libmillrace_preload.so"
mount --bind "$2" "$r/usr/local/bin/millrace"
mount --bind "$3" "$r/usr/local/lib/millrace/libmillrace_preload.so"
mount --bind "$1/page" "$r/run/page"
mount -t tmpfs -o mode=1777 tmpfs "$r/tmp"
ip link set lo up
hostname db1
# A new root and not chroot: a program that enters a container's mount namespace has to find that one's root.
mkdir -p "$r/old"
cd "$r"
pivot_root . old
umount -l old
exec /usr/bin/env -i HOME=/root USER=root LOGNAME=root SHELL=/bin/bash TERM=dumb LANG=C.UTF-8 \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /run/page/host "$4"
"#;

/// The rest of the setup, inside the host; $1: PostgreSQL's version. Podman creates no control
/// groups, which belong to this host.
const INSIDE: &str = r#"
set -eu
rm -rf /var/lib/postgresql/* /etc/postgresql/* /var/log/postgresql/* /db
echo "127.0.0.1 localhost db1 filer" > /etc/hosts
mkdir -p /etc/containers
printf '[containers]\ncgroups = "disabled"\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' > /etc/containers/containers.conf
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers"\ngraphroot = "/var/lib/containers/storage"\n' > /etc/containers/storage.conf
install -d -o postgres -g postgres -m 2775 /run/postgresql
pg_createcluster --start "$1" main > /run/page/cluster 2>&1
cd /root
exec bash /run/page/script
"#;

/// Records a command that failed, with the end of the database's logs.
const ENDED: &str = r#"
ended() {
  echo "exit code $?: $BASH_COMMAND" >/run/page/end
  tail -n 12 /var/log/postgresql/*.log >>/run/page/end 2>&1
}
"#;

/// Records what the page leaves. A process that ends gets 5 s. The cluster main and podman have
/// files of their own in /dev/shm.
const LEFT: &str = r#"
for moment in $(seq 50); do pgrep -f 'millrace (keeper|serve)' >/dev/null || break; sleep 0.1; done
{ pgrep -af 'millrace (keeper|serve)'; find /dev/shm /run/millrace* /var/lib/millrace /srv /var/log/millrace* -mindepth 1 ! -path '/dev/shm/PostgreSQL.*' ! -path /dev/shm/libpod_lock 2>/dev/null; } >/run/page/left || true
"#;

/// Makes an image where a page builds one from a registry.
const IMAGE: &str = include_str!("image.sh");

/// Whether this host has what the pages need. Prints a message if not.
pub(crate) fn can_be_made() -> bool {
    if !is_root() {
        skip_unsupported("only root can run commands that are for root");
        return false;
    }
    if support::postgres::server_programs().is_none() || find_program("pg_createcluster").is_none() {
        skip("no PostgreSQL of Debian's packages");
        return false;
    }
    may_make_namespaces()
}

/// What is known after the commands have run.
pub(crate) struct Ran {
    /// Output of each block that ran, with its line.
    pub(crate) outputs: Vec<(usize, String)>,
    /// Why the commands ended early.
    pub(crate) fault: Option<String>,
    /// Processes and files of Millrace, and files in /srv, that exist at the end.
    pub(crate) left: String,
}

/// Runs the blocks one after the other, in one shell as root.
///
/// The host has `files` in /run/page.
pub(crate) fn run(label: &str, blocks: &[Block], nightly: bool, files: &[(&str, &str)]) -> Ran {
    let scratch = Scratch::new(label);
    let page = scratch.folder("page");
    let script = script(blocks, nightly);
    for (name, text) in [("script", script.as_str()), ("host", INSIDE), ("image.sh", IMAGE)].iter().chain(files) {
        std::fs::write(page.join(name), text).unwrap();
    }
    let seconds = if nightly { SECONDS_MAX_AT_NIGHT } else { SECONDS_MAX };
    let output = Command::new("timeout")
        .args([
            "-k",
            "5",
            &seconds.to_string(),
            "unshare",
            "--mount",
            "--pid",
            "--net",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
        ])
        .args(["sh", "-c", HOST, "sh"])
        .arg(scratch.path())
        .arg(support::millrace().get_program())
        .arg(support::preload_library())
        .arg(postgres_version())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let read = |name: &str| String::from_utf8_lossy(&std::fs::read(page.join(name)).unwrap_or_default()).into_owned();
    let outputs: Vec<(usize, String)> = blocks.iter().map(|block| (block.line, read(&format!("out-{}", block.line)))).collect();
    let fault = (!output.status.success() || read("end") != "done\n").then(|| {
        let at = read("at").trim().parse::<usize>().unwrap_or(0);
        let printed = outputs.iter().find(|(line, _)| *line == at).map_or("", |(_, text)| text.as_str());
        let end = read("end");
        format!("{}: in the block of line {at}: {end}{printed}\n{}{}", output.status, read("cluster"), support::text(&output))
    });
    Ran { outputs, fault, left: read("left") }
}

/// The blocks as one script. A command that fails ends it, because a reader would stop there.
fn script(blocks: &[Block], nightly: bool) -> String {
    let mut script = ENDED.to_owned() + "trap ended ERR\nset -E\n";
    for block in blocks {
        let Block { line, commands, mark, .. } = block;
        let is_run = match mark {
            Mark::NotRun(_) => false,
            Mark::Nightly => nightly,
            _ => true,
        };
        if !is_run {
            continue;
        }
        script += &format!("echo {line} >/run/page/at\nexec >/run/page/out-{line} 2>&1\n");
        script += &match mark {
            Mark::ExitCode(code) => format!(
                "set +eE; trap - ERR\n{commands}code=$?\n[ $code = {code} ] || {{ echo \"exit code $code\" >/run/page/end; exit 1; }}\n\
                 trap ended ERR\nset -E\n"
            ),
            Mark::Instead(other) => format!("set -e\n{other}\nset +e\n"),
            Mark::WithoutKernelClient(other) => format!(
                "set -e\nif grep -qw nfs /proc/filesystems && command -v mount.nfs >/dev/null; then\n{commands}else\n{other}\nfi\nset +e\n"
            ),
            _ => format!("set -e\n{commands}set +e\n"),
        };
    }
    script + LEFT + "echo done >/run/page/end\n"
}

/// The newest installed version, as `pg_createcluster` names it.
fn postgres_version() -> PathBuf {
    let programs = support::postgres::server_programs().expect("PostgreSQL");
    programs.parent().and_then(Path::file_name).map(PathBuf::from).expect("a directory of its version")
}
