//! A target of the Linux SCSI target framework (tgtd), with a LUN of 16 MiB.

use super::{Scratch, await_until};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const IQN: &str = "iqn.2026-11.test:tgt";

/// A running tgtd. Dropping it kills the process.
pub struct Tgt {
    daemon: Child,
    socket: PathBuf,
    pub port: u16,
}

impl Tgt {
    /// `None`, with a message, if tgtd is not installed. Without `user` it accepts every initiator.
    pub fn start(scratch: &Scratch, user: Option<(&str, &str)>) -> Option<Self> {
        if !std::path::Path::new("/usr/sbin/tgtd").exists() {
            sim::skip("tgtd is not installed (package tgt)");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (socket, disk) = (scratch.path().join("tgtd"), scratch.path().join("tgt-disk"));
        std::fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
        let mut daemon = Command::new("/usr/sbin/tgtd");
        daemon.args(["-f", "--iscsi", &format!("portal=127.0.0.1:{port}")]).env("TGT_IPC_SOCKET", &socket);
        let daemon = daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let tgt = Self { daemon, socket, port };
        let target = ["--mode", "target", "--tid", "1"];
        await_until("tgtd", Duration::from_secs(20), || tgt.admin("new", &[&target[..], &["-T", IQN]].concat()).then_some(()));
        let done = |operation, arguments: &[&str]| assert!(tgt.admin(operation, arguments), "{operation} {arguments:?}");
        done("new", &["--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", disk.to_str().unwrap()]);
        done("bind", &[&target[..], &["-I", "ALL"]].concat());
        if let Some((user, secret)) = user {
            done("new", &["--mode", "account", "--user", user, "--password", secret]);
            done("bind", &["--mode", "account", "--tid", "1", "--user", user]);
        }
        Some(tgt)
    }

    /// Runs `tgtadm --op OPERATION …`. Returns whether it succeeded.
    fn admin(&self, operation: &str, arguments: &[&str]) -> bool {
        let mut command = Command::new("/usr/sbin/tgtadm");
        command.args(["--lld", "iscsi", "--op", operation]).args(arguments).env("TGT_IPC_SOCKET", &self.socket);
        command.output().unwrap().status.success()
    }

    /// The URL of a LUN, with `user` as `USER%SECRET@` or nothing.
    pub fn url(&self, user: &str, lun: u16) -> String {
        format!("iscsi://{user}127.0.0.1:{}/{IQN}/{lun}", self.port)
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
