//! Options of a mount: the query of an NFS URL, in the spelling of libnfs where it has one.

use crate::limits::{
    ADDRESSES_MAX, CALL_SLOTS_MAX, CHANNELS_MAX, FENCE_MS, FENCE_MS_MAX, IO_BYTES_MAX, RETAIN_BYTES_LIMIT, RETAIN_BYTES_MAX,
    RETAIN_BYTES_MIN,
};
use crate::url::error::UrlError;
use crate::url::escape::unescape;
use results::sizes::{SizeError, parse_bytes};
use std::net::IpAddr;
use std::time::Duration;

/// How writes are sent for which the caller requests no stability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StablePolicy {
    /// UNSTABLE, with COMMIT when durability is requested; stable if that saves a round trip.
    #[default]
    Auto,
    /// Every write is FILE_SYNC.
    Always,
    /// UNSTABLE whenever the caller allows it.
    Unstable,
}

/// What close(2) of a descriptor that may write does with what is not yet stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClosePolicy {
    /// Sends COMMIT, as a Linux NFS client does; close returns its error.
    #[default]
    Commit,
    /// Does nothing: for a database, which syncs its files itself.
    Nothing,
}

/// What a call does if the server refuses it because it no longer exports the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GonePolicy {
    /// Waits for the export, as for a server that does not answer; with `soft` for as long as for that.
    #[default]
    Wait,
    /// Fails with ESTALE, as on a Linux NFS client.
    Error,
    /// Fails with [`crate::Error::ExportGone`], which says nothing about the file. The keeper uses it; no URL asks for it.
    Report,
}

/// Whether the connections are encrypted (RFC 9289).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportSecurity {
    /// No encryption.
    #[default]
    None,
    /// TLS; the server authenticates itself.
    Tls,
    /// TLS; both sides authenticate themselves.
    Mutual,
}

/// The options of a URL. Every field has the default of a plain `nfs://host/export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Port of the MOUNT service.
    pub mount_port: Option<u16>,
    /// Port of the NFS service, if given by `nfsport=` or in the authority.
    pub nfs_port: Option<u16>,
    /// Addresses of this host to connect from, at most [`ADDRESSES_MAX`]; empty: the kernel chooses.
    pub local: Vec<IpAddr>,
    /// Largest READ, in bytes; the server may lower it.
    pub read_bytes_max: u32,
    /// Bytes of a WRITE; the server may lower it. `None`: as many as the server prefers.
    pub write_bytes_max: Option<u32>,
    /// Largest READ and WRITE of an older client, in bytes: it also limits `rsize` and `wsize`.
    pub split_bytes: Option<u32>,
    /// Maximum number of calls in flight of the whole mount, all processes together. `None`: no limit.
    pub slot_count: Option<usize>,
    /// Connections of one process.
    pub channel_count: usize,
    /// A file has one writer at a time, and no reader meanwhile.
    pub one_writer: bool,
    /// User to act as, instead of the caller.
    pub uid: Option<u32>,
    /// Group to act as, instead of the caller's.
    pub gid: Option<u32>,
    /// How writes are sent.
    pub stable: StablePolicy,
    /// What close does with written data.
    pub close: ClosePolicy,
    /// Whether consecutive small writes are sent together.
    pub gather: bool,
    /// Written data kept until COMMIT, in bytes, of all processes of the mount together; 0: a changed write verifier means lost
    /// data. The first process that mounts decides.
    pub retain_bytes: u64,
    /// What calls do while the server does not export the volume.
    pub gone: GonePolicy,
    /// Silence on a live connection after which the client closes it and resends every unanswered call.
    pub resend_after: Duration,
    /// Time after the end of a connection in which a server without FENCE may still execute calls that it had received on it.
    pub fence: Duration,
    /// Give up after `retries` times `resend_after` instead of waiting without limit.
    pub soft: bool,
    /// Rounds of waiting before a soft mount gives up.
    pub retries: u32,
    /// Connect from a port below 1024.
    pub privileged_port: bool,
    /// Only this host changes the export: the client never asks for sizes and attributes of known files.
    pub single_owner: bool,
    /// Several hosts write to this export: keep no attributes.
    pub no_attribute_cache: bool,
    /// Whether the connections are encrypted.
    pub security: TransportSecurity,
    /// File of the certificates by which the client verifies a server.
    pub trusted: Option<String>,
    /// File of the client's certificate.
    pub certificate: Option<String>,
    /// File of its key.
    pub key: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mount_port: None,
            nfs_port: None,
            local: Vec::new(),
            read_bytes_max: IO_BYTES_MAX,
            write_bytes_max: None,
            split_bytes: None,
            slot_count: None,
            channel_count: CHANNELS_MAX,
            one_writer: false,
            uid: None,
            gid: None,
            stable: StablePolicy::Auto,
            close: ClosePolicy::Commit,
            gather: true,
            retain_bytes: RETAIN_BYTES_MAX,
            gone: GonePolicy::Wait,
            resend_after: Duration::from_secs(60),
            fence: Duration::from_millis(FENCE_MS as u64),
            soft: false,
            retries: 2,
            privileged_port: false,
            single_owner: false,
            no_attribute_cache: false,
            security: TransportSecurity::None,
            trusted: None,
            certificate: None,
            key: None,
        }
    }
}

/// What to do instead of another version of NFS.
const ONLY_VERSION: &str = "3, the only version of this client: the server must have it switched on; for version 4 use a kernel mount, \
     mount -t nfs4";

/// What to do instead of Kerberos.
const ONLY_SECURITY: &str = "sys, as this client has no Kerberos: for encryption use xprtsec=tls, for the identity of hosts xprtsec=mtls; \
     for sec=krb5 use a kernel mount, mount -t nfs";

/// Every known key, including those without effect here.
const KEYS: &[&str] = &[
    "nfsport",
    "mountport",
    "local",
    "rsize",
    "wsize",
    "split",
    "slots",
    "channels",
    "nconnect",
    "writers",
    "stable",
    "close",
    "gather",
    "retain",
    "uid",
    "gid",
    "timeo",
    "fence_ms",
    "retrans",
    "gone",
    "hard",
    "soft",
    "resvport",
    "noresvport",
    "noac",
    "owner",
    "version",
    "vers",
    "nfsvers",
    "sec",
    "xprtsec",
    "cacert",
    "cert",
    "key",
    "proto",
    "tcp",
    "auto-traverse-mounts",
    "autoreconnect",
    "debug",
    "dircache",
    "readahead",
    "readdir-buffer",
    "tcp-syncnt",
    "nolock",
];

impl Options {
    /// Largest READ to send, in bytes; the server may lower it.
    #[must_use]
    pub fn read_bytes_max(&self) -> u32 {
        self.read_bytes_max.min(self.split_bytes.unwrap_or(IO_BYTES_MAX))
    }

    /// Largest WRITE to send to a server that prefers `preferred` bytes. The server may lower it.
    #[must_use]
    pub fn write_bytes_max(&self, preferred: u32) -> u32 {
        self.write_bytes_max.unwrap_or(preferred).min(self.split_bytes.unwrap_or(IO_BYTES_MAX))
    }

    /// Sets the option of one `key=value` (or bare `key`) of a query.
    ///
    /// # Errors
    /// [`UrlError`] for an unknown key, naming the nearest one, and for a value that does not fit its key.
    pub(crate) fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), UrlError> {
        let bad = |expected| UrlError::Value { key: key.into(), value: value.unwrap_or_default().into(), expected };
        let number = |max: u32| value.and_then(|text| text.parse().ok()).filter(|&n| n <= max);
        let io_bytes = || {
            let bytes = size(key, value)?.filter(|bytes| (512..=u64::from(u32::MAX)).contains(bytes));
            bytes
                .map(|bytes| (bytes as u32).min(IO_BYTES_MAX))
                .ok_or_else(|| bad("a size of at least 512 bytes, such as 8KiB or 1MiB"))
        };
        let port = || {
            number(u32::from(u16::MAX))
                .filter(|&port| port > 0)
                .map(|port| port as u16)
                .ok_or_else(|| bad("a port from 1 to 65535"))
        };
        match key {
            "nfsport" => self.nfs_port = Some(port()?),
            "mountport" => self.mount_port = Some(port()?),
            "rsize" => self.read_bytes_max = io_bytes()?,
            "wsize" => self.write_bytes_max = Some(io_bytes()?),
            "split" => self.split_bytes = Some(io_bytes()?),
            "slots" => {
                let count = number(CALL_SLOTS_MAX as u32).filter(|&count| count > 0).ok_or_else(|| bad("1 to 1024"))?;
                self.slot_count = Some(count as usize);
            }
            "channels" | "nconnect" => {
                let count = number(CHANNELS_MAX as u32).filter(|&count| count > 0).ok_or_else(|| bad("1 to 64"))?;
                self.channel_count = count as usize;
            }
            "local" => self.local = value.and_then(addresses).ok_or_else(|| bad("1 to 8 IP addresses with commas between"))?,
            "uid" => self.uid = Some(number(u32::MAX).ok_or_else(|| bad("a number, as `id -u USER` prints it"))?),
            "gid" => self.gid = Some(number(u32::MAX).ok_or_else(|| bad("a number, as `id -g USER` prints it"))?),
            "resvport" => self.privileged_port = switch(value).ok_or_else(|| bad("no value, 0 or 1"))?,
            "noresvport" if value.is_none() => self.privileged_port = false,
            "noresvport" => return Err(bad("no value")),
            "owner" => {
                self.single_owner = match value {
                    Some("single") => true,
                    Some("many") => false,
                    _ => return Err(bad("single or many")),
                }
            }
            "noac" => self.no_attribute_cache = switch(value).ok_or_else(|| bad("no value, 0 or 1"))?,
            "version" | "vers" | "nfsvers" if value == Some("3") => {}
            "version" | "vers" | "nfsvers" => return Err(bad(ONLY_VERSION)),
            "sec" if value == Some("sys") => {}
            "sec" => return Err(bad(ONLY_SECURITY)),
            "proto" if value == Some("tcp") => {}
            "proto" => return Err(bad("tcp, the only transport of this client")),
            "tcp"
            | "auto-traverse-mounts"
            | "autoreconnect"
            | "debug"
            | "dircache"
            | "readahead"
            | "readdir-buffer"
            | "tcp-syncnt"
            | "nolock" => {}
            _ if self.set_waiting(key, value)? || self.set_writing(key, value)? || self.set_security(key, value)? => {}
            _ => return Err(UrlError::Key { key: key.into(), nearest: host::nearest(key, KEYS.iter().copied()) }),
        }
        Ok(())
    }

    /// The setting of a key. Keys with the same one exclude each other.
    pub(crate) fn setting_of(key: &str) -> &str {
        match key {
            "nconnect" => "channels",
            "noresvport" => "resvport",
            "soft" => "hard",
            "vers" | "nfsvers" => "version",
            key => key,
        }
    }

    /// As [`Self::set`], for the keys that control how calls wait for the server. False for every other key.
    fn set_waiting(&mut self, key: &str, value: Option<&str>) -> Result<bool, UrlError> {
        let bad = |expected| UrlError::Value { key: key.into(), value: value.unwrap_or_default().into(), expected };
        let number =
            |range: std::ops::RangeInclusive<u32>| value.and_then(|text| text.parse().ok()).filter(|n| range.contains(n));
        match key {
            // Tenths of a second as in nfs(5).
            "timeo" => {
                let tenths = number(10..=36_000).ok_or_else(|| bad("tenths of a second, 10 to 36000"))?;
                self.resend_after = Duration::from_millis(u64::from(tenths) * 100);
            }
            "fence_ms" => {
                let ms = number(0..=FENCE_MS_MAX).ok_or_else(|| bad("milliseconds, 0 to 60000"))?;
                self.fence = Duration::from_millis(u64::from(ms));
            }
            "retrans" => self.retries = number(0..=1000).ok_or_else(|| bad("a count, at most 1000"))?,
            "hard" | "soft" if value.is_some() => return Err(bad("no value: hard or soft")),
            "hard" => self.soft = false,
            "soft" => self.soft = true,
            "gone" => {
                self.gone = match value {
                    Some("wait") => GonePolicy::Wait,
                    Some("error") => GonePolicy::Error,
                    _ => return Err(bad("wait or error")),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// As [`Self::set`], for the keys that control how files are written. False for every other key.
    fn set_writing(&mut self, key: &str, value: Option<&str>) -> Result<bool, UrlError> {
        let bad = |expected| UrlError::Value { key: key.into(), value: value.unwrap_or_default().into(), expected };
        match key {
            "writers" => {
                self.one_writer = match value {
                    Some("one") => true,
                    Some("many") => false,
                    _ => return Err(bad("one or many")),
                }
            }
            "stable" => {
                self.stable = match value {
                    Some("auto") => StablePolicy::Auto,
                    Some("always") => StablePolicy::Always,
                    Some("unstable") => StablePolicy::Unstable,
                    _ => return Err(bad("auto, always or unstable")),
                }
            }
            "close" => {
                self.close = match value {
                    Some("commit") => ClosePolicy::Commit,
                    Some("nothing") => ClosePolicy::Nothing,
                    _ => return Err(bad("commit or nothing")),
                }
            }
            "gather" => {
                self.gather = match value {
                    Some("on") => true,
                    Some("off") => false,
                    _ => return Err(bad("on or off")),
                }
            }
            "retain" => {
                let kept = |&bytes: &u64| bytes == 0 || (RETAIN_BYTES_MIN..=RETAIN_BYTES_LIMIT).contains(&bytes);
                let bytes = size(key, value)?.filter(kept);
                self.retain_bytes = bytes.ok_or_else(|| bad("0, or a size from 1MiB to 4GiB"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// As [`Self::set`], for the keys of TLS. False for every other key.
    fn set_security(&mut self, key: &str, value: Option<&str>) -> Result<bool, UrlError> {
        let bad = |expected| UrlError::Value { key: key.into(), value: value.unwrap_or_default().into(), expected };
        let file = || value.filter(|path| path.starts_with('/')).ok_or_else(|| bad("an absolute path")).and_then(unescape);
        match key {
            "xprtsec" => {
                self.security = match value {
                    Some("none") => TransportSecurity::None,
                    Some("tls") => TransportSecurity::Tls,
                    Some("mtls") => TransportSecurity::Mutual,
                    _ => return Err(bad("none, tls or mtls")),
                }
            }
            "cacert" => self.trusted = Some(file()?),
            "cert" => self.certificate = Some(file()?),
            "key" => self.key = Some(file()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Options {
    /// Checks that the options can be combined.
    ///
    /// # Errors
    /// [`UrlError::Together`] names what is missing or conflicts.
    pub(crate) fn check(&self) -> Result<(), UrlError> {
        let identity = (self.certificate.is_some(), self.key.is_some());
        let wrong = |problem, remedy| Err(UrlError::Together { problem, remedy });
        match self.security {
            TransportSecurity::None if self.trusted.is_some() || identity != (false, false) => {
                wrong("cacert, cert or key without TLS", "add xprtsec=tls or xprtsec=mtls")
            }
            TransportSecurity::None => Ok(()),
            _ if self.trusted.is_none() => wrong(
                "xprtsec without cacert",
                "name the certificates that the server's is verified with: cacert=/PATH, its own if it is self-signed, or \
                 /etc/ssl/certs/ca-certificates.crt",
            ),
            TransportSecurity::Tls if identity != (false, false) => {
                wrong("cert or key with xprtsec=tls", "write xprtsec=mtls to show them")
            }
            TransportSecurity::Mutual if identity != (true, true) => {
                wrong("xprtsec=mtls without cert and key", "name the client's certificate and key: cert=/PATH&key=/PATH")
            }
            _ => Ok(()),
        }
    }
}

/// The value of a key that is on if it has no value. `None` if it is invalid.
fn switch(value: Option<&str>) -> Option<bool> {
    match value {
        None | Some("1") => Some(true),
        Some("0") => Some(false),
        Some(_) => None,
    }
}

/// The size that is the value of a key. `None` if it is not a size.
fn size(key: &str, value: Option<&str>) -> Result<Option<u64>, UrlError> {
    match value.map(parse_bytes).transpose() {
        Err(error @ SizeError::Unclear { .. }) => Err(UrlError::Size { key: key.into(), error }),
        size => Ok(size.ok().flatten()),
    }
}

/// A list of IP addresses. `None` if it is invalid or too long.
fn addresses(list: &str) -> Option<Vec<IpAddr>> {
    let found: Vec<IpAddr> = list.split(',').map(|address| address.parse().ok()).collect::<Option<_>>()?;
    (found.len() <= ADDRESSES_MAX).then_some(found)
}
