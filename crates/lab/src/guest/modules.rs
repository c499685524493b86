//! The kernel modules that the initial root needs, and the order in which they are loaded.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// Modules that a guest needs before it has its root and its ports: the bus, the network, 9p for the root, the overlay, the ports
/// for output, and random numbers.
pub(crate) const NEEDED: [&str; 7] =
    ["virtio_pci", "virtio_rng", "virtio_net", "virtio_console", "9pnet_virtio", "9p", "overlay"];

/// The files of these modules and their dependencies, each after those it needs. A built-in module has no file.
///
/// # Errors
/// [`LabError::Missing`] if a module is neither a file nor built in.
pub(crate) fn in_load_order(modules: &Path, names: &[&str]) -> Result<Vec<PathBuf>, LabError> {
    let read = |name: &str| {
        let path = modules.join(name);
        fs::read_to_string(&path).map_err(LabError::file("read", path))
    };
    let (dependencies, built_in) = (read("modules.dep")?, read("modules.builtin")?);
    let order = order(&dependencies, &built_in, names).map_err(|name| {
        let hint = "fetch the kernel of another package: millrace guest fetch --package FILE".to_owned();
        LabError::Missing { what: format!("find the module {name} in {}", modules.display()), hint }
    })?;
    Ok(order.into_iter().map(|file| modules.join(file)).collect())
}

/// The name of a module: without directory and extensions, `-` as `_`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

/// A line of modules.dep is `FILE: NEEDS…`; of its dependencies, the one to load last comes first.
fn order(dependencies: &str, built_in: &str, names: &[&str]) -> Result<Vec<String>, String> {
    let mut order: Vec<String> = Vec::new();
    let mut known: HashSet<String> = built_in.lines().map(module_name).collect();
    for name in names {
        if known.contains(*name) {
            continue;
        }
        let line = dependencies.lines().filter_map(|line| line.split_once(':')).find(|(file, _)| module_name(file) == *name);
        let (file, needs) = line.ok_or_else(|| (*name).to_owned())?;
        for file in needs.split_whitespace().rev().chain([file]) {
            if known.insert(module_name(file)) {
                order.push(file.to_owned());
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko\n\
        kernel/net/9p/9pnet.ko:\nkernel/fs/netfs/netfs.ko:\n\
        kernel/net/9p/9pnet_virtio.ko.xz: kernel/drivers/virtio/virtio.ko kernel/net/9p/9pnet.ko kernel/drivers/virtio/virtio_ring.ko\n";

    #[test]
    fn each_module_comes_once_and_behind_what_it_needs() {
        let order = order(DEP, "kernel/fs/overlayfs/overlay.ko\n", &["9pnet_virtio", "9p", "overlay"]).unwrap();
        let names: Vec<String> = order.iter().map(|file| module_name(file)).collect();
        assert_eq!(names, ["virtio_ring", "9pnet", "virtio", "9pnet_virtio", "netfs", "9p"]);
    }

    #[test]
    fn a_module_that_is_not_there_is_named() {
        assert_eq!(order(DEP, "", &["9p", "overlay"]).unwrap_err(), "overlay");
    }
}
