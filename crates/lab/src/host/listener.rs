//! Finds the processes of this host that listen on an address, and the addresses that a process is connected to: by the inodes of
//! sockets in /proc/net/tcp and the descriptors of processes.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::host::procfs;

/// State of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";

/// State of a connection there.
const ESTABLISHED: &str = "01";

/// The processes that listen on this address, if it is one of this host; empty if the kernel itself listens, or if this user
/// may not read the process's descriptors.
pub(crate) fn processes_at(address: SocketAddr) -> Vec<u32> {
    if !is_of_this_host(address.ip()) {
        return Vec::new();
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inodes: HashSet<String> = tables.iter().flat_map(|table| listening(table, address)).collect();
    if inodes.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<u32> = procfs::pids().filter(|pid| sockets(*pid).any(|inode| inodes.contains(&inode))).collect();
    found.sort_unstable();
    found
}

/// The addresses that a process of this network namespace is connected to over TCP, each once. Empty if this user may not read its
/// descriptors.
pub(crate) fn peers(pid: u32) -> Vec<SocketAddr> {
    let inodes: HashSet<String> = sockets(pid).collect();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let mut found: Vec<SocketAddr> = tables.iter().flat_map(|table| connected(table, &inodes)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Inodes of the sockets of a process.
fn sockets(pid: u32) -> impl Iterator<Item = String> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|fd| {
        let target = fs::read_link(fd.path()).ok()?;
        Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    })
}

/// Whether this host has the address, tested by binding a socket to it.
pub(crate) fn is_of_this_host(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Inodes of the listening sockets that accept a connection to `address`.
fn listening(table: &str, address: SocketAddr) -> Vec<String> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = parse_address(fields.get(1)?)?;
        let matches = local.port() == address.port() && (local.ip().is_unspecified() || same(local.ip(), address.ip()));
        (*fields.get(3)? == LISTEN && matches).then(|| fields.get(9).map(|inode| (*inode).to_owned())).flatten()
    };
    table.lines().filter_map(row).collect()
}

/// The other ends of the connections with these inodes. An address of version 4 in a socket of version 6 is one of version 4.
fn connected(table: &str, inodes: &HashSet<String>) -> Vec<SocketAddr> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_one = *fields.get(3)? == ESTABLISHED && inodes.contains(*fields.get(9)?);
        let other = parse_address(fields.get(2)?)?;
        is_one.then(|| SocketAddr::new(other.ip().to_canonical(), other.port()))
    };
    table.lines().filter_map(row).collect()
}

fn same(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

/// Parses `0100007F:0801`: words of the address in the host's byte order, the port in hexadecimal.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words: Option<Vec<[u8; 4]>> = (0..4).map(word).collect();
            let octets: [u8; 16] = words?.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_of_this_process_is_found_by_its_address_and_by_none_other() {
        for address in ["127.0.0.1:0", "0.0.0.0:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert_eq!(processes_at(SocketAddr::from(([127, 0, 0, 1], port))), [std::process::id()]);
            drop(listener);
            assert_eq!(processes_at(SocketAddr::from(([127, 0, 0, 1], port))), [0; 0]);
        }
        assert_eq!(processes_at("192.0.2.1:2049".parse().unwrap()), [0; 0], "an address of another host");
    }

    #[test]
    fn a_process_is_connected_to_the_other_ends_of_its_sockets() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(!peers(std::process::id()).contains(&address));
        let stream = std::net::TcpStream::connect(address).unwrap();
        assert!(peers(std::process::id()).contains(&address));
        drop(stream);
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_address("0100007F:0801"), Some("127.0.0.1:2049".parse().unwrap()));
        let six = parse_address("00000000000000000000000001000000:0801");
        assert_eq!(six, Some("[::1]:2049".parse().unwrap()));
        assert_eq!(parse_address("nonsense:0801"), None);
    }
}
