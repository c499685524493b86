//! The configuration of iSCSI.

use std::net::{IpAddr, SocketAddr};

use iscsi_proto::chap::Credential;
use iscsi_proto::login::Name;

use crate::nfs::policy::Client;

/// The configuration of iSCSI. The default serves every initiator that reaches a portal, under target names that the filer makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The addresses for initiators.
    pub portals: Vec<Portal>,
    /// The prefix of target names. `None`: the filer makes a name for each volume.
    pub base_name: Option<String>,
    /// CHAP users. If there is any, every initiator must authenticate as one of them.
    pub users: Vec<User>,
    /// The credential with which the filer authenticates itself to initiators that request it (mutual CHAP).
    pub own: Option<Credential>,
    /// Groups of initiators.
    pub groups: Vec<Group>,
    /// The addresses that may connect. `None`: all.
    pub clients: Option<Vec<Client>>,
}

/// An address with its portal group. An initiator may use several addresses of one group for one session. Different groups are different
/// paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portal {
    /// The address.
    pub address: SocketAddr,
    /// The portal group tag.
    pub tag: u16,
}

/// A CHAP user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name and secret.
    pub credential: Credential,
    /// The initiators that may authenticate as this user. Empty: all.
    pub initiators: Vec<Name>,
}

/// A group of initiators, to which LUNs are mapped by one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its initiators.
    pub initiators: Vec<Name>,
}

impl Portal {
    /// Puts each address into a portal group of its own: 1, 2 and so on.
    #[must_use]
    pub fn each(addresses: &[SocketAddr]) -> Vec<Self> {
        addresses.iter().zip(1..).map(|(address, tag)| Self { address: *address, tag }).collect()
    }
}

impl Settings {
    /// Whether an address may connect.
    pub(crate) fn admits(&self, client: IpAddr) -> bool {
        self.clients.as_ref().is_none_or(|clients| clients.iter().any(|one| one.is(client)))
    }

    /// Whether the settings contain CHAP secrets.
    pub(crate) const fn has_secrets(&self) -> bool {
        !self.users.is_empty() || self.own.is_some()
    }

    /// Whether a LUN that is mapped to these names is mapped to an initiator. A name that does not have the form of an iSCSI name is that
    /// of a group.
    pub(crate) fn maps(&self, mapped: &[String], initiator: &str) -> bool {
        mapped.iter().any(|name| match Name::new(name) {
            _ if name == crate::luns::ANY => true,
            Ok(named) if named.has_form() => named.as_str() == initiator,
            _ => self.groups.iter().any(|group| group.name == *name && group.has(initiator)),
        })
    }

    /// The users as which an initiator may authenticate.
    pub(crate) fn users_of(&self, initiator: &str) -> Vec<Credential> {
        let may = |user: &&User| user.initiators.is_empty() || user.initiators.iter().any(|name| name.as_str() == initiator);
        self.users.iter().filter(may).map(|user| user.credential.clone()).collect()
    }
}

impl Group {
    fn has(&self, initiator: &str) -> bool {
        self.initiators.iter().any(|name| name.as_str() == initiator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lun_is_mapped_to_everybody_to_an_initiator_or_to_a_group() {
        let name = |name: &str| Name::new(name).unwrap();
        let group = Group { name: "db".into(), initiators: vec![name("iqn.a"), name("iqn.b")] };
        let settings = Settings { groups: vec![group], ..Settings::default() };
        let maps = |mapped: &str, initiator| settings.maps(&[mapped.to_owned()], initiator);
        assert!(maps("*", "iqn.c") && maps("iqn.c", "iqn.c") && maps("db", "iqn.b"));
        assert!(!maps("db", "db"), "an initiator with the group's name is not in the group");
        assert!(!maps("db", "iqn.c") && !maps("iqn.a", "iqn.b") && !settings.maps(&[], "iqn.a"));
    }
}
