//! Requests on the admin socket about volumes: listed, shown, created, changed.

use results::volumes::{RuleStatus, VolumeStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::edit::{Keys, with_keys, with_volume};
use crate::nfs::exports::Entry;
use crate::nfs::policy::{Rule, Squash};
use crate::server::Server;
use crate::setup::{Quotas, Reloaded};

/// The operations, for the error about an unknown operation.
pub(crate) const NAMES: &str = "volume-list, volume-show, volume-create, volume-set";

/// A request about one volume.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeRequest {
    #[serde(rename = "op")]
    _op: String,
    volume: String,
    #[serde(default)]
    keys: Keys,
    /// Accept a quota under which nothing can be written.
    #[serde(default)]
    force: bool,
}

impl VolumeRequest {
    const fn quotas(&self) -> Quotas {
        if self.force { Quotas::Any } else { Quotas::OfUse }
    }
}

/// The reply to a volume request, or why it is refused. `None` if it is another request.
pub(crate) fn answer(server: &Server, op: &str, request: &Value) -> Option<Result<Value, String>> {
    Some(match op {
        "volume-list" => {
            let exports = server.filer().exports();
            let volumes: Vec<VolumeStatus> = exports.entries().iter().map(status).collect();
            Ok(json!({"ok": true, "volumes": volumes}))
        }
        "volume-show" => parse(request).and_then(|request| show(server, &request)),
        "volume-create" => parse(request).and_then(|request| {
            let done =
                server.change(Some(&request.volume), request.quotas(), |text| with_volume(text, &request.volume, &request.keys));
            changed(done)
        }),
        "volume-set" => parse(request).and_then(|request| {
            let done = server.change(None, request.quotas(), |text| with_keys(text, &request.volume, &request.keys));
            changed(done)
        }),
        _ => return None,
    })
}

fn parse(request: &Value) -> Result<VolumeRequest, String> {
    VolumeRequest::deserialize(request).map_err(|error| format!("parse the request: {error}"))
}

fn show(server: &Server, request: &VolumeRequest) -> Result<Value, String> {
    let exports = server.filer().exports();
    let found = exports.named(&request.volume).map(status);
    let known = || exports.entries().iter().map(|entry| entry.export.name()).collect::<Vec<_>>().join(", ");
    let volume = found.ok_or_else(|| format!("there is no volume {:?}: the filer serves {}", request.volume, known()))?;
    Ok(json!({"ok": true, "volume": volume}))
}

fn changed(done: Option<Result<Reloaded, crate::setup::ChangeError>>) -> Result<Value, String> {
    match done {
        Some(Ok(done)) => Ok(reloaded(done)),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("it was started without a configuration file; start it with --config FILE".into()),
    }
}

/// The reply that lists what a reload changed.
pub(crate) fn reloaded(done: Reloaded) -> Value {
    let Reloaded { added, removed, changed, at_next_start } = done;
    let names = json!({"added": added, "removed": removed, "changed": changed});
    json!({"ok": true, "volumes": names, "at_next_start": at_next_start})
}

/// The state of a volume.
fn status(entry: &Entry) -> VolumeStatus {
    let (export, volume) = (&entry.export, entry.export.volume());
    let (options, quota, room) = (volume.options(), volume.quota(), volume.fs_stat().ok());
    let procedures = export.stats().procedures();
    VolumeStatus {
        name: export.name().to_owned(),
        path: export.path().to_owned(),
        dir: volume.dir().display().to_string(),
        fsid: format!("{:016x}", volume.fsid()),
        identity: volume.identity().as_str().to_owned(),
        durability: options.durability.as_str().to_owned(),
        cache: options.cache.as_str().to_owned(),
        read_ahead: options.read_ahead.as_str().to_owned(),
        exclusive: options.exclusive,
        medium: export.medium().map(|medium| medium.profile().to_string()),
        loss_layer: volume.can_lose(),
        verifier: format!("{:016x}", u64::from_be_bytes(volume.verifier())),
        loss_epoch: volume.loss_epoch(),
        poisoned: volume.is_poisoned(),
        quota_bytes: quota.map(|quota| quota.limit_bytes),
        used_bytes: quota.map(|quota| quota.used_bytes),
        total_bytes: room.map(|room| room.total_bytes),
        available_bytes: room.map(|room| room.available_bytes),
        calls: procedures.values().map(|row| row.calls).sum(),
        errors: procedures.values().map(|row| row.errors).sum(),
        rules: entry.policy.rules.iter().map(rule).collect(),
    }
}

fn rule(rule: &Rule) -> RuleStatus {
    let rights = &rule.rights;
    RuleStatus {
        clients: rule.clients.iter().map(|client| client.written.clone()).collect(),
        access: if rights.read_only { "ro" } else { "rw" }.to_owned(),
        squash: match rights.squash {
            Squash::Root => "root",
            Squash::All => "all",
            Squash::None => "none",
        }
        .to_owned(),
        anonymous_uid: rights.anonymous_uid,
        anonymous_gid: rights.anonymous_gid,
        privileged_ports: rights.privileged_ports,
        tls: rights.tls.as_word().to_owned(),
    }
}
