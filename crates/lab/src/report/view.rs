//! Input of the report's sections: the measured configurations, each with the colour, shade and facet in which it is drawn.

use std::collections::BTreeMap;

use results::compare::{CachingClass, Comparison, PathResult, PathStatus};

use crate::paths;
use crate::paths::storage_path::PathRef;
use crate::report::reported_ratio;
pub(crate) use crate::report::words::name;

/// Number of colours; a seventh path uses the first one again.
const HUES: usize = 6;

/// One column of the comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arm<'a> {
    pub(crate) result: &'a PathResult,
    /// Name of the configuration in the record.
    pub(crate) name: &'a str,
    /// Colour, the same for all configurations of a path.
    pub(crate) hue: usize,
    /// 0 for the first of several tunings, which is drawn light; others, and a single one, are drawn full.
    pub(crate) shade: usize,
    facet: usize,
}

impl Arm<'_> {
    /// CSS classes that colour the drawings of this configuration.
    pub(crate) fn class(&self) -> String {
        format!("h{} s{}", self.hue, self.shade.min(2))
    }

    /// Whether its figures may be used.
    pub(crate) fn valid(&self) -> bool {
        self.result.status == PathStatus::Measured
    }
}

/// Configurations with the same layout and medium, which are drawn together.
pub(crate) struct Facet<'v, 'a> {
    /// Their layout and medium; empty if there is only one facet.
    pub(crate) title: &'v str,
    pub(crate) arms: Vec<&'v Arm<'a>>,
}

/// A comparison, prepared for drawing.
pub(crate) struct View<'a> {
    pub(crate) comparison: &'a Comparison,
    /// All configurations that ran, in the order of the record.
    pub(crate) arms: Vec<Arm<'a>>,
    facets: Vec<String>,
    /// Tunings in the order in which they appear.
    pub(crate) tunings: Vec<&'a str>,
}

impl<'a> View<'a> {
    pub(crate) fn new(comparison: &'a Comparison) -> Self {
        let ran: Vec<&PathResult> = comparison.paths.iter().filter(|path| path.status != PathStatus::Skipped).collect();
        let (media, layouts) = (distinct(&ran, medium), distinct(&ran, layout));
        let (mut hues, mut tunings, mut facets) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut arms: Vec<Arm<'_>> = Vec::new();
        for result in ran {
            let next = hues.len();
            let hue = *hues.entry((result.name.as_str(), result.label.as_deref())).or_insert(next) % HUES;
            let shade = place(&mut tunings, result.tuning.as_str());
            let mut kept_apart = Vec::new();
            if layouts > 1 {
                kept_apart.push(format!("layout {}", layout(result)));
            }
            if media > 1 {
                kept_apart.push(format!("medium {}", medium(result)));
            }
            let facet = place(&mut facets, kept_apart.join(", "));
            arms.push(Arm { result, name: name(result), hue, shade, facet });
        }
        if tunings.len() == 1 {
            arms.iter_mut().for_each(|arm| arm.shade = 1);
        }
        Self { comparison, arms, facets, tunings }
    }

    /// The facets with their configurations.
    pub(crate) fn facets(&self) -> Vec<Facet<'_, 'a>> {
        self.facets
            .iter()
            .enumerate()
            .map(|(place, title)| Facet { title, arms: self.arms.iter().filter(|arm| arm.facet == place).collect() })
            .collect()
    }

    /// The configuration with this name.
    pub(crate) fn arm(&self, name: &str) -> Option<&Arm<'a>> {
        self.arms.iter().find(|arm| arm.name == name)
    }
}

/// Suffix of a block read time that may include reads from the page cache.
const MAY_BE_CACHED: &str = " (may be cached)";
const FROM_FILER: &str = " (filer)";
/// A block from the page cache costs a system call and a copy of 8 KiB, which takes microseconds even on a busy host. A mean above
/// this value consists mostly of waiting for the storage below.
const CACHED_READ_US_MAX: f64 = 100.0;

/// Suffix of a block read time: the possible source of the reads, if some configurations may read from this host's page cache and
/// others from a filer. Such times do not compare storage. The number of reads that the page cache served is not known.
pub(crate) fn read_source(comparison: &Comparison, path: &PathResult) -> &'static str {
    let reads_cross = |kind: PathRef| kind.layers().server.is_some() && !kind.page_cache(true).on_client;
    let from_filer = |path: &PathResult| paths::of(path).is_some_and(reads_cross);
    let from_cache = |path: &PathResult| !from_filer(path) && path.caching_class == Some(CachingClass::Cached);
    let timed = || comparison.paths.iter().filter(|path| path.block_read_us.is_some());
    if !timed().any(from_cache) || !timed().any(from_filer) {
        return "";
    }
    if from_cache(path) {
        MAY_BE_CACHED
    } else if from_filer(path) {
        FROM_FILER
    } else {
        ""
    }
}

/// Restrictions that a reader must know before using the figures.
pub(crate) fn notes(comparison: &Comparison) -> Vec<String> {
    // The record's own note already states this for configurations with different caches.
    let said = comparison.notes.iter().any(|note| note.ends_with("reads must not be compared"));
    let read_source = read_source_note(comparison).filter(|_| !said);
    comparison.notes.iter().cloned().chain(read_source).chain(reported_ratio::lines(comparison)).collect()
}

/// The sentence about the sources of reads; `None` if all configurations read from the same source.
fn read_source_note(comparison: &Comparison) -> Option<String> {
    let timed: Vec<&PathResult> = comparison.paths.iter().filter(|path| path.block_read_us.is_some()).collect();
    let of = |source: &str| -> Vec<&str> {
        timed.iter().filter(|path| read_source(comparison, path) == source).map(|path| name(path)).collect()
    };
    let (cache, filer) = (of(MAY_BE_CACHED), of(FROM_FILER));
    let slow = |path: &PathResult| path.block_read_us.as_ref().is_some_and(|read| read.mean > CACHED_READ_US_MAX);
    let waited: Vec<&str> =
        timed.iter().filter(|path| slow(path) && read_source(comparison, path) == MAY_BE_CACHED).map(|path| name(path)).collect();
    let waited = match waited.as_slice() {
        [] => String::new(),
        names => format!("; a mean above {CACHED_READ_US_MAX} us, as of {}, is mostly not the page cache's", names.join(", ")),
    };
    (!cache.is_empty()).then(|| {
        format!(
            "block reads of {} may be answered by this host's page cache, those of {} cross to a filer: their times do not compare \
             storage{waited}",
            cache.join(", "),
            filer.join(", ")
        )
    })
}

fn medium(result: &PathResult) -> &str {
    result.medium.as_deref().unwrap_or("as it is")
}

fn layout(result: &PathResult) -> &str {
    result.layout_name.as_deref().unwrap_or("one")
}

fn distinct(results: &[&PathResult], pick: fn(&PathResult) -> &str) -> usize {
    let mut values: Vec<&str> = results.iter().map(|result| pick(result)).collect();
    values.sort_unstable();
    values.dedup();
    values.len()
}

/// Index of `value` in `list`; a new value is appended.
fn place<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|known| *known == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}
