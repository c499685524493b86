//! The name of this initiator, and the numbers of its sessions.

use iscsi_proto::login::Name;
use iscsi_proto::pdu::Isid;

/// Where open-iscsi keeps the name of the host.
const NAME_FILE: &str = "/etc/iscsi/initiatorname.iscsi";

/// The name that open-iscsi uses on this host, or one made of the host's name.
#[must_use]
pub fn default_name() -> Name {
    let written = std::fs::read_to_string(NAME_FILE).unwrap_or_default();
    let named = written.lines().find_map(|line| line.trim().strip_prefix("InitiatorName=")).and_then(|name| Name::new(name).ok());
    named.unwrap_or_else(|| {
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
    // The first 256 bytes of a call come whole, whatever signals do.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes
}

/// A random ISID (RFC 7143 11.12.5, type 10b), told from others of this process by the number of its path.
pub(crate) fn isid(path: u16) -> Isid {
    let [a, b, c] = random();
    let [high, low] = path.to_be_bytes();
    Isid([0x80, a, b, c, high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_numbers_of_their_own() {
        assert_ne!(isid(0), isid(1));
        assert_eq!(isid(3).0[0], 0x80);
        assert!(default_name().as_str().starts_with("iqn.") || std::path::Path::new(NAME_FILE).exists());
    }
}
