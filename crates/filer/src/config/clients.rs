//! Clients as a rule names them: all, a network, an address, or a host.

use std::net::IpAddr;

use super::Resolve;
use crate::limits::HOST_NAME_BYTES_MAX;
use crate::nfs::policy::{Client, Network};

/// Parses one client. A host name is resolved now, and again only at the next reload, so that no call waits for a name
/// server.
pub(super) fn client(written: &str, resolve: Resolve<'_>) -> Result<Client, String> {
    let networks = if written == "*" {
        Network::ALL.to_vec()
    } else if let Some((address, prefix)) = written.split_once('/') {
        vec![network(written, address, prefix)?]
    } else if let Ok(address) = written.parse() {
        vec![Network::of(address)]
    } else {
        host(written, resolve)?
    };
    Ok(Client { written: written.to_owned(), networks })
}

fn network(written: &str, address: &str, prefix: &str) -> Result<Network, String> {
    let shape = || format!("{written:?} is not a network: write an address and a prefix length, as 10.1.0.0/16");
    let address: IpAddr = address.parse().map_err(|_| shape())?;
    let prefix: u8 = prefix.parse().map_err(|_| shape())?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if prefix > bits {
        return Err(format!("{written:?} is not a network: an address has {bits} bits"));
    }
    Network::new(address, prefix).ok_or_else(|| format!("{written:?} is not a network: bits after the first {prefix} are set"))
}

fn host(written: &str, resolve: Resolve<'_>) -> Result<Vec<Network>, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if written.is_empty() || written.len() > HOST_NAME_BYTES_MAX || !written.bytes().all(plain) {
        return Err(format!("{written:?} is not a client: write *, an address, a network (10.1.0.0/16) or a host name"));
    }
    match resolve(written) {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses.into_iter().map(Network::of).collect()),
        Ok(_) => Err(format!("client {written:?} has no address")),
        Err(error) => Err(format!(
            "client {written:?}: failed to look up its address: {error}; check the spelling and `getent hosts {written}`"
        )),
    }
}
