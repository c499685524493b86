//! Another NFS server: Debian's NFS-Ganesha in its own namespaces, so that its fixed ports and its
//! rpcbind disturb no other process. [`Ganesha::inside`] starts its clients in those namespaces.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{Scratch, find_program, keepers};

/// Waits for the ports by means of bash, prints `ready`, and ends when its standard input ends.
const SCRIPT: &str = r#"
set -e
work=$1 export=$2 options=$3
ip link set lo up
mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind /run/ganesha
mount -t tmpfs -o size=6g,mode=755 tmpfs "$work/memory"
for nested in $4; do mkdir -m 777 "$export/$nested" && mount -t tmpfs -o size=64m,mode=777 tmpfs "$export/$nested"; done
rpcbind -f -i >"$work/rpcbind.log" 2>&1 &
answers() { for _ in $(seq 200); do (: </dev/tcp/127.0.0.1/$1) 2>/dev/null && return; sleep 0.05; done; echo "no answer on port $1"; exit 1; }
answers 111
withdrawn() { cat >"$work/ganesha.conf" <<END
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_RQUOTA = false; Enable_NLM = false; mount_path_pseudo = false; }
END
}
exported() { cat >>"$work/ganesha.conf" <<END
EXPORT { Export_Id = $1; Path = $2; Pseudo = /vol$1; Access_Type = RW; $options Protocols = 3; Transports = TCP;
  SecType = sys; FSAL { Name = VFS; } }
END
}
one_offered() { withdrawn; exported 1 "$export"; }
offered() { one_offered; [ ! -d "$work/beside" ] || exported 2 "$work/beside"; }
reload() {
  before=$(grep -c 'Reread exports complete' "$work/ganesha.log") || true
  kill -HUP "$server"
  until [ "$(grep -c 'Reread exports complete' "$work/ganesha.log")" -gt "$before" ]; do sleep 0.02; done
  echo ready
}
offered
serve() {
  ganesha.nfsd -F -f "$work/ganesha.conf" -L "$work/ganesha.log" -p "$work/ganesha.pid" -N NIV_EVENT >>"$work/ganesha.out" 2>&1 &
  server=$!
  answers 2049
  answers 20048
  echo ready
}
serve
while read -r line; do
  case "$line" in
    withdraw) withdrawn; reload; continue ;;
    withdraw-beside) one_offered; reload; continue ;;
    offer) offered; reload; continue ;;
    "start withdrawn") withdrawn; serve; continue ;;
    "start offered") offered; serve; continue ;;
    stop | restart | cover | uncover) ;;
    *) break ;;
  esac
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
  rm -f "$work/ganesha.pid"
  case "$line" in
    stop) echo ready; continue ;;
    cover) mount -t tmpfs -o size=64m,mode=777 tmpfs "$export" ;;
    uncover) umount "$export" ;;
  esac
  serve
done
kill $(jobs -p) 2>/dev/null
wait
"#;

/// A running Ganesha. Dropping it ends the server and its namespaces.
pub struct Ganesha {
    holder: Child,
    said: BufReader<ChildStdout>,
    pub scratch: Scratch,
}

impl Ganesha {
    /// Starts Ganesha on `scratch/export`. `None`, with a message, if it cannot run here.
    pub fn start(label: &str) -> Option<Self> {
        Self::start_with(label, "Squash = Root_Squash;", &[])
    }

    /// As [`Self::start`], with these options of the export, and with file systems in memory at
    /// these names in it.
    pub fn start_with(label: &str, options: &str, nested: &[&str]) -> Option<Self> {
        let missing =
            ["ganesha.nfsd", "rpcbind", "unshare", "nsenter", "ip"].into_iter().find(|name| find_program(name).is_none());
        if let Some(name) = missing {
            super::skip(&format!("no {name}: make setup-test"));
            return None;
        }
        if !Command::new("unshare").args(["-n", "-m", "true"]).status().is_ok_and(|status| status.success()) {
            super::skip_unsupported("no right to make namespaces for an NFS server");
            return None;
        }
        let scratch = Scratch::new(label);
        scratch.folder("memory");
        let export = scratch.folder("export");
        let mut holder = Command::new("unshare");
        holder.args(["-n", "-m", "-p", "-f", "--kill-child", "bash", "-c", SCRIPT, "ganesha"]).arg(scratch.path()).arg(&export);
        holder.arg(options).arg(nested.join(" "));
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(holder.stdout.take().unwrap());
        let mut ganesha = Self { holder, said, scratch };
        ganesha.await_ready();
        Some(ganesha)
    }

    /// Kills the server and starts it again. Its write verifier is then another one.
    pub fn restart(&mut self) {
        self.order("restart");
    }

    /// Restarts the server with an empty file system in memory over the exported directory. Returns
    /// the path of that file system for processes outside the namespaces.
    pub fn cover(&mut self) -> PathBuf {
        self.order("cover");
        PathBuf::from(format!("/proc/{}/root{}", self.shell(), self.export().display()))
    }

    /// Restarts the server with the exported directory itself, after [`Self::cover`]: another volume under the same path.
    pub fn uncover(&mut self) {
        self.order("uncover");
    }

    /// Makes the server refuse MNT and every handle of the export.
    pub fn withdraw(&mut self) {
        self.order("withdraw");
    }

    /// Also exports a directory of the same file system that is not in the export. Returns its URL.
    pub fn offer_beside(&mut self) -> String {
        let beside = self.scratch.folder("beside");
        self.order("offer");
        self.url().replacen(&*self.export().to_string_lossy(), &beside.to_string_lossy(), 1)
    }

    /// Makes the server refuse MNT of the directory beside the export, and the handles of that directory.
    pub fn withdraw_beside(&mut self) {
        self.order("withdraw-beside");
    }

    /// Exports the directory again.
    pub fn offer(&mut self) {
        self.order("offer");
    }

    /// Kills the server, so that its port refuses connections.
    pub fn kill(&mut self) {
        self.order("stop");
    }

    /// Starts the server after [`Self::kill`], with or without the export.
    pub fn start_again(&mut self, exports: bool) {
        self.order(if exports { "start offered" } else { "start withdrawn" });
    }

    fn order(&mut self, order: &str) {
        writeln!(self.holder.stdin.as_mut().unwrap(), "{order}").unwrap();
        self.await_ready();
    }

    fn await_ready(&mut self) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        let logs = || std::fs::read_to_string(self.scratch.path().join("ganesha.log")).unwrap_or_default();
        assert_eq!(line.trim(), "ready", "{}", logs());
    }

    /// The exported directory.
    pub fn export(&self) -> PathBuf {
        self.scratch.path().join("export")
    }

    /// A file system in memory that only processes inside the namespaces see.
    pub fn memory(&self) -> PathBuf {
        self.scratch.path().join("memory")
    }

    pub fn url(&self) -> String {
        format!("nfs://127.0.0.1{}?nfsport=2049&mountport=20048", self.export().display())
    }

    /// The command, in the server's network and mount namespaces.
    pub fn inside(&self, program: &Path) -> Command {
        inside(self.shell(), program)
    }

    /// A process in the namespaces.
    pub fn shell(&self) -> u32 {
        // The shell is a child of unshare, which waits for it outside the namespaces.
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.holder.id())).unwrap();
        children.split_whitespace().next().expect("the holder has its shell").parse().unwrap()
    }
}

/// The command, in the network and mount namespaces of a process.
pub fn inside(pid: u32, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid.to_string(), "-n", "-m", "--"]).arg(program);
    command
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
        keepers::end_matching(&format!("{}?", self.export().display()));
    }
}
