//! Why the kernel's initiator fails.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why open-iscsi's block device cannot be made or removed.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The caller gave up.
    #[error("go on: interrupted")]
    Interrupted,
    /// A program of the host did not start.
    #[error("run {program}: {source}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A program of the host failed.
    #[error("{program} {arguments}: {said}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// Its arguments.
        arguments: String,
        /// Its output, in one line.
        said: String,
    },
    /// A program of the host took too long, and was ended.
    #[error("{program} {arguments}: did not end within {seconds} s")]
    Late {
        /// Its name.
        program: &'static str,
        /// Its arguments.
        arguments: String,
        /// The time limit.
        seconds: u64,
    },
    /// A file of sysfs, or of open-iscsi's database, cannot be used.
    #[error("{action} {}: {source}", .path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another program uses the target.
    #[error("this host already has session {number} with {target}, which `millrace iscsi attach` did not make")]
    OthersSession {
        /// The name of the target.
        target: String,
        /// The kernel's number of the session.
        number: u32,
    },
    /// Another program made a record of the node.
    #[error("open-iscsi already has a record of {target} at {portal}, which `millrace iscsi attach` did not make")]
    OthersRecord {
        /// The name of the target.
        target: String,
        /// Its portal.
        portal: String,
    },
    /// A line of open-iscsi's database cannot hold the name or the secret.
    #[error(
        "open-iscsi's record cannot hold the CHAP {what}: it has a space at an end, a control character, or more than 255 bytes"
    )]
    Secret {
        /// `user` or `secret`.
        what: &'static str,
    },
    /// open-iscsi keeps its database in another place, and Millrace passes no secret to a program
    /// as an argument.
    #[error(
        "open-iscsi's record of {target} is neither below /etc/iscsi/nodes nor below /var/lib/iscsi/nodes: its CHAP secret cannot be \
         written"
    )]
    NoRecord {
        /// The name of the target.
        target: String,
    },
    /// A portal does not answer now.
    #[error("portal {portal} is down now ({why}), and open-iscsi would not try it again")]
    PortalDown {
        /// The portal.
        portal: String,
        /// The reason.
        why: String,
    },
    /// A login made no session.
    #[error("iscsiadm logged in to {target} at {portal}, and the kernel has no session with it")]
    NoSession {
        /// The name of the target.
        target: String,
        /// Its portal.
        portal: String,
    },
    /// The kernel did not show all disks.
    #[error("the kernel's iSCSI initiator showed {found} of {wanted} disks of LUN {lun} of {target} within {seconds} s")]
    NoDisk {
        /// The name of the target.
        target: String,
        /// The number of the LUN.
        lun: u16,
        /// Number of disks that appeared.
        found: usize,
        /// Number of sessions, each of which has a disk.
        wanted: usize,
        /// The time limit.
        seconds: u64,
    },
    /// multipathd made no device of the disks.
    #[error("use {disks} by dm-multipath: multipathd made no device of them within {seconds} s")]
    NoMap {
        /// Their names.
        disks: String,
        /// The time limit.
        seconds: u64,
    },
    /// A disk is not the LUN.
    #[error("{disk} is another LUN ({found}), not the requested one ({expected})")]
    OtherLun {
        /// The name of the disk.
        disk: String,
        /// The LUN that it reports to be.
        found: String,
        /// The LUN that it should be.
        expected: String,
    },
}

impl KernelError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::OthersSession { number, .. } => {
                format!("if no program uses its disks, end it: iscsiadm -m session -r {number} --logout")
            }
            Self::OthersRecord { target, portal } => {
                format!("if it is not needed, delete it: iscsiadm -m node -T {target} -p {portal} -o delete")
            }
            Self::NoMap { .. } => {
                "allow it in /etc/multipath.conf: find_multipaths no or yes, and no blacklist that has these disks; \
                                   then multipathd reconfigure"
                    .to_owned()
            }
            Self::PortalDown { .. } => "bring it up first, or leave it out of the URL".to_owned(),
            _ => return None,
        })
    }
}
