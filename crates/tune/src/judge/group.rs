//! Decides which group of advice a rule belongs to.

use results::audit::{Activation, AdviceGroup};

use crate::rule::{Fix, SettingKind};
use crate::rules::Loaded;

/// The group: what the fix interrupts, or that it is made on the storage side.
pub(super) fn of(loaded: &Loaded, fix: &Fix, activation: Activation) -> AdviceGroup {
    let on_storage = |kind: SettingKind| matches!(kind, SettingKind::Ontap7 | SettingKind::Ontap9);
    let is_storage = if fix.settings.is_empty() {
        let platforms = &loaded.rule.platforms;
        loaded.layer == "storage" || !platforms.is_empty() && platforms.iter().all(|platform| platform.starts_with("ontap"))
    } else {
        fix.settings.iter().any(|setting| on_storage(setting.kind))
    };
    match activation {
        _ if is_storage => AdviceGroup::Storage,
        Activation::Live | Activation::Reload => AdviceGroup::Now,
        Activation::DbRestart | Activation::Remount | Activation::NicRestart => AdviceGroup::Restart,
        Activation::Reboot => AdviceGroup::Reboot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::built_in;

    fn group(id: &str) -> Option<AdviceGroup> {
        let rules = built_in().unwrap();
        let loaded = rules.rules().iter().find(|loaded| loaded.rule.id == id).unwrap_or_else(|| panic!("{id}"));
        loaded.rule.fix.as_ref().map(|fix| of(loaded, fix, fix.activation))
    }

    #[test]
    fn advice_is_grouped_by_what_it_interrupts() {
        for (id, wanted) in [
            ("postgres-fsync-on", AdviceGroup::Now),
            ("linux-swappiness", AdviceGroup::Now),
            ("postgres-shared-buffers-from-memory", AdviceGroup::Restart),
            ("linux-nfs-hard", AdviceGroup::Restart),
            ("linux-huge-pages-for-sga", AdviceGroup::Reboot),
            ("ontap9-nfs-transfer-size", AdviceGroup::Storage),
            ("ontap7-storage-mtu", AdviceGroup::Storage),
            // If both ends could be changed, the group is the one that needs another administrator.
            ("linux-window-matches-filer", AdviceGroup::Storage),
        ] {
            assert_eq!(group(id), Some(wanted), "{id}");
        }
    }
}
