//! The volume's record as text: id, MAC key, loss epoch, and the host on which the volume was last served.
//!
//! Layout: `docs/format-volume-state.md`.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::handle::keyed_hash;

const TITLE: &str = "millrace-volume-state 1";
const TITLE_OF_ANY_VERSION: &str = "millrace-volume-state ";

/// The record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Random, made once.
    pub(crate) id: [u8; 16],
    /// Random, made once. The key of handle MACs and of the write verifier.
    pub(crate) key: [u8; 16],
    /// How often unstable data may have been lost under this volume id.
    pub(crate) loss_epoch: u64,
    /// The last process that served the volume. `None` in a record by a version that did not note it, and in a new one.
    pub(crate) last: Option<LastService>,
}

/// The last process that served the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastService {
    /// The boot that the write verifier is derived from: its own, or an earlier one if no data was lost in between.
    pub(crate) verifier_boot: Option<BootId>,
    /// The host that it ran on.
    pub(crate) host: Host,
    /// Whether it flushed everything and wrote nothing afterwards.
    pub(crate) clean_stop: bool,
}

/// What a page cache depends on: the boot of the host and the mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Host {
    /// The boot.
    pub(crate) boot: Option<BootId>,
    /// The mounted file system that the volume is on. `None` if it is unknown, and in a record by a version that did not note it.
    pub(crate) mounted: Option<String>,
}

impl Host {
    /// Whether the page cache of `last` still exists. If `last` does not name the mounted file system, it is assumed to be the same.
    fn still_is(&self, last: &Self) -> bool {
        self.boot.is_some() && self.boot == last.boot && (last.mounted.is_none() || self.mounted == last.mounted)
    }
}

/// A boot of the host. No page cache survives the end of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootId([u8; 16]);

/// Not the UUID of a boot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a boot id: 32 hexadecimal digits, as in /proc/sys/kernel/random/boot_id")]
pub struct NotABootId(String);

impl BootId {
    /// The boot of the running kernel. `None` if /proc does not report it.
    pub(crate) fn of_kernel() -> Option<Self> {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim_end().parse().ok()
    }

    /// The text for the verifier's hash: the content of the kernel's file.
    fn hashed(self) -> String {
        format!("{self}\n")
    }
}

impl std::str::FromStr for BootId {
    type Err = NotABootId;

    fn from_str(text: &str) -> Result<Self, NotABootId> {
        unhex(&text.replace('-', "")).map(Self).ok_or_else(|| NotABootId(text.to_owned()))
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = hex(&self.0);
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default().to_owned());
        f.write_str(&parts.join("-"))
    }
}

/// Loss epoch of a volume that has lost nothing.
pub const FIRST_LOSS_EPOCH: u64 = 1;

impl Record {
    /// The record of a new volume.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let (mut id, mut key) = ([0; 16], [0; 16]);
        id.copy_from_slice(&bytes[..16]);
        key.copy_from_slice(&bytes[16..]);
        Ok(Self { id, key, loss_epoch: FIRST_LOSS_EPOCH, last: None })
    }

    /// The file in memory in which the loss epoch is noted before the record is written. It outlives the process.
    pub(crate) fn shm_note(&self) -> PathBuf {
        Path::new("/dev/shm").join(format!("millrace-loss-{}", hex(&self.id)))
    }

    /// The record while a process serves the volume on this host. The verifier stays the same if no data can have been lost: the page cache
    /// is still the same, or everything was flushed before it ended.
    pub(crate) fn served_under(mut self, host: Host) -> Self {
        let verifier_boot = match &self.last {
            Some(last) if last.clean_stop || host.still_is(&last.host) => last.verifier_boot,
            // Versions that did not note the boot derived the verifier from the boot that they ran under.
            None if host.boot.is_some() => host.boot,
            // A new epoch alone is not enough: a loss may have incremented it in memory that is lost now.
            _ => {
                self.loss_epoch += 1;
                host.boot
            }
        };
        self.last = Some(LastService { verifier_boot, host, clean_stop: false });
        self
    }

    /// The record after a clean stop.
    pub(crate) fn stopped_cleanly(&self) -> Self {
        let last = self.last.clone().map(|last| LastService { clean_stop: true, ..last });
        Self { last, ..self.clone() }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut body = format!("{TITLE}\nid {}\nkey {}\nloss-epoch {}\n", hex(&self.id), hex(&self.key), self.loss_epoch);
        if let Some(last) = &self.last {
            let boot = |boot: Option<BootId>| boot.map_or_else(|| UNKNOWN.to_owned(), |boot| boot.to_string());
            let stop = if last.clean_stop { CLEAN } else { UNKNOWN };
            body += &format!("verifier-boot {}\nboot {}\nstop {stop}\n", boot(last.verifier_boot), boot(last.host.boot));
            if let Some(mounted) = &last.host.mounted {
                body += &format!("mounted {mounted}\n");
            }
        }
        let sum = keyed_hash(&self.key, &[body.as_bytes()]);
        format!("{body}sum {sum:016x}\n")
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (body, sum) = text.rsplit_once("sum ").ok_or("no checksum line")?;
        let mut lines = body.lines();
        match lines.next() {
            Some(TITLE) => {}
            first => return Err(not_version_1(first.unwrap_or_default())),
        }
        let mut field = |name: &str| lines.next().and_then(|line| line.strip_prefix(name));
        let id = field("id ").and_then(unhex).ok_or("volume id is not 32 hexadecimal digits")?;
        let key = field("key ").and_then(unhex).ok_or("key is not 32 hexadecimal digits")?;
        let loss_epoch = field("loss-epoch ").and_then(|n| n.parse().ok()).ok_or("loss epoch is not a number")?;
        let last = field("verifier-boot ").map(|verifier_boot| {
            let (boot, stop, mounted) = (field("boot "), field("stop "), field("mounted "));
            let host = Host { boot: boot_of(boot?)?, mounted: mounted.map(str::to_owned) };
            Some(LastService { verifier_boot: boot_of(verifier_boot)?, host, clean_stop: stop? == CLEAN })
        });
        if u64::from_str_radix(sum.trim_end(), 16) != Ok(keyed_hash(&key, &[body.as_bytes()])) {
            return Err("checksum does not match".to_owned());
        }
        let last = last.map(|last| last.ok_or("a boot id is not 32 hexadecimal digits")).transpose()?;
        Ok(Self { id, key, loss_epoch, last })
    }

    /// The write verifier. It depends only on the volume, the boot that it is derived from, and the loss epoch.
    pub(crate) fn verifier(&self) -> [u8; 8] {
        let boot = self.last.as_ref().and_then(|last| last.verifier_boot).map_or_else(String::new, BootId::hashed);
        self.hash(boot.as_bytes(), self.loss_epoch).to_le_bytes()
    }

    /// The file system's id. It depends only on the volume.
    pub(crate) fn fsid(&self) -> u64 {
        self.hash(b"fsid", 0)
    }

    fn hash(&self, kind: &[u8], number: u64) -> u64 {
        keyed_hash(&self.key, &[b"verifier", &self.id, kind, &number.to_le_bytes()])
    }
}

/// Why a record with this first line cannot be read.
fn not_version_1(title: &str) -> String {
    match title.strip_prefix(TITLE_OF_ANY_VERSION) {
        Some(version) => format!("it is of version {version}, of another millrace; this one reads version 1"),
        None => "not a volume state of version 1".to_owned(),
    }
}

const CLEAN: &str = "clean";
const UNKNOWN: &str = "unknown";

/// Parses a boot of the record. `None` if the text is not a boot id.
fn boot_of(text: &str) -> Option<Option<BootId>> {
    if text == UNKNOWN { Some(None) } else { text.parse().ok().map(Some) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "11111111-2222-3333-4444-555555555555";
    const SECOND: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

    fn boot(text: &str) -> Host {
        Host { boot: Some(text.parse().unwrap()), mounted: None }
    }

    fn mounted(boot_id: &str, mounted: &str) -> Host {
        Host { mounted: Some(mounted.to_owned()), ..boot(boot_id) }
    }

    const UNKNOWN_HOST: Host = Host { boot: None, mounted: None };

    fn record() -> Record {
        Record { id: [1; 16], key: [2; 16], loss_epoch: 9, last: None }.served_under(boot(FIRST))
    }

    #[test]
    fn record_round_trips() {
        assert_eq!(FIRST.parse::<BootId>().unwrap().to_string(), FIRST);
        let unknown = Record { last: None, ..record() }.served_under(UNKNOWN_HOST);
        let mounted = record().served_under(mounted(FIRST, "ext4:1"));
        for record in [record(), record().stopped_cleanly(), unknown, mounted, Record { last: None, ..record() }] {
            assert_eq!(Record::parse(&record.to_text()), Ok(record));
        }
    }

    #[test]
    fn damaged_record_is_refused() {
        let text = record().to_text();
        assert!(Record::parse(&text.replace("epoch 9", "epoch 8")).is_err());
        assert!(Record::parse(&text.replace("stop unknown", "stop clean")).is_err());
        assert!(Record::parse(&text.replace("state 1", "state 2")).is_err());
        assert!(Record::parse(&text[..text.len() / 2]).is_err());
        assert!(Record::parse("").is_err());
    }

    #[test]
    fn a_record_of_an_earlier_version_keeps_its_verifier_while_the_host_runs() {
        let old = Record { last: None, ..record() };
        let hash = |boot: &str| keyed_hash(&old.key, &[b"verifier", &old.id, boot.as_bytes(), &9u64.to_le_bytes()]);
        let now = Record::parse(&old.to_text()).unwrap().served_under(boot(SECOND));
        assert_eq!(u64::from_le_bytes(now.verifier()), hash(&format!("{SECOND}\n")));
    }

    #[test]
    fn the_verifier_stands_after_a_kill_and_moves_with_the_boot_and_the_epoch() {
        let before = record().verifier();
        assert_eq!(record().served_under(boot(FIRST)).verifier(), before);
        assert_ne!(record().served_under(boot(SECOND)).verifier(), before);
        assert_ne!(record().served_under(UNKNOWN_HOST).verifier(), before);
        let unknown = record().served_under(UNKNOWN_HOST);
        assert_ne!(unknown.clone().served_under(UNKNOWN_HOST).verifier(), unknown.verifier());
        assert_ne!(Record { loss_epoch: 10, ..record() }.verifier(), before);
    }

    #[test]
    fn the_verifier_moves_when_the_file_system_is_mounted_again_unless_everything_was_flushed() {
        let first = record().served_under(mounted(FIRST, "ext4:1"));
        let before = first.verifier();
        assert_eq!(before, record().verifier(), "an earlier version did not note the mounted file system");
        assert_eq!(first.clone().served_under(mounted(FIRST, "ext4:1")).verifier(), before);
        assert_ne!(first.clone().served_under(mounted(FIRST, "ext4:2")).verifier(), before);
        assert_ne!(first.clone().served_under(boot(FIRST)).verifier(), before, "the mounted file system is unknown now");
        assert_eq!(first.stopped_cleanly().served_under(mounted(FIRST, "ext4:2")).verifier(), before);
    }

    #[test]
    fn the_verifier_stays_the_same_over_one_reboot_after_a_clean_stop() {
        let before = record().verifier();
        let again = record().stopped_cleanly().served_under(boot(SECOND));
        assert_eq!(again.verifier(), before);
        assert_eq!(again.clone().served_under(boot(SECOND)).verifier(), before, "killed under the second boot");
        assert_ne!(again.served_under(boot(FIRST)).verifier(), before, "killed, and another boot");
        assert_eq!(record().stopped_cleanly().served_under(UNKNOWN_HOST).verifier(), before, "everything was flushed");
    }
}
