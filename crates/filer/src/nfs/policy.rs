//! Who may use an export, and as whom: rules by the address of the client, judged when a connection begins or rules
//! change, never per call.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::NfsStatus;
use nfs_proto::rpc::AuthStat;

use crate::listener::ListenerRole;

/// The first port that every user of a client may use. Only root may use lower ones.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;

/// The user that a squashed or anonymous caller becomes.
pub const NOBODY: u32 = 65_534;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address, an IPv4 one never IPv4-mapped.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// What is served where it connected.
    pub role: ListenerRole,
    /// What the connection is.
    pub security: Security,
}

/// How the connection is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Security {
    /// Without TLS: an attacker on the path can read and change the data.
    Plain,
    /// Under TLS.
    Tls,
    /// Under TLS, and the client showed a certificate that is trusted.
    Certified,
}

impl Peer {
    /// The peer at this end of a socket, in the clear; an IPv4-mapped IPv6 address is the same client as its IPv4 one.
    #[must_use]
    pub fn at(address: SocketAddr, role: ListenerRole) -> Self {
        Self { address: address.ip().to_canonical(), port: address.port(), role, security: Security::Plain }
    }

    /// Whether the client's port is one that only root of its host can use.
    pub(crate) const fn is_privileged(&self) -> bool {
        self.port < UNPRIVILEGED_PORT_MIN
    }
}

/// An address and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// All of both families.
    pub const ALL: [Self; 2] = [
        Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 },
        Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 },
    ];

    /// The network of the first `prefix` bits; none if the address has fewer, or has bits set behind them: that is
    /// most likely a mistake.
    #[must_use]
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = Self { address, prefix };
        (prefix <= network.bits_max() && network.bits(address) & !network.mask() == 0).then_some(network)
    }

    /// One address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether the address is in it.
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

    /// Ones where bits count.
    fn mask(&self) -> u128 {
        let free = u32::from(self.bits_max() - self.prefix);
        u128::MAX.checked_shl(free).unwrap_or(0)
    }
}

/// Clients as they were named, and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// As the rule was written: what EXPORT answers with.
    pub written: String,
    /// Where these clients are.
    pub networks: Vec<Network>,
}

impl Client {
    /// Everybody.
    #[must_use]
    pub fn everybody() -> Self {
        Self { written: "*".into(), networks: Network::ALL.to_vec() }
    }

    /// Whether an address is one of these clients.
    pub(crate) fn is(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }
}

/// Whose identity is squashed: replaced by the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// Uid 0 and gid 0 become anonymous.
    #[default]
    Root,
    /// Everybody becomes anonymous.
    All,
    /// Nobody: root on a client is root here.
    None,
}

/// What TLS a client must have (RFC 9289).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsRule {
    /// None: calls over TLS are refused.
    Off,
    /// Either.
    #[default]
    Allowed,
    /// Calls in the clear are refused.
    Required,
    /// Calls of a client that shows no certificate are refused.
    Mutual,
}

impl TlsRule {
    /// The values of settings, in the order of the rules.
    pub const WORDS: [&'static str; 4] = ["off", "allowed", "required", "mutual"];

    /// The rule of a word; none if it is none of [`Self::WORDS`].
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let rules = [Self::Off, Self::Allowed, Self::Required, Self::Mutual];
        Self::WORDS.iter().zip(rules).find_map(|(known, rule)| (*known == word).then_some(rule))
    }

    /// Its word.
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

/// What a client may do, and as whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Nothing may be changed.
    pub read_only: bool,
    /// Whose identity is squashed.
    pub squash: Squash,
    /// Uid of who has none, or was squashed.
    pub anonymous_uid: u32,
    /// Gid of the same.
    pub anonymous_gid: u32,
    /// Only ports below 1024 are served.
    pub privileged_ports: bool,
    /// What TLS it must have.
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

/// Rights of some clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whom it is about.
    pub clients: Vec<Client>,
    /// What they may.
    pub rights: Rights,
}

/// The rules of an export: the first that names a client applies to it. A client that none names is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rules, in this order.
    pub rules: Vec<Rule>,
}

impl Policy {
    /// Everybody has these rights.
    #[must_use]
    pub fn open(rights: Rights) -> Self {
        Self { rules: vec![Rule { clients: vec![Client::everybody()], rights }] }
    }

    /// Whether a rule names a client.
    pub(crate) fn names(&self, client: IpAddr) -> bool {
        self.rules.iter().flat_map(|rule| &rule.clients).any(|named| named.is(client))
    }

    /// What a client may.
    ///
    /// # Errors
    /// Why it may nothing.
    pub fn judge(&self, peer: &Peer) -> Result<Rights, Refusal> {
        let named = |rule: &&Rule| rule.clients.iter().any(|client| client.is(peer.address));
        let rights = self.rules.iter().find(named).ok_or(Refusal::NoClient)?.rights;
        if rights.privileged_ports && !peer.is_privileged() {
            return Err(Refusal::Port);
        }
        rights.tls.judge(peer.security)?;
        Ok(rights)
    }

    /// All clients of all rules as they were written; empty when everybody is served.
    pub(crate) fn written(&self) -> impl Iterator<Item = &str> {
        let everybody = self.rules.iter().flat_map(|rule| &rule.clients).any(|client| client.networks == Network::ALL);
        let clients = self.rules.iter().flat_map(|rule| &rule.clients).filter(move |_| !everybody);
        clients.map(|client| client.written.as_str())
    }
}

/// Why a client may not use an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No rule names it.
    NoClient,
    /// It calls from a port that needs no privilege.
    Port,
    /// It calls in the clear.
    Plain,
    /// It showed no certificate.
    NoCertificate,
    /// It calls under TLS.
    Tls,
}

impl Refusal {
    /// What a call of NFS is answered with.
    pub(crate) const fn nfs_status(self) -> NfsStatus {
        match self {
            Self::Port => NfsStatus::Perm,
            _ => NfsStatus::Acces,
        }
    }

    /// What RPC answers with instead, where the matter is not who calls but how (RFC 9289 4.2, RFC 5531 9).
    pub(crate) const fn auth_stat(self) -> Option<AuthStat> {
        match self {
            Self::Plain | Self::NoCertificate => Some(AuthStat::TooWeak),
            _ => None,
        }
    }

    /// What a mount is answered with.
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
