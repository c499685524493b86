//! Finds the interfaces that lead to storage: by the addresses of storage servers, the routes of
//! the host, and the console of a filer.

mod filer;
mod route;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::collected::Collected;
use super::mounts::server;
use super::text::{telling, words};
use crate::facts::{Attributes, DIRECT_NFS_MOUNT, Facts, Value};
use filer::Filer;
pub(super) use route::{Route, holds, routes};

/// The kinds of network interfaces of a host.
const KINDS: [&str; 3] = ["nic", "en", "lan"];

/// The addresses and routes of the host and its storage.
pub(super) struct Network {
    names: BTreeMap<String, IpAddr>,
    filer: Option<Filer>,
    routes: Vec<Route>,
    /// Addresses of the default gateways of the host.
    gateways: BTreeSet<IpAddr>,
}

impl Network {
    /// Reads them from the collected texts and from the facts of other parsers.
    pub(super) fn read(collected: &Collected, facts: &Facts) -> Self {
        let filer = Filer::read(facts);
        let mut names = hosts(collected);
        names.extend(mounted(collected));
        for (name, address) in filer.iter().flat_map(Filer::names) {
            names.entry(name).or_insert(address);
        }
        let (routes, gateways) = routes(collected, facts);
        Self { names, filer, routes, gateways }
    }

    /// Notes the volume of each NFS mount. It is the same for all its mounts, whichever name or
    /// address of the server they use.
    pub(super) fn name_volumes(&self, facts: &mut Facts) {
        let mut volumes = Vec::new();
        for (point, mount) in facts.things.get("mount").into_iter().flatten() {
            let Some(server) = text(mount, "server") else { continue };
            let path = text(mount, "source").and_then(|source| source.rsplit_once(":/")).map(|(_, path)| path);
            let called = text(mount, "server_address").unwrap_or(server);
            let origin = mount.get("source").map(|fact| fact.origin.clone()).unwrap_or_default();
            volumes.extend(path.map(|path| (point.clone(), format!("{}:/{path}", self.server(server, called)), origin)));
        }
        for (point, volume, origin) in volumes {
            facts.put_of("mount", &point, "volume", volume, &origin);
        }
    }

    /// One name for a server with several: the filer in the capture, otherwise its address,
    /// otherwise its name.
    fn server(&self, name: &str, address: &str) -> String {
        if self.is_filer(name) || self.is_filer(address) {
            return FILER.to_owned();
        }
        let address = self.address(address).or_else(|| self.address(name));
        address.map_or_else(|| name.to_owned(), |address| address.to_string())
    }

    /// Whether this server is the filer whose console is in the capture.
    fn is_filer(&self, server: &str) -> bool {
        self.filer.as_ref().is_some_and(|filer| filer.is_called(server, self.address(server)))
    }

    /// Marks the interfaces of the host and of the filer: whether data of the host's storage passes
    /// through them.
    pub(super) fn mark(&self, facts: &mut Facts) {
        let names = storage_servers(facts);
        let mut servers: BTreeSet<IpAddr> = names.iter().filter_map(|name| self.address(name)).collect();
        if let Some(filer) = self.filer.as_ref().filter(|_| names.iter().any(|name| self.is_filer(name))) {
            let ports = filer.storage_ports(&servers, &|address| self.is_linked(address));
            let storage = ports.iter().filter(|(_, is_storage)| **is_storage);
            servers.extend(storage.filter_map(|(port, _)| filer.address(port)));
            for (port, is_storage) in ports {
                facts.put_of("ontap_if", &port, "storage", is_storage, ORIGIN);
            }
        }
        // If the address of a server is not known, its data may pass through any interface.
        let is_whole = names.iter().all(|name| self.address(name).is_some() || self.is_filer(name));
        let used: BTreeSet<&str> = servers.iter().filter_map(|server| self.interface(*server)).collect();
        if used.is_empty() {
            return;
        }
        let mounts = self.mounts_by_interface(facts);
        for kind in KINDS {
            let named: Vec<String> = facts.things.get(kind).into_iter().flatten().map(|(name, _)| name.clone()).collect();
            for name in named {
                let is_used = used.contains(name.as_str());
                if !is_used && !is_whole {
                    continue;
                }
                facts.put_of(kind, &name, "storage", is_used, ORIGIN);
                if let Some(mounts) = &mounts {
                    facts.put_of(kind, &name, "nfs_mounts", mounts.get(&name).copied().unwrap_or(0), ORIGIN);
                }
                // The adapter of `en0` is `ent0`.
                let adapter = name.replacen("en", "ent", 1);
                if kind == "en" && facts.things.get("ent").is_some_and(|adapters| adapters.contains_key(&adapter)) {
                    facts.put_of("ent", &adapter, "storage", is_used, ORIGIN);
                }
            }
        }
    }

    /// The number of NFS mounts on each interface; `None` if the interface of one of them is not
    /// known.
    fn mounts_by_interface(&self, facts: &Facts) -> Option<BTreeMap<String, i64>> {
        let mut counts = BTreeMap::new();
        for mount in facts.things.get("mount").into_iter().flat_map(BTreeMap::values) {
            if let Some(server) = text(mount, "server_address").or_else(|| text(mount, "server")) {
                *counts.entry(self.interface(self.address(server)?)?.to_owned()).or_insert(0) += 1;
            }
        }
        Some(counts)
    }

    /// The interface of the most specific route to an address.
    fn interface(&self, address: IpAddr) -> Option<&str> {
        let best = self.routes.iter().filter(|route| holds(route, address)).max_by_key(|route| route.bits);
        best.map(|route| route.interface.as_str())
    }

    /// Whether an address is in the network of a host's interface that does not lead to the default
    /// gateway. `None` if the network of no interface is known.
    fn is_linked(&self, address: IpAddr) -> Option<bool> {
        let public: BTreeSet<&str> = self.gateways.iter().filter_map(|gateway| self.interface(*gateway)).collect();
        let direct = self.routes.iter().filter(|route| route.is_direct);
        let nearest = direct.clone().filter(|route| holds(route, address)).max_by_key(|route| route.bits);
        direct.clone().next()?;
        Some(nearest.is_some_and(|route| !public.contains(route.interface.as_str())))
    }

    /// The address of a server: the text itself, with or without a port, or the address of its
    /// name.
    fn address(&self, name: &str) -> Option<IpAddr> {
        let plain = name.trim_matches(['[', ']']);
        let plain = plain.parse().ok().or_else(|| {
            let (host, _) = plain.rsplit_once(':')?;
            host.trim_matches(['[', ']']).parse().ok()
        });
        plain.or_else(|| self.names.get(name).copied())
    }
}

/// The name in volumes of the filer whose console is in the capture.
const FILER: &str = "the filer";

/// The origin of these facts.
const ORIGIN: &str = "route to the storage";

/// Names or addresses of NFS servers, Direct NFS servers and iSCSI portals.
fn storage_servers(facts: &Facts) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (kind, attributes) in [
        ("mount", &["server_address", "server"][..]),
        (DIRECT_NFS_MOUNT, &["server_address", "server"]),
        ("iscsi_session", &["portal"]),
        ("oranfstab_path", &["path"]),
        ("hdisk", &["host_addr"]),
    ] {
        // The host reaches a server on itself through no interface.
        let is_here = |thing: &&Attributes| thing.get("loopback").is_some_and(|fact| fact.value == Value::Bool(true));
        for thing in facts.things.get(kind).into_iter().flat_map(BTreeMap::values).filter(|thing| !is_here(thing)) {
            // The first known attribute is used.
            names.extend(attributes.iter().find_map(|name| text(thing, name)).map(str::to_owned));
        }
    }
    if let Some(Value::List(paths)) = facts.value("oracle.dnfs.paths") {
        names.extend(paths.iter().filter_map(|path| if let Value::Text(path) = path { Some(path.clone()) } else { None }));
    }
    names
}

/// The text of an attribute; `None` if it is empty.
fn text<'a>(thing: &'a Attributes, name: &str) -> Option<&'a str> {
    match thing.get(name).map(|fact| &fact.value) {
        Some(Value::Text(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The names in `/etc/hosts` with their addresses.
fn hosts(collected: &Collected) -> BTreeMap<String, IpAddr> {
    let mut hosts = BTreeMap::new();
    for (_, line) in collected.file("/etc/hosts").into_iter().flat_map(|text| telling(text, &['#'])) {
        let mut all = words(line.split('#').next().unwrap_or(line));
        if let Some(address) = all.next().and_then(|address| address.parse().ok()) {
            hosts.extend(all.map(|name| (name.to_owned(), address)));
        }
    }
    hosts
}

/// Names of NFS servers with the addresses that `mount` prints for them.
fn mounted(collected: &Collected) -> Vec<(String, IpAddr)> {
    let of_line = |line: &str| {
        let server = server(words(line).next()?)?;
        let (_, rest) = line.split_once("addr=")?;
        let address = rest.split([',', ')', ' ']).next()?.parse().ok()?;
        Some((server.to_owned(), address))
    };
    let outputs = collected.outputs("mount").filter(|(rest, _)| matches!(rest.as_str(), "" | "-v"));
    outputs.flat_map(|(_, output)| telling(&output.text, &[])).filter_map(|(_, line)| of_line(line)).collect()
}

#[cfg(test)]
mod tests;
