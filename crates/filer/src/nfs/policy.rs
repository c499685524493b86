//! Who may use an export, and as which user. Rules match the client's address. They are evaluated when a connection
//! begins and when the rules change, never for each call.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::NfsStatus;
use nfs_proto::rpc::AuthStat;

use crate::listener::ListenerRole;

/// The first port that every user of a client may use. Lower ports are reserved for root.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;

/// The uid and gid of a squashed or anonymous caller.
pub const NOBODY: u32 = 65_534;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address. An IPv4 address is never IPv4-mapped.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// The role of the listener that it connected to.
    pub role: ListenerRole,
    /// How its connection is secured.
    pub security: Security,
}

/// How the connection is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Security {
    /// Without TLS: an attacker on the path can read and change the data.
    Plain,
    /// With TLS.
    Tls,
    /// With TLS, and the client presented a trusted certificate.
    Certified,
}

impl Peer {
    /// The peer at this address, without TLS. An IPv4-mapped IPv6 address is converted to IPv4.
    #[must_use]
    pub fn at(address: SocketAddr, role: ListenerRole) -> Self {
        Self { address: address.ip().to_canonical(), port: address.port(), role, security: Security::Plain }
    }

    /// Whether only root can use the client's port on its host.
    pub(crate) const fn is_privileged(&self) -> bool {
        self.port < UNPRIVILEGED_PORT_MIN
    }
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// All IPv4 and all IPv6 addresses.
    pub const ALL: [Self; 2] = [
        Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 },
        Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 },
    ];

    /// The network of the first `prefix` bits. `None` if the address has fewer bits, or has bits set after the prefix,
    /// which is most likely a mistake.
    #[must_use]
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = Self { address, prefix };
        (prefix <= network.bits_max() && network.bits(address) & !network.mask() == 0).then_some(network)
    }

    /// The network of a single address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether the address is in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && (self.bits(address) ^ self.bits(self.address)) & self.mask() == 0
    }

    const fn bits_max(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    const fn bits(&self, address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(v4) => v4.to_bits() as u128,
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }

    /// The bits of the prefix are 1, all others 0.
    fn mask(&self) -> u128 {
        let free = u32::from(self.bits_max() - self.prefix);
        u128::MAX.checked_shl(free).unwrap_or(0)
    }
}

/// Clients as a rule names them, and their networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The text of the rule. MOUNT EXPORT returns it.
    pub written: String,
    /// The networks of these clients.
    pub networks: Vec<Network>,
}

impl Client {
    /// All clients.
    #[must_use]
    pub fn everybody() -> Self {
        Self { written: "*".into(), networks: Network::ALL.to_vec() }
    }

    /// Whether an address is one of these clients.
    pub(crate) fn is(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }
}

/// Which callers are squashed: mapped to the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// Uid 0 and gid 0 become anonymous.
    #[default]
    Root,
    /// All callers become anonymous.
    All,
    /// No caller is squashed: root on a client is root on the filer.
    None,
}

/// The TLS that a client must use (RFC 9289).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsRule {
    /// Calls over TLS are refused.
    Off,
    /// Calls with and without TLS are served.
    #[default]
    Allowed,
    /// Calls without TLS are refused.
    Required,
    /// Calls of a client that presented no trusted certificate are refused.
    Mutual,
}

impl TlsRule {
    /// The words in settings, in the order of the variants.
    pub const WORDS: [&'static str; 4] = ["off", "allowed", "required", "mutual"];

    /// The rule with this word. `None` if [`Self::WORDS`] does not have it.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let rules = [Self::Off, Self::Allowed, Self::Required, Self::Mutual];
        Self::WORDS.iter().zip(rules).find_map(|(known, rule)| (*known == word).then_some(rule))
    }

    /// The word of the rule.
    #[must_use]
    pub const fn as_word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    const fn judge(self, security: Security) -> Result<(), Refusal> {
        match (self, security) {
            (Self::Off, Security::Tls | Security::Certified) => Err(Refusal::Tls),
            (Self::Required | Self::Mutual, Security::Plain) => Err(Refusal::Plain),
            (Self::Mutual, Security::Tls) => Err(Refusal::NoCertificate),
            _ => Ok(()),
        }
    }
}

/// What a client may do, and as which user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The client may change nothing.
    pub read_only: bool,
    /// Which callers are squashed.
    pub squash: Squash,
    /// Uid of callers without a credential and of squashed callers.
    pub anonymous_uid: u32,
    /// Gid of the same callers.
    pub anonymous_gid: u32,
    /// Only calls from ports below 1024 are served.
    pub privileged_ports: bool,
    /// The TLS that the client must use.
    pub tls: TlsRule,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            read_only: false,
            squash: Squash::Root,
            anonymous_uid: NOBODY,
            anonymous_gid: NOBODY,
            privileged_ports: false,
            tls: TlsRule::Allowed,
        }
    }
}

/// The rights of some clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The clients that the rule names.
    pub clients: Vec<Client>,
    /// Their rights.
    pub rights: Rights,
}

/// The rules of an export. The first rule that names a client applies to it. A client that no rule names is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
}

impl Policy {
    /// A policy that gives these rights to all clients.
    #[must_use]
    pub fn open(rights: Rights) -> Self {
        Self { rules: vec![Rule { clients: vec![Client::everybody()], rights }] }
    }

    /// Whether a rule names the client.
    pub(crate) fn names(&self, client: IpAddr) -> bool {
        self.rules.iter().flat_map(|rule| &rule.clients).any(|named| named.is(client))
    }

    /// The rights of a client.
    ///
    /// # Errors
    /// The reason for which the client may not use the export.
    pub fn judge(&self, peer: &Peer) -> Result<Rights, Refusal> {
        let named = |rule: &&Rule| rule.clients.iter().any(|client| client.is(peer.address));
        let rights = self.rules.iter().find(named).ok_or(Refusal::NoClient)?.rights;
        if rights.privileged_ports && !peer.is_privileged() {
            return Err(Refusal::Port);
        }
        rights.tls.judge(peer.security)?;
        Ok(rights)
    }

    /// All clients of all rules, as written. Empty if a rule names all clients.
    pub(crate) fn written(&self) -> impl Iterator<Item = &str> {
        let everybody = self.rules.iter().flat_map(|rule| &rule.clients).any(|client| client.networks == Network::ALL);
        let clients = self.rules.iter().flat_map(|rule| &rule.clients).filter(move |_| !everybody);
        clients.map(|client| client.written.as_str())
    }
}

/// Why a client may not use an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No rule names the client.
    NoClient,
    /// The client's port is 1024 or higher.
    Port,
    /// The client does not use TLS.
    Plain,
    /// The client presented no trusted certificate.
    NoCertificate,
    /// The client uses TLS.
    Tls,
}

impl Refusal {
    /// The status with which NFS calls are refused.
    pub(crate) const fn nfs_status(self) -> NfsStatus {
        match self {
            Self::Port => NfsStatus::Perm,
            _ => NfsStatus::Acces,
        }
    }

    /// The RPC status with which calls are refused instead, if stronger security would help (RFC 9289 4.2, RFC 5531 9).
    pub(crate) const fn auth_stat(self) -> Option<AuthStat> {
        match self {
            Self::Plain | Self::NoCertificate => Some(AuthStat::TooWeak),
            _ => None,
        }
    }

    /// The status with which a mount is refused.
    pub(crate) const fn mount_status(self) -> MountStatus {
        match self {
            Self::Port => MountStatus::Perm,
            _ => MountStatus::Acces,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoClient => "no rule of the export names this client",
            Self::Port => "the export serves clients on ports below 1024 only",
            Self::Plain => "the export serves TLS connections only",
            Self::NoCertificate => "the export serves clients with a certificate only",
            Self::Tls => "the export does not serve TLS connections",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, port: u16) -> Peer {
        Peer { address: address.parse().unwrap(), port, role: ListenerRole::Nfs, security: Security::Plain }
    }

    fn network(address: &str, prefix: u8) -> Option<Network> {
        Network::new(address.parse().unwrap(), prefix)
    }

    fn rule(networks: &[Network], rights: Rights) -> Rule {
        Rule { clients: vec![Client { written: "these".into(), networks: networks.to_vec() }], rights }
    }

    #[test]
    fn a_network_holds_the_addresses_of_its_first_bits_and_of_its_family() {
        for (network, inside, outside) in [
            (network("10.1.0.0", 16), "10.1.255.255", "10.2.0.0"),
            (network("10.1.2.3", 32), "10.1.2.3", "10.1.2.2"),
            (network("0.0.0.0", 0), "255.255.255.255", "::1"),
            (network("fd00::", 8), "fdff::1", "fe80::1"),
            (network("::1", 128), "::1", "127.0.0.1"),
            (network("::", 0), "::ffff:1", "0.0.0.1"),
        ] {
            let network = network.unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network:?} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network:?} {outside}");
        }
    }

    #[test]
    fn a_network_with_too_many_bits_or_bits_behind_its_prefix_is_none() {
        assert_eq!(network("10.0.0.0", 33), None);
        assert_eq!(network("::", 129), None);
        assert_eq!(network("10.0.0.1", 8), None);
        assert_eq!(network("fd00::1", 64), None);
    }

    #[test]
    fn the_first_rule_that_names_a_client_counts() {
        let ro = Rights { read_only: true, ..Rights::default() };
        let inner = rule(&[network("10.1.0.0", 16).unwrap()], ro);
        let outer = rule(&[network("10.0.0.0", 8).unwrap()], Rights::default());
        let policy = Policy { rules: vec![inner, outer] };
        assert_eq!(policy.judge(&peer("10.1.0.9", 700)), Ok(ro));
        assert_eq!(policy.judge(&peer("10.2.0.9", 700)), Ok(Rights::default()));
        assert_eq!(policy.judge(&peer("11.0.0.1", 700)), Err(Refusal::NoClient));
        assert_eq!(policy.judge(&peer("::1", 700)), Err(Refusal::NoClient));
    }

    #[test]
    fn a_port_that_needs_no_privilege_is_refused_where_one_is_asked_for() {
        let policy = Policy::open(Rights { privileged_ports: true, ..Rights::default() });
        assert!(policy.judge(&peer("10.1.0.9", 1023)).is_ok());
        assert_eq!(policy.judge(&peer("10.1.0.9", 1024)), Err(Refusal::Port));
    }

    #[test]
    fn each_rule_of_tls_lets_the_connections_in_that_it_says() {
        use Security::{Certified, Plain, Tls};
        for (word, allowed) in [
            ("off", &[Plain][..]),
            ("allowed", &[Plain, Tls, Certified]),
            ("required", &[Tls, Certified]),
            ("mutual", &[Certified]),
        ] {
            let policy = Policy::open(Rights { tls: TlsRule::of_word(word).unwrap(), ..Rights::default() });
            for security in [Plain, Tls, Certified] {
                let verdict = policy.judge(&Peer { security, ..peer("10.1.0.9", 700) });
                assert_eq!(verdict.is_ok(), allowed.contains(&security), "{word} {security:?}");
            }
        }
        assert_eq!(TlsRule::of_word("on"), None);
    }

    #[test]
    fn an_ipv4_client_on_an_ipv6_socket_is_the_same_client() {
        let socket = SocketAddr::new("::ffff:10.1.0.9".parse().unwrap(), 9);
        assert_eq!(Peer::at(socket, ListenerRole::Nfs), peer("10.1.0.9", 9));
    }
}
