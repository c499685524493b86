//! Requests on the admin socket about LUNs: listed, created, resized, mapped, deleted.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use iscsi_proto::login::Name;
use results::filer_stats::ProcedureStats;
use results::luns::{LunSession, LunStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::iscsi::{Iscsi, Target, command_name};
use crate::luns::{ANY, CountedRow, Lun, LunError, LunOptions, NewLun};
use crate::server::Server;

/// The physical block size that initiators see by default: a page of the host. The host must read the page before a
/// smaller write.
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

/// The operations, for the error about an unknown operation.
pub(crate) const NAMES: &str = "lun-list, lun-create, lun-resize, lun-map, lun-unmap, lun-delete";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LunRequest {
    #[serde(rename = "op")]
    _op: String,
    /// `VOLUME/NAME`.
    #[serde(default)]
    lun: String,
    #[serde(default)]
    size_bytes: u64,
    #[serde(default)]
    block_bytes: Option<u32>,
    #[serde(default)]
    physical_block_bytes: Option<u32>,
    #[serde(default)]
    number: Option<u16>,
    #[serde(default)]
    thick: bool,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    write_cache: bool,
    #[serde(default)]
    unmapped: bool,
    #[serde(default)]
    initiators: Vec<String>,
    #[serde(default)]
    all: bool,
    #[serde(default)]
    shrink: bool,
    #[serde(default)]
    force: bool,
}

/// Executes a request. The error says why nothing was done, without the name of the LUN.
type CarryOut = fn(&Server, &Target, &str, &LunRequest) -> Result<Option<Arc<Lun>>, LunError>;

/// The reply to a LUN request, or why it is refused. `None` if it is another request.
pub(crate) fn answer(server: &Server, op: &str, request: &Value) -> Option<Result<Value, String>> {
    let carry_out: CarryOut = match op {
        "lun-list" => return Some(Ok(json!({"ok": true, "luns": list(server.iscsi())}))),
        "lun-create" => create,
        "lun-resize" => |_, target, name, request| target.luns.resize(name, request.size_bytes, request.shrink).map(Some),
        "lun-map" => map,
        "lun-unmap" => unmap,
        "lun-delete" => delete,
        _ => return None,
    };
    let parsed = LunRequest::deserialize(request).map_err(|error| format!("parse the request: {error}"));
    Some(parsed.and_then(|request| {
        let (target, name) = find(server, &request.lun)?;
        let done = carry_out(server, &target, name, &request).map_err(|error| error.to_string())?;
        tracing::info!(lun = request.lun, op, "LUN changed");
        let lun = done.map(|lun| status(server.iscsi(), &target, &lun));
        Ok(json!({"ok": true, "lun": lun}))
    }))
}

/// The target of a volume, and the name of a LUN in it.
fn find<'r>(server: &Server, path: &'r str) -> Result<(Arc<Target>, &'r str), String> {
    let (volume, name) = path.split_once('/').ok_or_else(|| format!("{path:?} is not VOLUME/NAME"))?;
    let target = server.iscsi().targets.of_volume(volume);
    let exports = server.filer().exports();
    let known = || exports.entries().iter().map(|entry| entry.export.name()).collect::<Vec<_>>().join(", ");
    let target = target.ok_or_else(|| format!("there is no volume {volume:?}: the filer serves {}", known()))?;
    Ok((target, name))
}

fn create(server: &Server, target: &Target, name: &str, request: &LunRequest) -> Result<Option<Arc<Lun>>, LunError> {
    let initiators = match (request.unmapped, request.initiators.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec![ANY.to_owned()],
        (false, false) => checked(server.iscsi(), &request.initiators)?,
    };
    let options = LunOptions {
        lun: 0,
        block_bytes: request.block_bytes.unwrap_or(512),
        physical_block_bytes: request.physical_block_bytes.unwrap_or(PHYSICAL_BLOCK_BYTES),
        thin: !request.thick,
        read_only: request.read_only,
        write_cache: request.write_cache,
        initiators,
    };
    let new = NewLun { name: name.to_owned(), size: request.size_bytes, number: request.number, options };
    target.luns.create(new).map(Some)
}

fn map(server: &Server, target: &Target, name: &str, request: &LunRequest) -> Result<Option<Arc<Lun>>, LunError> {
    let wanted = if request.all { vec![ANY.to_owned()] } else { checked(server.iscsi(), &request.initiators)? };
    let change = |mapped: &mut Vec<String>| {
        // A LUN is mapped to all initiators or to some by name. The first name ends the mapping to all.
        if request.all {
            mapped.clear();
        } else {
            mapped.retain(|name| name != ANY);
        }
        mapped.extend(wanted.into_iter().filter(|name| !mapped.contains(name)).collect::<Vec<_>>());
        Ok(())
    };
    target.luns.map(name, change).map(Some)
}

fn unmap(_: &Server, target: &Target, name: &str, request: &LunRequest) -> Result<Option<Arc<Lun>>, LunError> {
    let change = |mapped: &mut Vec<String>| {
        if request.all {
            mapped.clear();
            return Ok(());
        }
        let wanted: Vec<String> = request.initiators.iter().map(|name| name.to_lowercase()).collect();
        let is_meant = |name: &String| request.initiators.contains(name) || wanted.contains(name);
        if let Some(missing) =
            request.initiators.iter().find(|name| !mapped.contains(name) && !mapped.contains(&name.to_lowercase()))
        {
            return Err(LunError::NotMapped(missing.clone()));
        }
        mapped.retain(|name| !is_meant(name));
        Ok(())
    };
    target.luns.map(name, change).map(Some)
}

fn delete(server: &Server, target: &Target, name: &str, request: &LunRequest) -> Result<Option<Arc<Lun>>, LunError> {
    let lun = target.luns.named(name).ok();
    let users = lun.filter(|_| !request.force).map_or_else(Vec::new, |lun| {
        let mut users: Vec<String> =
            sessions(server.iscsi(), target, &lun).into_iter().map(|session| session.initiator).collect();
        users.dedup();
        users
    });
    target.luns.delete(name, users).map(|()| None)
}

/// The names, if all of them are initiators or groups that a LUN can be mapped to.
fn checked(iscsi: &Iscsi, names: &[String]) -> Result<Vec<String>, LunError> {
    let settings = iscsi.settings();
    let groups = || settings.groups.iter().map(|group| group.name.clone()).collect::<Vec<_>>();
    let check = |name: &String| {
        let is_known = name == ANY || groups().contains(name);
        let refused = |reason| LunError::Initiator { name: name.clone(), reason, groups: groups() };
        if is_known { Ok(name.clone()) } else { Name::of_user(name).map(|name| name.as_str().to_owned()).map_err(refused) }
    };
    names.iter().map(check).collect()
}

fn list(iscsi: &Iscsi) -> Vec<LunStatus> {
    let mut luns = Vec::new();
    for target in iscsi.all_targets().values() {
        luns.extend(target.luns.all().iter().map(|lun| status(iscsi, target, lun)));
        luns.extend(target.luns.failed().into_iter().map(|(name, reason)| LunStatus {
            name: format!("{}/{name}", target.export.name()),
            target: target.luns.target().to_owned(),
            failed: Some(reason),
            ..LunStatus::default()
        }));
    }
    luns
}

/// The commands of all LUNs together, by kind. Empty without LUNs.
pub(super) fn commands(iscsi: &Iscsi) -> BTreeMap<String, ProcedureStats> {
    let mut sums: BTreeMap<&'static str, CountedRow> = BTreeMap::new();
    for target in iscsi.all_targets().values() {
        for (operation, row) in target.luns.all().iter().flat_map(|lun| lun.stats().rows()) {
            let sum = sums.entry(command_name(operation)).or_default();
            sum.errors += row.errors;
            sum.bytes += row.bytes;
            sum.latencies.merge(&row.latencies);
        }
    }
    let named = |(name, row): (&str, CountedRow)| {
        let latency = row.latencies.summary();
        let stats = ProcedureStats { calls: row.latencies.count(), errors: row.errors, bytes: row.bytes, latency };
        (name.to_owned(), stats)
    };
    sums.into_iter().map(named).collect()
}

/// The state of a LUN.
fn status(iscsi: &Iscsi, target: &Target, lun: &Lun) -> LunStatus {
    let (record, device, rows) = (lun.record(), lun.device(), lun.stats().rows());
    LunStatus {
        name: format!("{}/{}", target.export.name(), lun.name()),
        url: url(iscsi, target.luns.target(), record.lun),
        size_bytes: device.size(),
        used_bytes: lun.volume().attr(device.node()).ok().map(|attr| attr.used),
        block_bytes: device.block_bytes(),
        lun: record.lun,
        target: target.luns.target().to_owned(),
        thin: record.thin,
        read_only: record.read_only,
        write_cache: lun.unit().has_write_cache(),
        serial: lun.serial(),
        naa: format!("{:016x}", lun.unit().identity().naa()),
        initiators: record.initiators.clone(),
        sessions: sessions(iscsi, target, lun),
        commands: rows.iter().map(|(_, row)| row.latencies.count()).sum(),
        errors: rows.iter().map(|(_, row)| row.errors).sum(),
        failed: None,
    }
}

/// The sessions that see a LUN.
fn sessions(iscsi: &Iscsi, target: &Target, lun: &Lun) -> Vec<LunSession> {
    let settings = iscsi.settings();
    let mapped = lun.record().initiators.clone();
    let mut sessions: Vec<LunSession> = iscsi
        .sessions
        .of_target(target.luns.target())
        .iter()
        .filter(|entry| settings.maps(&mapped, &entry.initiator))
        .map(|entry| LunSession {
            initiator: entry.initiator.clone(),
            address: entry.peer.to_string(),
            portal_group_tag: entry.portal_group_tag,
        })
        .collect();
    sessions.sort_by(|one, other| (&one.initiator, &one.address).cmp(&(&other.initiator, &other.address)));
    sessions
}

/// The URL of a LUN at the first portal. `None` if no portal is bound.
fn url(iscsi: &Iscsi, target: &str, lun: u16) -> Option<String> {
    let address = iscsi.portals().first()?.address;
    // A wildcard address is no address of a host. On this host, loopback reaches it.
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Some(format!("iscsi://{}/{target}/{lun}", SocketAddr::new(ip, address.port())))
}
