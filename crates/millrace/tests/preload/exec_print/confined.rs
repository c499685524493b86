//! A program as a container runs it: one uid without a name, no capability, no new privileges, a
//! read-only root with memory at a few paths, its own /dev/shm, and process 1 of its PID namespace.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{self, await_until, succeed};

/// $1: a directory of the test, $2: millrace, $3: its library, $4: bytes of /dev/shm, $5: uid, $6:
/// gid, $7: paths in memory, $8: mode of /dev/shm, $9: a variable, then `--` and the program.
/// Millrace is where images have it.
const CONTAINER: &str = r#"
set -eu
mount --make-rprivate /
mkdir "$1/usr" && mount -t tmpfs tmpfs "$1/usr" && mkdir "$1/usr/upper" "$1/usr/work"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$1/usr/upper,workdir=$1/usr/work" /usr
mkdir -p /usr/lib/millrace
touch /usr/bin/millrace /usr/lib/millrace/libmillrace_preload.so
mount --bind "$2" /usr/bin/millrace
mount --bind "$3" /usr/lib/millrace/libmillrace_preload.so
mount -o remount,ro /usr
mount -t tmpfs -o "mode=$8,size=$4" tmpfs /dev/shm
uid=$5 gid=$6 places=$7 variable=$9
shift 10
for place in $places; do mount -t tmpfs -o mode=1777 tmpfs "$place"; done
mount -t proc proc /proc
mount -o remount,bind,ro /
cd /
exec env -i PATH="$PROGRAMS:/usr/bin:/bin" HOME=/ "$variable" setpriv --reuid "$uid" --regid "$gid" --clear-groups --bounding-set=-all --inh-caps=-all \
  --no-new-privs "$@"
"#;

/// What a printed file requests.
pub(crate) struct Wanted {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) shm_bytes: u64,
    /// Paths that are in memory, besides /dev/shm.
    pub(crate) memory: Vec<String>,
    pub(crate) command: Vec<String>,
    /// Mode of /dev/shm as the platform sets it.
    pub(crate) shm_mode: &'static str,
    /// `NAME=VALUE`.
    pub(crate) variable: String,
}

/// The program. Dropping it ends the program.
pub(crate) struct Confined {
    unshare: Child,
}

impl Confined {
    pub(crate) fn start(folder: &Path, programs: &Path, wanted: &Wanted) -> Self {
        let unshare = Command::new("unshare")
            .args(["--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", CONTAINER, "sh"])
            .arg(folder)
            .arg(support::millrace().get_program())
            .arg(support::preload_library())
            .args([wanted.shm_bytes.to_string(), wanted.uid.to_string(), wanted.gid.to_string(), wanted.memory.join(" ")])
            .args([wanted.shm_mode, &wanted.variable])
            .arg("--")
            .args(&wanted.command)
            .env("PROGRAMS", programs)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("said")).unwrap())
            .spawn()
            .unwrap();
        Self { unshare }
    }

    /// The value of a field of its /proc/PID/status.
    pub(crate) fn status(&self, field: &str) -> String {
        let text = std::fs::read_to_string(self.first().join("status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
        line.trim_start_matches(':').trim().to_owned()
    }

    /// The mount options of its root.
    pub(crate) fn root_options(&self) -> String {
        let text = std::fs::read_to_string(self.first().join("mountinfo")).unwrap();
        let root = text.lines().rfind(|line| line.split(' ').nth(4) == Some("/")).unwrap();
        root.split(' ').nth(5).unwrap().to_owned()
    }

    /// Sends it a signal. Returns its exit code.
    pub(crate) fn end(mut self, signal: &str) -> Option<i32> {
        succeed(Command::new("pkill").args([&format!("-{signal}"), "-P", &self.unshare.id().to_string()]));
        await_until("the program to end", Duration::from_secs(60), || self.unshare.try_wait().unwrap()).code()
    }

    /// /proc/PID of the namespace's process 1.
    fn first(&self) -> PathBuf {
        let pid = self.unshare.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        PathBuf::from(format!("/proc/{}", children.split_whitespace().next().unwrap()))
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}
