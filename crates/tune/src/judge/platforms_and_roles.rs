//! The platforms and roles that facts show. A rule may be for some of them only.

use std::collections::BTreeSet;

use host::mount_table::is_nfs;

use crate::facts::{Facts, Value};
use crate::rules::{PLATFORMS, ROLES};

/// The platforms of the facts: the operating system, and each database and storage system with
/// facts.
pub(super) fn platforms(facts: &Facts) -> BTreeSet<&str> {
    let mut found = platforms_here(facts);
    for server in &facts.servers {
        found.extend(platforms_here(&server.facts));
    }
    found
}

fn platforms_here(facts: &Facts) -> BTreeSet<&str> {
    let text = |name: &str| match facts.host.get(name).map(|fact| &fact.value) {
        Some(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let there = |prefix: &str| facts.host.range(prefix.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(prefix));
    let mut found: BTreeSet<&str> = text("os.family").into_iter().collect();
    for platform in PLATFORMS {
        // MySQL and MariaDB have the same names of facts. One fact says which it is.
        let is = match platform {
            "mysql" | "mariadb" => there("mysql.") && text("mysql.flavor").is_none_or(|flavor| flavor == platform),
            "linux" | "solaris" | "aix" | "hpux" => false,
            _ => there(&format!("{platform}.")),
        };
        if is {
            found.insert(platform);
        }
    }
    found
}

/// The roles of the host: those that the site file gives, and those that its mounts and sessions
/// show.
pub(super) fn roles(facts: &Facts) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for name in ["site.role", "site.roles", "role"] {
        match facts.host.get(name).map(|fact| &fact.value) {
            Some(Value::Text(role)) => found.extend([role.as_str()]),
            Some(Value::List(roles)) => {
                found.extend(
                    roles.iter().filter_map(|role| if let Value::Text(role) = role { Some(role.as_str()) } else { None }),
                );
            }
            _ => {}
        }
    }
    let is = |name: &str| facts.host.get(name).map(|fact| fact.value == Value::Bool(true));
    let some = |kind: &str| facts.things.get(kind).is_some_and(|things| !things.is_empty());
    let over_nfs = facts
        .things
        .get("mount")
        .into_iter()
        .flat_map(|mounts| mounts.values())
        .any(|mount| mount.get("fstype").is_some_and(|fact| matches!(&fact.value, Value::Text(kind) if is_nfs(kind))));
    let cluster = is("site.rac").or_else(|| is("oracle.cluster_database"));
    let [single_instance, rac, nfs_client, iscsi_client, fc_client] = ROLES;
    for (role, holds) in [
        (single_instance, cluster == Some(false)),
        (rac, cluster == Some(true)),
        (nfs_client, over_nfs || some("oranfstab_path")),
        (iscsi_client, some("iscsi_session")),
        (fc_client, some("fc_host") || some("fcs")),
    ] {
        if holds {
            found.insert(role);
        }
    }
    found
}
