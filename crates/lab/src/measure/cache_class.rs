//! Which caches stand between the database's own buffers and the medium, and whether all
//! arms have the same.

use results::compare::{CachingClass, PathResult};

use crate::plan::Arm;

/// The class of an arm, and why, in one clause. `past_page_cache`: the database opens its data files past that of its own host.
pub(crate) fn class_of(arm: &Arm, page_cache_bytes: Option<u64>, past_page_cache: bool) -> (CachingClass, &'static str) {
    if arm.medium.is_some() {
        return (CachingClass::Direct, "a modelled medium delays every read, whatever this host has in its page cache");
    }
    let cache = arm.path.kind.page_cache(arm.path.target.is_some());
    if cache.may_answer && page_cache_bytes.is_some() {
        return (
            CachingClass::Direct,
            "a memory control group holds the page cache small, and the restored state was dropped from it",
        );
    }
    if cache.may_answer && cache.on_client && past_page_cache {
        return (CachingClass::Direct, "the database opens its data files past this host's page cache");
    }
    (if cache.may_answer { CachingClass::Cached } else { CachingClass::Direct }, cache.because)
}

/// How an arm's reads are cached, in a sentence, from its class.
pub(crate) fn words((class, below): (CachingClass, &str), buffers_bytes: u64, database_bytes: u64) -> String {
    let (buffers, database) = (buffers_bytes >> 20, database_bytes >> 20);
    let warm = if class == CachingClass::Direct { "" } else { "; the restored state was just written, so much of it is warm" };
    format!("{buffers} MiB of database buffers for a database of {database} MiB; below them {below}{warm}")
}

/// Names the caches that some arms have and others not: their figures are separate results.
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
    fn a_modelled_medium_makes_every_path_direct_and_o_direct_those_with_a_cache_on_the_client() {
        let mut arm = Arm::own(&Local, 1);
        assert_eq!(class_of(&arm, None, false).0, CachingClass::Cached);
        assert_eq!(class_of(&arm, Some(64 << 20), false).0, CachingClass::Direct);
        assert_eq!(class_of(&arm, None, true).0, CachingClass::Direct);
        let served = Arm::own(&Dnfs, 1);
        assert_eq!(class_of(&served, None, true).0, CachingClass::Cached, "the filer's host has a page cache too");
        arm.medium = Some("fc15k".into());
        assert_eq!(class_of(&arm, None, false).0, CachingClass::Direct);
    }
}
