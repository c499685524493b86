//! One server, or several to try in turn, from the parameters of a connection.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, LoadBalanceHosts, SslNegotiation, TargetSessionAttrs};

use super::environment::Environment;
use super::error::ConninfoError;
use super::parameter_values::{Parameters, choice, number, value};
use super::passfile::{self, Login};
use crate::limits::CONNECT_S;
use crate::postgres::tls::Tls;

/// Directory of the Unix sockets in Debian's packages, the default if no host is given.
const SOCKET_DIR: &str = "/var/run/postgresql";
const PORT: u16 = 5432;
/// libpq's minimum time for one attempt.
const CONNECT_S_MIN: u64 = 2;

/// One address of a server.
#[derive(Clone)]
pub(in crate::postgres) struct Endpoint {
    /// Host name, address or directory of sockets.
    pub(in crate::postgres) host: String,
    /// The address to connect to, if the name must not be resolved.
    pub(in crate::postgres) address: Option<IpAddr>,
    pub(in crate::postgres) port: u16,
    pub(in crate::postgres) password: Option<String>,
}

impl fmt::Debug for Endpoint {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Whether it is a Unix socket, which has no TLS.
    pub(in crate::postgres) fn is_socket(&self) -> bool {
        self.address.is_none() && self.host.starts_with('/')
    }

    /// The client library's configuration for this address alone; the caller that connects decides about TLS.
    pub(in crate::postgres) fn config(&self, common: &Config) -> Config {
        let mut config = common.clone();
        config.host(&self.host).port(self.port);
        if let Some(address) = self.address {
            config.hostaddr(address);
        }
        if let Some(password) = &self.password {
            config.password(password);
        }
        config
    }
}

/// Connection settings.
#[derive(Debug, Clone)]
pub(in crate::postgres) struct Server {
    /// Settings for every address; neither host nor password.
    pub(in crate::postgres) common: Config,
    pub(in crate::postgres) endpoints: Vec<Endpoint>,
    pub(in crate::postgres) tls: Tls,
    /// Why the password file is ignored; `None` if it is not.
    pub(in crate::postgres) warning: Option<String>,
}

impl Server {
    pub(super) fn of(parameters: &Parameters, environment: &Environment<'_>) -> Result<Self, ConninfoError> {
        refuse_demands(parameters)?;
        let mut endpoints = endpoints(parameters)?;
        let common = common(parameters)?;
        let mut warning = None;
        if !parameters.contains_key("password") {
            let file = parameters.get("passfile").map(PathBuf::from).or_else(|| Some(environment.home()?.join(".pgpass")));
            match file.map_or_else(|| Ok(String::new()), |file| passfile::read(&file)) {
                Ok(text) => look_up(&text, &mut endpoints, &common),
                Err(why) => warning = Some(why),
            }
        }
        let tls = Tls::of(parameters, environment, endpoints.iter().all(Endpoint::is_socket))?;
        Ok(Self { common, endpoints, tls, warning })
    }

    /// The user.
    pub(in crate::postgres) fn user(&self) -> &str {
        self.common.get_user().unwrap_or("a user without a name")
    }

    /// The database.
    pub(in crate::postgres) fn database(&self) -> &str {
        self.common.get_dbname().unwrap_or_else(|| self.user())
    }

    /// Upper limit of the time until a socket to one of its addresses is open.
    pub(in crate::postgres) fn connect_limit(&self) -> Duration {
        let each = self.common.get_connect_timeout().copied().unwrap_or(Duration::from_secs(CONNECT_S));
        each * u32::try_from(self.endpoints.len()).unwrap_or(1)
    }

    /// `HOST:PORT`, or the directory of a Unix socket; several are separated by commas.
    pub(in crate::postgres) fn address(&self) -> String {
        let each: Vec<String> = self.endpoints.iter().map(|one| format!("{}:{}", one.host, one.port)).collect();
        each.join(",")
    }
}

/// Refuses requirements that no connection of this client meets: GSSAPI encryption, and a protocol newer than 3.0.
fn refuse_demands(parameters: &Parameters) -> Result<(), ConninfoError> {
    let demands = [
        (
            "gssencmode",
            [("disable", false), ("prefer", false), ("require", true)],
            "has no GSSAPI encryption",
            "set gssencmode=disable, in the connection string or in PGGSSENCMODE; sslmode=verify-full encrypts by TLS",
        ),
        (
            "min_protocol_version",
            [("3.0", false), ("3.2", true), ("latest", true)],
            "speaks version 3.0 of the protocol",
            "set min_protocol_version=3.0, in the connection string or in PGMINPROTOCOLVERSION",
        ),
    ];
    for (keyword, values, lack, fix) in demands {
        if choice(parameters, keyword, &values)? == Some(true) {
            let demand = format!("{keyword}={}", parameters.get(keyword).map_or("", String::as_str));
            return Err(ConninfoError::Demand { demand, lack, fix });
        }
    }
    Ok(())
}

fn look_up(text: &str, endpoints: &mut [Endpoint], common: &Config) {
    let user = common.get_user().unwrap_or_default();
    let database = common.get_dbname().unwrap_or(user);
    for endpoint in endpoints {
        let host = if endpoint.host == SOCKET_DIR { "localhost" } else { endpoint.host.as_str() };
        endpoint.password = passfile::password(text, Login { host, port: endpoint.port, database, user });
    }
}

fn endpoints(parameters: &Parameters) -> Result<Vec<Endpoint>, ConninfoError> {
    let list = |keyword: &str| -> Vec<&str> { parameters.get(keyword).map_or_else(Vec::new, |text| text.split(',').collect()) };
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = hosts.len().max(addresses.len()).max(1);
    let counts = |keyword, found: usize, allowed_one: bool| {
        if found == count || found == 0 || (allowed_one && found == 1) {
            return Ok(());
        }
        Err(value(keyword, format!("{found} values for {count} hosts")))
    };
    counts("host", hosts.len(), false)?;
    counts("hostaddr", addresses.len(), false)?;
    counts("port", ports.len(), true)?;
    (0..count)
        .map(|index| {
            let address = addresses.get(index).filter(|text| !text.is_empty());
            let address = address.map(|text| text.parse::<IpAddr>().map_err(|_| value("hostaddr", "not an IP address")));
            let address = address.transpose()?;
            let named = hosts.get(index).filter(|host| !host.is_empty()).map(|host| (*host).to_owned());
            let host = named.or_else(|| address.map(|address| address.to_string())).unwrap_or_else(|| SOCKET_DIR.to_owned());
            let port = ports.get(index).or(ports.first()).copied().unwrap_or_default();
            let port = if port.is_empty() { PORT } else { port_of(port)? };
            Ok(Endpoint { host, address, port, password: parameters.get("password").cloned() })
        })
        .collect()
}

/// The error does not repeat the text: if a character of a password was not encoded, the text may be the rest of the password.
fn port_of(text: &str) -> Result<u16, ConninfoError> {
    let port = text.trim().parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| value("port", "not a number from 1 to 65535"))
}

/// Settings for every address.
fn common(parameters: &Parameters) -> Result<Config, ConninfoError> {
    let mut config = Config::new();
    let user = parameters.get("user").cloned().or_else(|| whoami::username().ok());
    if let Some(user) = user {
        // As in libpq, the default database name is the user's name.
        config.dbname(parameters.get("dbname").unwrap_or(&user)).user(user);
    }
    let name = parameters.get("application_name").or_else(|| parameters.get("fallback_application_name"));
    config.application_name(name.map_or("millrace orders", String::as_str));
    if let Some(options) = parameters.get("options") {
        config.options(options);
    }
    let timeout = number(parameters, "connect_timeout")?.map_or(CONNECT_S, |seconds| seconds.max(CONNECT_S_MIN));
    config.connect_timeout(Duration::from_secs(timeout));
    config.keepalives(parameters.get("keepalives").is_none_or(|text| text != "0"));
    if let Some(seconds) = number(parameters, "keepalives_idle")? {
        config.keepalives_idle(Duration::from_secs(seconds));
    }
    if let Some(seconds) = number(parameters, "keepalives_interval")? {
        config.keepalives_interval(Duration::from_secs(seconds));
    }
    if let Some(count) = number(parameters, "keepalives_count")?.or(number(parameters, "keepalives_retries")?) {
        config.keepalives_retries(u32::try_from(count).unwrap_or(u32::MAX));
    }
    if let Some(ms) = number(parameters, "tcp_user_timeout")? {
        config.tcp_user_timeout(Duration::from_millis(ms));
    }
    let bindings =
        [("disable", ChannelBinding::Disable), ("prefer", ChannelBinding::Prefer), ("require", ChannelBinding::Require)];
    if let Some(binding) = choice(parameters, "channel_binding", &bindings)? {
        config.channel_binding(binding);
    }
    let attributes = [
        ("any", TargetSessionAttrs::Any),
        ("read-write", TargetSessionAttrs::ReadWrite),
        ("read-only", TargetSessionAttrs::ReadOnly),
    ];
    if let Some(attributes) = choice(parameters, "target_session_attrs", &attributes)? {
        config.target_session_attrs(attributes);
    }
    let orders = [("disable", LoadBalanceHosts::Disable), ("random", LoadBalanceHosts::Random)];
    if let Some(order) = choice(parameters, "load_balance_hosts", &orders)? {
        config.load_balance_hosts(order);
    }
    let negotiations = [("postgres", SslNegotiation::Postgres), ("direct", SslNegotiation::Direct)];
    if let Some(negotiation) = choice(parameters, "sslnegotiation", &negotiations)? {
        config.ssl_negotiation(negotiation);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Result<Server, ConninfoError> {
        let options = crate::postgres::ConnectionOptions::of(text);
        super::super::resolve(&options, &Environment(&|_| None))
    }

    #[test]
    fn hosts_have_their_ports_and_addresses_in_order() {
        let found = server("host=db1,/run/pg hostaddr=10.0.0.1, port=5433,").unwrap();
        assert_eq!(found.address(), "db1:5433,/run/pg:5432");
        assert_eq!((found.endpoints[0].is_socket(), found.endpoints[1].is_socket()), (false, true));
        assert_eq!(server("host=a,b port=7").unwrap().address(), "a:7,b:7");
        assert_eq!(server("hostaddr=10.0.0.1").unwrap().address(), "10.0.0.1:5432");
    }

    #[test]
    fn a_value_outside_its_range_names_its_keyword_and_no_part_of_a_password() {
        for (text, words) in [
            ("host=a,b port=1,2,3", "port: 3 values for 2 hosts"),
            ("host=a hostaddr=b", "hostaddr: not an IP address"),
            ("postgresql://clerk:a/secret@db1", "a port is not a number from 1 to 65535"),
            ("port=65536 password=secret", "port: not a number from 1 to 65535"),
            ("sslmode=maybe", "sslmode: \"maybe\" is not one of disable, allow, prefer, require, verify-ca, verify-full"),
            ("sslnegotiation=direct host=a", "sslnegotiation: direct needs sslmode=require or more, not prefer"),
            ("connect_timeout=soon", "connect_timeout: \"soon\" is not a whole number"),
            ("target_session_attrs=standby", "is not one of any, read-write, read-only"),
            ("gssencmode=maybe", "gssencmode: \"maybe\" is not one of disable, prefer, require"),
        ] {
            let said = server(text).unwrap_err().to_string();
            assert!(said.contains(words) && !said.contains("secret"), "{text}: {said}");
        }
    }
}
