//! The name of this initiator, and the numbers of its sessions.

use fnv::FnvHasher;
use iscsi_proto::login::Name;
use iscsi_proto::pdu::Isid;
use std::hash::Hasher as _;

/// Where open-iscsi keeps the name of the host.
pub(crate) const NAME_FILE: &str = "/etc/iscsi/initiatorname.iscsi";

/// The name that open-iscsi uses on this host.
pub(crate) fn host_name() -> Option<Name> {
    let written = std::fs::read_to_string(NAME_FILE).unwrap_or_default();
    written.lines().find_map(|line| line.trim().strip_prefix("InitiatorName=")).and_then(|name| Name::new(name).ok())
}

/// The name that open-iscsi uses on this host, or a name made from the host's name.
#[must_use]
pub fn default_name() -> Name {
    host_name().unwrap_or_else(|| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '.').collect();
        let host = if host.is_empty() { "localhost" } else { host.get(..host.len().min(64)).unwrap_or(&host) };
        Name::new(&format!("iqn.2026-11.internal.millrace:initiator:{host}"))
            .expect("letters, digits, - and . are allowed in names")
    })
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // A call for at most 256 bytes returns all of them, whatever signals arrive (getrandom(2)).
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes
}

/// The ISIDs of a device, one for each of its paths (RFC 7143 11.12.5, type 10b). They are random. Those of one use, which has
/// this name on this host, have a common part by which they are recognised.
pub(crate) fn isids(of_use: Option<&str>) -> impl Fn(u8) -> Isid + use<> {
    let user = of_use.map_or_else(random, |name| {
        let mut hasher = FnvHasher::default();
        hasher.write(name.as_bytes());
        let [a, b, c, ..] = hasher.finish().to_le_bytes();
        [a, b, c]
    });
    let life = u16::from_le_bytes(random());
    move |path| Isid::of_life(user, life, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_numbers_of_their_own() {
        let (one, next, other) = (isids(Some("a LUN")), isids(Some("a LUN")), isids(None));
        assert_ne!(one(0), one(1));
        assert!(!one(0).succeeds(one(1)) && !other(0).succeeds(one(0)));
        // One of 4096 devices has the same life as the previous one.
        assert!(next(0).succeeds(one(1)) || next(0) == one(0));
        assert!(default_name().as_str().starts_with("iqn.") || std::path::Path::new(NAME_FILE).exists());
    }
}
