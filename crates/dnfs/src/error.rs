//! Errors, and hints for the user.

use crate::file::FsError;
use crate::segment::{OtherVersion, SegmentError};
use crate::url::UrlError;
use nfs_proto::mount3::MountStatus;
use nfs_proto::rpc::{AuthStat, ReplyStatus};
use nfs_proto::xdr::DecodeError;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// Why a call or a mount failed.
///
/// After a hard mount (the default), a client returns only [`Error::Fs`], [`Error::Refused`], [`Error::Protocol`] and
/// [`Error::Denied`]: it waits for a server that does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of a file: the server refused, or the client knew the answer.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The RPC layer of the server refused the call (RFC 5531 9).
    #[error("server {server} refused the call: {}", reply_text(*.status))]
    Refused {
        /// The server.
        server: SocketAddr,
        /// The status of the reply.
        status: ReplyStatus,
    },
    /// The server repeatedly sent bytes that are not the expected reply.
    #[error("server {server} sent a malformed reply")]
    Protocol {
        /// The server.
        server: SocketAddr,
        /// What was wrong with the last of them.
        #[source]
        source: ProtocolError,
    },
    /// No answer within the time of a soft mount, or of mounting.
    #[error("no answer from {server} within {seconds} s")]
    TimedOut {
        /// The server.
        server: SocketAddr,
        /// How long the client waited.
        seconds: u64,
    },
    /// The server no longer exports the volume, and the time of a soft mount is over.
    #[error("server {server} no longer exports the volume")]
    ExportGone {
        /// The server.
        server: SocketAddr,
    },
    /// The caller's memory is not mapped or not accessible: EFAULT.
    #[error("the caller's buffer is not in its memory")]
    BadAddress,
    /// Another process took over a lock that this call held, and nothing was sent: the caller repeats the call.
    #[error("another process took over a lock of this call")]
    TakenOver,
    /// No connection to the server.
    #[error("no connection to {service} at {server}")]
    Connect {
        /// `NFS`, `MOUNT` or `portmap`.
        service: &'static str,
        /// Its address.
        server: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// This process may not connect to the server.
    #[error("no connection to server {server}: {denial}")]
    Denied {
        /// The server.
        server: SocketAddr,
        /// The reason.
        denial: crate::rpc::events::Denial,
    },
    /// The host name has no address.
    #[error("unknown host {host}")]
    UnknownHost {
        /// The name.
        host: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// MOUNT refused the path (RFC 1813 5.2.1).
    #[error("server {server} does not let {path} be mounted: {}", mount_text(*.status))]
    Mount {
        /// The server.
        server: SocketAddr,
        /// The requested path.
        path: String,
        /// The cause.
        status: MountStatus,
        /// What the server exports instead, if it lists its exports.
        exports: Vec<String>,
    },
    /// The server has NFS, but not version 3.
    #[error("server {server} speaks NFS version {low} to {high}, not version 3")]
    Version {
        /// The server.
        server: SocketAddr,
        /// Lowest version that it supports.
        low: u32,
        /// Highest version that it supports.
        high: u32,
    },
    /// No MOUNT service was found.
    #[error("no MOUNT service found at {server}: not on the NFS port{}", if *.portmap_asked { ", and portmap names none" } else { "" })]
    NoMountService {
        /// The server that was searched.
        server: SocketAddr,
        /// Whether portmap was asked too.
        portmap_asked: bool,
    },
    /// The export accepts no credentials that this client can send.
    #[error("export {path} asks for security flavors {flavors:?}, this client sends AUTH_SYS (1) only")]
    Flavors {
        /// The export.
        path: String,
        /// The flavors that it accepts.
        flavors: Vec<u32>,
    },
    /// The server has no TLS, and the URL asks for it.
    #[error("{service} at {server} offers no TLS")]
    NoTls {
        /// `NFS` or `MOUNT`.
        service: &'static str,
        /// Its address.
        server: SocketAddr,
    },
    /// The TLS handshake failed, or the peer ended TLS.
    #[error("no TLS with {server}")]
    Tls {
        /// The server.
        server: SocketAddr,
        /// The cause.
        #[source]
        source: rpc_tls::TlsFault,
    },
    /// A file of certificates or keys cannot be read.
    #[error("read {path}")]
    TlsFile {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Certificates(#[from] rpc_tls::SetupError),
    /// The URL cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The state that the processes of this host share cannot be used.
    #[error(transparent)]
    Segment(#[from] crate::segment::SegmentError),
    /// The operating system refused something local (a socket, a buffer).
    #[error("{action}")]
    Local {
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// What is wrong with bytes that the server sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The bytes are not XDR of the expected type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The bytes are not a record.
    #[error(transparent)]
    Record(#[from] nfs_proto::record::RecordError),
    /// More data than requested.
    #[error("{sent} bytes sent where {asked} were asked for")]
    TooMuch {
        /// Bytes in the reply.
        sent: u64,
        /// Bytes requested.
        asked: u64,
    },
    /// Replies to calls that were never made.
    #[error("replies to calls that were never made")]
    UnexpectedReply,
    /// A reply without a required part.
    #[error("reply without {0}")]
    Missing(&'static str),
    /// A directory whose position does not advance.
    #[error("a directory that does not advance")]
    NoProgress,
}

impl Error {
    /// The error of a file, if it is one: the server was reached.
    #[must_use]
    pub const fn fs_error(&self) -> Option<FsError> {
        match self {
            Self::Fs(error) => Some(*error),
            _ => None,
        }
    }

    /// What the user can do about it, one line each.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Fs(FsError::AccessDenied) => refused_hints(rustix::process::geteuid().is_root()),
            // Servers also return this if they refuse the source port.
            Self::Fs(FsError::NotOwner) => {
                refused_hints(rustix::process::geteuid().is_root()).into_iter().chain(privileged_port_hints()).collect()
            }
            Self::Fs(error) => file_hint(*error).map(Into::into).into_iter().collect(),
            // Some servers return this without TLS, others because of the source port.
            Self::Refused { status: ReplyStatus::AuthError(AuthStat::TooWeak), .. } => {
                [TLS_HINT.to_owned()].into_iter().chain(privileged_port_hints()).collect()
            }
            Self::Refused { status: ReplyStatus::AuthError(_), .. } => privileged_port_hints(),
            Self::Mount { status: MountStatus::Acces | MountStatus::Perm, exports, .. } => {
                let mut hints = exports_hint(exports);
                hints.push("the export may be closed to this host: see `clients` in the file of millrace serve, /etc/exports, or the export policy of the filer".into());
                hints.push(TLS_HINT.into());
                hints.extend(privileged_port_hints());
                hints
            }
            Self::Mount { status: MountStatus::NotSupp, exports, .. } => {
                let mut hints = exports_hint(exports);
                hints.push(OTHER_FILE_SYSTEM_HINT.into());
                hints
            }
            Self::Mount { exports, .. } => exports_hint(exports),
            Self::Connect { source, server, service } => vec![connect_hint(source.kind(), *server, service)],
            Self::TimedOut { server, .. } => vec![format!(
                "the server does not run, is still starting, or is stopped or overloaded: check it on {}; then check the route and the firewall",
                server.ip()
            )],
            Self::Denied { .. } => vec![DENIED_HINT.to_owned()],
            Self::ExportGone { server, .. } => {
                vec![format!("export it again; `showmount -e {}` lists what the server exports", server.ip())]
            }
            Self::UnknownHost { host, .. } => vec![format!("check the spelling and `getent hosts {host}`")],
            Self::Version { .. } => vec![
                "switch NFS version 3 on: knfsd `vers3=y` in /etc/nfs.conf [nfsd]; Ganesha `Protocols = 3,4;`; ONTAP `vserver nfs modify -v3 enabled`"
                    .into(),
            ],
            Self::NoMountService { portmap_asked: false, .. } => {
                vec!["name the port of the MOUNT service: add mountport=N to the URL (Ganesha and knfsd: 20048)".into()]
            }
            Self::NoMountService { .. } => vec![
                "start rpcbind and mountd on the server, or name the port: add mountport=N to the URL".into(),
                "a server that only speaks NFS version 4 has no MOUNT service: switch version 3 on".into(),
            ],
            Self::NoTls { .. } => vec![
                "give the server a certificate (millrace serve --tls-cert and --tls-key; knfsd: tlshd), or mount without xprtsec".into(),
            ],
            Self::Tls { source, .. } => source.hint().into_iter().collect(),
            Self::TlsFile { .. } => vec!["cacert, cert and key are read by the program that mounts: check the path and its mode".into()],
            Self::Certificates(error) => error.hint().map(Into::into).into_iter().collect(),
            Self::Flavors { .. } => vec!["allow sec=sys on the export".into()],
            Self::Protocol { server, .. } => {
                vec![format!("is NFS served on port {}? the server's services: rpcinfo -p {}", server.port(), server.ip())]
            }
            Self::Url(error) => error.hint().into_iter().collect(),
            Self::Segment(error) => segment_hint(error).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// What to do about a segment that another version of Millrace made.
fn other_version_hint(why: &OtherVersion, directory: &Path) -> String {
    let give_up = format!("millrace nfs give-up --force {}", directory.display());
    match why {
        OtherVersion::Programs(_) => "end these programs, then try again".to_owned(),
        OtherVersion::Keeper(_) => {
            format!("try again once the server answers and has the export; `{give_up}` loses the data")
        }
        OtherVersion::Unsaved => {
            format!("run a program once with that version (millrace exec … -- true), which saves the data; `{give_up}` loses it")
        }
    }
}

/// What to do about an error of this host's part of a mount.
fn segment_hint(error: &SegmentError) -> Option<String> {
    const READ_ONLY: i32 = rustix::io::Errno::ROFS.raw_os_error();
    const FULL: i32 = rustix::io::Errno::NOSPC.raw_os_error();
    const LIMITED: i32 = rustix::io::Errno::FBIG.raw_os_error();
    const NO_ADDRESSES: i32 = rustix::io::Errno::NOMEM.raw_os_error();
    let hint = match error {
        SegmentError::Directory(refused) => return Some(refused.hint().into()),
        SegmentError::NoRuntimeDirectory { .. } => {
            "mount a tmpfs at /dev/shm (docker run --shm-size=1g; Kubernetes: an emptyDir with `medium: Memory`), or name a directory in memory \
             that this user may make: MILLRACE_RUNTIME_DIR=/run/NAME"
        }
        SegmentError::Version { .. } => {
            "use that version to read it; once no program uses the mount, `millrace nfs give-up` ends it, and so does the next \
             `millrace exec` of this version"
        }
        SegmentError::OtherVersion { why, directory, .. } => return Some(other_version_hint(why, directory)),
        SegmentError::Local { errno: FULL, .. } | SegmentError::NoSlots { errno: FULL } => {
            "the file system of the runtime directory is full, /dev/shm by default: free space there, enlarge it (mount -o \
             remount,size=1G /dev/shm; docker run --shm-size=1g), or name another directory in MILLRACE_RUNTIME_DIR"
        }
        SegmentError::Local { errno: READ_ONLY, .. } => {
            "the file system of the runtime directory is read-only, /dev/shm by default: mount it read-write, or name a directory in memory \
             that this user may write: MILLRACE_RUNTIME_DIR=/run/NAME"
        }
        SegmentError::Local { errno: LIMITED, .. } | SegmentError::NoSlots { errno: LIMITED } => {
            "the hard limit of this process for the length of files, RLIMIT_FSIZE, is smaller than the memory of a mount: raise it \
             (ulimit -H -f; systemd: LimitFSIZE=) to 128 MiB or more"
        }
        SegmentError::Local { errno: NO_ADDRESSES, .. } => {
            "this process has too little address space for the memory of a mount: raise RLIMIT_AS (ulimit -v) or RLIMIT_DATA (ulimit -d) by 200 MiB"
        }
        SegmentError::Local { errno: libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL, .. } => {
            "the kernel, a sandbox (gVisor, a seccomp filter) or the file system of the runtime directory lacks what Direct NFS needs: name a \
             directory on a tmpfs in MILLRACE_RUNTIME_DIR, allow the system call, or run `millrace mount` outside the sandbox"
        }
        _ => return None,
    };
    Some(hint.into())
}

/// What to do about a process that may not connect.
const DENIED_HINT: &str = "allow the program to use sockets of the server's address family, and the host's network; or use `millrace mount`: \
     programs on its mounts need neither";

/// What to do about a connection that failed, or ended before a reply.
fn connect_hint(kind: io::ErrorKind, server: SocketAddr, service: &str) -> String {
    let (port, address) = (server.port(), server.ip());
    match kind {
        io::ErrorKind::ConnectionRefused => {
            format!(
                "nothing listens on port {port} of {address}: the {service} server does not run, is still starting, or has another port"
            )
        }
        io::ErrorKind::AddrNotAvailable => "local= in the URL takes addresses of this host: see `ip address`".into(),
        io::ErrorKind::UnexpectedEof => format!(
            "what listens on port {port} closes the connection without a reply: it is no {service} server, or refuses this host; \
             `rpcinfo -p {address}` lists the server's services"
        ),
        io::ErrorKind::TimedOut => {
            format!(
                "{address} does not answer: the host is down, the address is wrong, or a firewall drops the packets to port {port}"
            )
        }
        _ => format!("check the address {address}, the route there and the firewall"),
    }
}

/// What to do about a status that has one usual reason.
const fn file_hint(error: FsError) -> Option<&'static str> {
    match error {
        FsError::NotFound => Some("check spelling and case: `millrace nfs ls` of the directory above lists the names"),
        FsError::NotDirectory => {
            Some("a name before the last one, or the path to be mounted, is a file: `millrace nfs stat` shows it")
        }
        FsError::IsDirectory => Some("name a file in it: `millrace nfs ls` lists them"),
        FsError::NoSpace | FsError::QuotaExceeded => Some(
            "free space on the export, or enlarge its file system or its quota: a volume of millrace serve by `millrace volume resize`",
        ),
        FsError::ReadOnly => Some(
            "let this host write there: access = \"rw\" in the file of millrace serve, then `millrace volume reload`; knfsd: rw in /etc/exports",
        ),
        FsError::Io => Some(
            "the server's host has the cause: millrace serve logs the host's error for each NFS3ERR_IO, other servers use the system log",
        ),
        FsError::CrossDevice => Some(OTHER_FILE_SYSTEM_HINT),
        _ => None,
    }
}

/// The export may require TLS; the port does not matter then.
const TLS_HINT: &str =
    "the export may serve under TLS only: add xprtsec=tls&cacert=FILE to the URL, or xprtsec=mtls with cert and key";

/// The hint for the status with which a server refuses a path that leads into another file system.
const OTHER_FILE_SYSTEM_HINT: &str = "the path may lead into another file system or a btrfs subvolume on the server, which the export does \
not include: export that file system too; millrace serve does so with crossmnt = true";

fn exports_hint(exports: &[String]) -> Vec<String> {
    if exports.is_empty() { vec![] } else { vec![format!("the server exports: {}", exports.join(", "))] }
}

/// What to do about a server that refuses root.
pub const ROOT_SQUASH_HINT: &str = "the server may treat root as nobody (root squash): name a user with the right in the URL, ?uid=N&gid=N, or let the export keep \
     root: knfsd `no_root_squash`, millrace serve --no-root-squash or squash = \"none\" in its file";

/// Most servers map root to another user, so that is the first hint.
fn refused_hints(is_root: bool) -> Vec<String> {
    let squash = is_root.then(|| ROOT_SQUASH_HINT.to_owned());
    let owner =
        "owner and mode decide who may access it: `millrace nfs stat` shows them, for the object and for the directories above"
            .to_owned();
    squash.into_iter().chain([owner]).collect()
}

/// A refusal of the credentials is often a refusal of the source port: servers accept only ports below 1024 unless configured
/// otherwise.
fn privileged_port_hints() -> Vec<String> {
    vec![
        "the server may refuse source ports above 1023: knfsd needs `insecure` on the export; ONTAP `vserver nfs modify -mount-rootonly disabled -nfs-rootonly disabled`".into(),
        "or use a privileged port here: add resvport to the URL and run with CAP_NET_BIND_SERVICE, or lower sysctl net.ipv4.ip_unprivileged_port_start".into(),
    ]
}

fn reply_text(status: ReplyStatus) -> String {
    match status {
        ReplyStatus::Success => "no reason given".into(),
        ReplyStatus::ProgramUnavailable => "program not served there".into(),
        ReplyStatus::ProgramMismatch { low, high } => format!("version not served there, only {low} to {high}"),
        ReplyStatus::ProcedureUnavailable => "procedure not served there".into(),
        ReplyStatus::GarbageArguments => "arguments not understood".into(),
        ReplyStatus::SystemError => "system error of the server".into(),
        ReplyStatus::RpcMismatch { low, high } => format!("RPC version not served there, only {low} to {high}"),
        ReplyStatus::AuthError(stat) => format!("identity not accepted ({stat:?})"),
    }
}

fn mount_text(status: MountStatus) -> &'static str {
    match status {
        MountStatus::Ok => "no reason given",
        MountStatus::Perm => "not the owner (MNT3ERR_PERM)",
        MountStatus::NoEnt => "no such export (MNT3ERR_NOENT)",
        MountStatus::Io => "input/output error on the server (MNT3ERR_IO)",
        MountStatus::Acces => "permission denied (MNT3ERR_ACCES)",
        MountStatus::NotDir => "not a directory (MNT3ERR_NOTDIR)",
        MountStatus::Inval => "invalid argument (MNT3ERR_INVAL)",
        MountStatus::NameTooLong => "name too long (MNT3ERR_NAMETOOLONG)",
        MountStatus::NotSupp => "not supported (MNT3ERR_NOTSUPP)",
        MountStatus::ServerFault => "failure of the server (MNT3ERR_SERVERFAULT)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_to_root_is_blamed_on_root_squash_first() {
        assert!(refused_hints(true)[0].contains("root squash"));
        assert!(refused_hints(false).iter().all(|hint| !hint.contains("squash")));
    }

    #[test]
    fn a_port_of_another_program_is_not_blamed_on_the_route() {
        let server = SocketAddr::from(([127, 0, 0, 1], 5432));
        let closed = Error::Connect { service: "NFS", server, source: io::ErrorKind::UnexpectedEof.into() };
        let hints = closed.hints();
        assert!(hints.len() == 1 && hints[0].contains("port 5432 closes") && hints[0].contains("no NFS server"), "{hints:?}");
    }

    #[test]
    fn ports_are_named_where_a_server_may_have_refused_one_and_not_for_a_file_that_may_not_be_read() {
        let names_ports = |error: Error| error.hints().iter().any(|hint| hint.contains("source ports"));
        assert!(!names_ports(Error::Fs(FsError::AccessDenied)));
        assert!(names_ports(Error::Fs(FsError::NotOwner)));
        assert!(names_ports(Error::Mount {
            server: SocketAddr::from(([127, 0, 0, 1], 2049)),
            status: MountStatus::Acces,
            path: "/vol".into(),
            exports: Vec::new()
        }));
    }
}
