//! The targets: one for each volume, with its LUNs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use host::Unpoisoned;
use iscsi_proto::scsi::{Nexus, TargetPort};

use super::sessions::Sessions;
use crate::luns::{Luns, Naming};
use crate::nfs::export::Export;
use crate::nfs::exports::Exports;

/// The target of a volume.
pub(crate) struct Target {
    pub(crate) export: Arc<Export>,
    pub(crate) luns: Luns,
}

/// All targets, by name.
#[derive(Default)]
pub(crate) struct Targets {
    by_name: Mutex<Arc<BTreeMap<String, Arc<Target>>>>,
}

impl Targets {
    /// Makes exactly the volumes of these exports targets.
    pub(super) fn adopt(&self, exports: &Exports, naming: &Naming, sessions: &Arc<Sessions>) {
        let before = self.all();
        let mut now = BTreeMap::new();
        for entry in exports.entries().iter().filter(|entry| !entry.export.is_inside()) {
            let export = &entry.export;
            let known = before.values().find(|target| Arc::ptr_eq(&target.export, export)).cloned();
            let target = known.unwrap_or_else(|| Arc::new(open(export, naming, sessions)));
            now.insert(target.luns.target().to_owned(), target);
        }
        *self.by_name.lock().unpoisoned() = Arc::new(now);
    }

    /// All targets.
    pub(crate) fn all(&self) -> Arc<BTreeMap<String, Arc<Target>>> {
        Arc::clone(&self.by_name.lock().unpoisoned())
    }

    /// The target with this name.
    pub(super) fn named(&self, name: &str) -> Option<Arc<Target>> {
        self.all().get(name).cloned()
    }

    /// The target of the volume with this name.
    pub(crate) fn of_volume(&self, volume: &str) -> Option<Arc<Target>> {
        self.all().values().find(|target| target.export.name() == volume).cloned()
    }
}

fn open(export: &Arc<Export>, naming: &Naming, sessions: &Arc<Sessions>) -> Target {
    let name = naming.target(export.name(), export.volume());
    let sessions = Arc::downgrade(sessions);
    let abort = move |nexus: &Nexus, lun: u16| {
        if let Some(sessions) = sessions.upgrade() {
            sessions.abort(&name, nexus, lun);
        }
    };
    Target { export: Arc::clone(export), luns: Luns::open(export.name(), export.volume(), naming, abort) }
}

/// The ports of all targets, one for each portal group tag.
pub(super) fn ports(tags: impl Iterator<Item = u16>) -> Vec<TargetPort> {
    let mut tags: Vec<u16> = tags.collect();
    tags.sort_unstable();
    tags.dedup();
    tags.into_iter().zip(1..).map(|(portal_group_tag, relative_port)| TargetPort { relative_port, portal_group_tag }).collect()
}
