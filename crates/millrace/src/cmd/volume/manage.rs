//! `millrace volume list`, `show`, `create`, `resize`, `set`.

use std::path::PathBuf;

use anyhow::Context;
use results::sizes::{about_text, bytes_text, parse_bytes};
use results::volumes::{RuleStatus, VolumeStatus};
use serde_json::{Map, Value, json};

use super::print_reloaded;
use crate::error_printing::refusal;

/// The value that removes a quota.
const NO_QUOTA: &str = "none";

#[derive(clap::Subcommand)]
pub(super) enum Order {
    /// List all volumes with their size and free space
    List,
    /// Show one volume: how and to which clients it is served, its state
    Show {
        /// The volume
        volume: String,
    },
    /// Serve another directory, and add it to the filer's file (needs serve --config)
    Create {
        /// The new volume: letters, digits, . _ -
        volume: String,
        /// The directory to serve; created if only its last part is missing
        #[arg(long)]
        dir: PathBuf,
        /// Clients that may use it: *, addresses, networks, hosts
        #[arg(long, value_name = "CLIENT,…")]
        clients: String,
        /// What clients mount [default: / and the name]
        #[arg(long)]
        path: Option<String>,
        /// Quota: maximum size of all its files together
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
        /// Accept a quota below the space in use, or below one WRITE of a client: no file can grow then
        #[arg(long)]
        force: bool,
        /// Further keys, such as squash=none access=ro (docs/filer.md lists them)
        #[arg(value_name = "KEY=VALUE")]
        keys: Vec<String>,
    },
    /// Set the quota of a volume (needs serve --config)
    Resize {
        /// The volume
        volume: String,
        /// Such as 500GiB; the word none removes the quota
        size: String,
        /// Accept a quota below the space in use, or below one WRITE of a client: no file can grow then
        #[arg(long)]
        force: bool,
    },
    /// Set keys of a volume in the filer's file; the output names those that wait for the next start (needs serve --config)
    Set {
        /// The volume
        volume: String,
        /// Such as access=ro; KEY= restores the default
        #[arg(value_name = "KEY=VALUE", required = true)]
        keys: Vec<String>,
        /// Accept a quota below the space in use, or below one WRITE of a client: no file can grow then
        #[arg(long)]
        force: bool,
    },
}

impl Order {
    /// The phrase for its errors, and the request to the filer.
    pub(super) fn request(&self) -> anyhow::Result<(String, Value)> {
        let asked = |op, volume, keys| json!({"op": op, "volume": volume, "keys": Value::Object(keys)});
        // An older filer does not know `force`, so it is sent only if it is set.
        let order = |op, volume, keys, force: bool| {
            let mut request = asked(op, volume, keys);
            if force {
                request["force"] = true.into();
            }
            request
        };
        Ok(match self {
            Self::List => ("list the volumes of the filer".into(), json!({"op": "volume-list"})),
            Self::Show { volume } => (format!("show volume {volume}"), asked("volume-show", volume, Map::new())),
            Self::Create { volume, dir, clients, path, quota, force, keys } => {
                let phrase = format!("create volume {volume}");
                let mut keys = parsed(&phrase, keys)?;
                let dir = std::path::absolute(dir).with_context(|| format!("find {}", dir.display()))?;
                let dir = dir.to_str().with_context(|| format!("write {} into the file: it is not UTF-8", dir.display()))?;
                let given =
                    [("dir", Some(dir)), ("clients", Some(clients)), ("path", path.as_deref()), ("quota", quota.as_deref())];
                for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
                    if keys.insert(key.to_owned(), value.into()).is_some() {
                        return Err(twice(&phrase, key));
                    }
                }
                (phrase, order("volume-create", volume, keys, *force))
            }
            Self::Resize { volume, size, force } => {
                let phrase = format!("resize volume {volume}");
                let quota = match (size.as_str(), parse_bytes(size)) {
                    (NO_QUOTA, _) => Value::Null,
                    (_, Ok(bytes)) => bytes_text(bytes).into(),
                    (_, Err(error)) => {
                        return Err(refusal(format!("{phrase}: {error}"), "as in 500GiB; the word none removes the quota"));
                    }
                };
                (phrase, order("volume-set", volume, Map::from_iter([("quota".to_owned(), quota)]), *force))
            }
            Self::Set { volume, keys, force } => {
                let mut names: Vec<&str> = keys.iter().map(|key| key.split('=').next().unwrap_or_default()).collect();
                names.dedup();
                let phrase = format!("set {} of volume {volume}", names.join(", "));
                let keys = parsed(&phrase, keys)?;
                (phrase, order("volume-set", volume, keys, *force))
            }
        })
    }

    pub(super) fn print(&self, mut reply: Value) -> anyhow::Result<()> {
        match self {
            Self::List => print_list(&serde_json::from_value::<Vec<_>>(reply["volumes"].take()).context("read the list")?),
            Self::Show { .. } => print_volume(&serde_json::from_value(reply["volume"].take()).context("read the volume")?),
            _ => print_reloaded(&reply),
        }
        Ok(())
    }
}

fn parsed(phrase: &str, keys: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut map = Map::new();
    for written in keys {
        let no_key = || {
            refusal(
                format!("{phrase}: {written:?} is not KEY=VALUE"),
                "write KEY=VALUE, as in access=ro; KEY= restores the default",
            )
        };
        let (key, value) = written.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(no_key)?;
        let value = if value.is_empty() { Value::Null } else { value.into() };
        if map.insert(key.to_owned(), value).is_some() {
            return Err(twice(phrase, key));
        }
    }
    Ok(map)
}

/// The error for a key with two values.
fn twice(phrase: &str, key: &str) -> anyhow::Error {
    refusal(format!("{phrase}: {key} is given twice"), "give each key once")
}

fn print_list(volumes: &[VolumeStatus]) {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), about_text);
    let wide = |text: fn(&VolumeStatus) -> &str| volumes.iter().map(|volume| text(volume).len()).max().unwrap_or(0).max(6);
    let (names, paths) = (wide(|volume| &volume.name), wide(|volume| &volume.path));
    println!("{:names$}  {:paths$}  {:>9}  {:>9}  {:8}  directory", "volume", "path", "size", "free", "state");
    for volume in volumes {
        let state = if volume.poisoned { "POISONED" } else { "served" };
        let (total, free) = (size(volume.total_bytes), size(volume.available_bytes));
        println!("{:names$}  {:paths$}  {total:>9}  {free:>9}  {state:8}  {}", volume.name, volume.path, volume.dir);
    }
}

fn print_volume(volume: &VolumeStatus) {
    println!("volume {} serves {} as {}", volume.name, volume.dir, volume.path);
    if volume.poisoned {
        println!("POISONED: a flush failed, no write is acknowledged as stable until the filer is restarted");
    }
    if let (Some(total), Some(free)) = (volume.total_bytes, volume.available_bytes) {
        println!("size {}, {} of it free", about_text(total), about_text(free));
    }
    match (volume.quota_bytes, volume.used_bytes) {
        (Some(quota), Some(used)) => println!("quota {}, {} of it used", bytes_text(quota), about_text(used)),
        _ => println!("no quota"),
    }
    let medium = volume.medium.as_deref().map_or_else(String::new, |medium| format!(", medium {medium}"));
    let loss = if volume.loss_layer { ", loss layer on" } else { "" };
    let exclusive = if volume.exclusive { ", exclusive" } else { "" };
    let VolumeStatus { durability, cache, read_ahead, identity, .. } = volume;
    println!(
        "durability {durability}, cache {cache}, read-ahead {read_ahead}, files identified by {identity}{exclusive}{medium}{loss}"
    );
    println!("fsid {}, verifier {}, loss epoch {}", volume.fsid, volume.verifier, volume.loss_epoch);
    println!("{} calls, {} of them with an error", volume.calls, volume.errors);
    for rule in &volume.rules {
        println!("clients {}: {}", rule.clients.join(", "), rights(rule));
    }
}

fn rights(rule: &RuleStatus) -> String {
    let anonymous = format!("{}:{}", rule.anonymous_uid, rule.anonymous_gid);
    let squash = match rule.squash.as_str() {
        "none" => format!("no user squashed (without identity: {anonymous})"),
        squash => format!("{squash} squashed to {anonymous}"),
    };
    let ports = if rule.privileged_ports { ", ports below 1024 only" } else { "" };
    format!("{}, {squash}{ports}, TLS {}", rule.access, rule.tls)
}
