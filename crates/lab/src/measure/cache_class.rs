//! The caches between the database's own buffers and the medium, and whether all
//! configurations have the same ones.

use results::compare::{CachingClass, PathResult};

use crate::plan::Arm;

/// How a configuration's reads are cached.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Caching {
    pub(crate) class: CachingClass,
    /// Reason, in one clause.
    because: &'static str,
    /// Whether the restored state is in the cache at the start of a run.
    warm: bool,
}

/// The class of a configuration. `past_page_cache`: the database bypasses the page cache of its own host for its data files.
pub(crate) fn class_of(arm: &Arm, page_cache_bytes: Option<u64>, past_page_cache: bool) -> Caching {
    let direct = |because| Caching { class: CachingClass::Direct, because, warm: false };
    let cache = arm.path.kind.page_cache(arm.path.target.is_some());
    let medium = arm.medium.is_some();
    if medium && !cache.above_medium {
        return direct("a modelled medium delays every read, whatever this host has in its page cache");
    }
    if cache.may_answer && page_cache_bytes.is_some() {
        return direct("a memory control group holds the page cache small, and the restored state was dropped from it");
    }
    if cache.may_answer && cache.on_client && past_page_cache {
        return direct("the database opens its data files past this host's page cache");
    }
    if medium {
        let because =
            "a page cache of this host, empty when a run begins, answers what was read before; a modelled medium delays all else";
        return Caching { class: CachingClass::Cached, because, warm: false };
    }
    let class = if cache.may_answer { CachingClass::Cached } else { CachingClass::Direct };
    Caching { warm: cache.may_answer && cache.filled, class, because: cache.because }
}

/// How a configuration's reads are cached, in a sentence.
pub(crate) fn words(caching: &Caching, buffers_bytes: u64, database_bytes: u64) -> String {
    let (buffers, database) = (buffers_bytes >> 20, database_bytes >> 20);
    let warm = if caching.warm { "; the restored state was just read back, so much of it is warm" } else { "" };
    format!("{buffers} MiB of database buffers for a database of {database} MiB; below them {}{warm}", caching.because)
}

/// Notes about caches that only some configurations have: their figures are separate results.
pub(crate) fn notes(paths: &[PathResult]) -> Vec<String> {
    let of = |class: CachingClass| -> Vec<&str> {
        let measured = paths.iter().filter(|path| path.oets_per_minute.is_some());
        measured.filter(|path| path.caching_class.as_ref() == Some(&class)).map(|path| path.arm.as_str()).collect()
    };
    let (direct, cached) = (of(CachingClass::Direct), of(CachingClass::Cached));
    if direct.is_empty() || cached.is_empty() {
        return Vec::new();
    }
    let note = format!(
        "the kernel keeps a page cache below the database on {} and none on {}: direct and cached are separate results, their \
         reads must not be compared",
        cached.join(", "),
        direct.join(", ")
    );
    vec![note]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::dnfs::Dnfs;
    use crate::paths::local::Local;
    use results::statistics::MeanInterval;

    fn result(arm: &str, class: CachingClass) -> PathResult {
        PathResult {
            arm: arm.into(),
            caching_class: Some(class),
            oets_per_minute: MeanInterval::of(&[1.0]),
            ..PathResult::default()
        }
    }

    #[test]
    fn a_cache_that_one_arm_has_and_another_not_is_named() {
        assert!(notes(&[result("local", CachingClass::Cached), result("dnfs", CachingClass::Cached)]).is_empty());
        let notes = notes(&[result("local", CachingClass::Cached), result("dnfs", CachingClass::Direct)]);
        assert!(notes[0].contains("on local and none on dnfs"), "{notes:?}");
    }

    #[test]
    fn a_modelled_medium_makes_every_path_direct_that_has_no_cache_above_it_and_o_direct_those_with_a_cache_on_the_client() {
        let class = |arm: &Arm, bytes, past| class_of(arm, bytes, past).class;
        let mut arm = Arm::own(&Local, 1);
        assert_eq!(class(&arm, None, false), CachingClass::Cached);
        assert_eq!(class(&arm, Some(64 << 20), false), CachingClass::Direct);
        assert_eq!(class(&arm, None, true), CachingClass::Direct);
        let served = Arm::own(&Dnfs, 1);
        assert_eq!(class(&served, None, true), CachingClass::Cached, "the filer's host has a page cache too");
        arm.medium = Some("fc15k".into());
        assert_eq!(class(&arm, None, false), CachingClass::Direct);
        for path in ["knfs", "iscsi"] {
            let mut arm = Arm { path: path.parse().unwrap(), ..arm.clone() };
            let cached = class_of(&arm, None, false);
            assert_eq!(cached.class, CachingClass::Cached, "{path}: the medium is the filer's, below this host's page cache");
            assert!(!words(&cached, 1 << 20, 1 << 20).contains("is warm"), "{path} is mounted for the run");
            assert_eq!(class(&arm, Some(64 << 20), false), CachingClass::Direct);
            arm.medium = None;
            assert!(words(&class_of(&arm, None, false), 1 << 20, 1 << 20).ends_with("so much of it is warm"), "{path}");
        }
        for path in ["fc", "block"] {
            let arm = Arm { path: path.parse().unwrap(), ..arm.clone() };
            let cached = class_of(&Arm { medium: None, ..arm }, None, false);
            assert_eq!(cached.class, CachingClass::Cached, "{path}");
            assert!(!words(&cached, 1 << 20, 1 << 20).contains("is warm"), "{path} is mounted for the run");
        }
    }
}
