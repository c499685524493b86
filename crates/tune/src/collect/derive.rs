//! Derives facts from several others: the interfaces that lead to storage, the roles of mounts, the
//! mounts that oranfstab names.

use std::collections::BTreeSet;

use host::mount_table::is_nfs;

use super::collected::Collected;
use super::network::Network;
use super::{real_paths, roles};
use crate::facts::{Facts, Value};

/// Derives all of these facts.
pub(super) fn derive(collected: &Collected, facts: &mut Facts) {
    super::database::oracle::derive(facts);
    oranfstab(facts);
    let network = Network::read(collected, facts);
    network.mark(facts);
    network.name_volumes(facts);
    disk_vendors(facts);
    real_paths::read(collected, facts);
    roles::derive(facts);
}

/// Notes the vendor of the disk below a mount. For a LUN, this is the storage system.
fn disk_vendors(facts: &mut Facts) {
    let disks = facts.things.get("block");
    let vendor = |disk: &str| disks?.get(disk)?.get("vendor").cloned();
    let mut found = Vec::new();
    for (point, mount) in facts.things.get("mount").into_iter().flatten() {
        let Some(Value::Text(source)) = mount.get("source").map(|fact| &fact.value) else { continue };
        let Some(name) = source.strip_prefix("/dev/") else { continue };
        let disk = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let of_partition = disk.strip_suffix('p').and_then(vendor);
        found.extend(vendor(name).or_else(|| vendor(disk)).or(of_partition).map(|vendor| (point.clone(), vendor)));
    }
    for (point, vendor) in found {
        facts.put_of("mount", &point, "disk_vendor", vendor.value, &vendor.origin);
    }
}

fn oranfstab(facts: &mut Facts) {
    let named: BTreeSet<String> =
        facts.things.get("oranfstab_mount").into_iter().flatten().map(|(mount, _)| mount.clone()).collect();
    if !facts.things.contains_key("oranfstab_path") {
        return;
    }
    let is_nfs = |kind: Option<&Value>| matches!(kind, Some(Value::Text(kind)) if is_nfs(kind));
    let mounts = facts.things.get("mount").into_iter().flatten();
    let nfs = mounts.filter(|(_, mount)| is_nfs(mount.get("fstype").map(|fact| &fact.value)));
    let nfs: Vec<String> = nfs.map(|(point, _)| point.clone()).collect();
    for point in nfs {
        facts.put_of("mount", &point, "oranfstab", named.contains(&point), "oranfstab");
    }
}
