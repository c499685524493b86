//! README's sample of the report and its picture are drawn from a stored record.
//!
//! To publish another comparison, run `MILLRACE_README_RECORD=DIR cargo test -p lab readme` with the directory of its record
//! (absolute, or below `crates/lab`). This stores what the sample needs, and writes the sample and the picture.

use std::path::{Path, PathBuf};

use results::compare::{Comparison, PathResult};

const STORED: &str = "fixtures/readme.json";
const BEGIN: &str = "<!-- real output: begin -->\n```\n";

#[test]
fn readme_shows_the_stored_record() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (stored, page, picture) = (here.join(STORED), here.join("../../README.md"), here.join("../../docs/compare.svg"));
    if let Some(place) = std::env::var_os("MILLRACE_README_RECORD") {
        let record = reduced(&read(&super::record_file(&here.join(PathBuf::from(place)))));
        std::fs::write(&stored, super::json(&record).unwrap()).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        std::fs::write(&page, text.replacen(sample_of(&text), &sample(&record), 1)).unwrap();
        std::fs::write(&picture, super::svg(&record)).unwrap();
    }
    let record = read(&stored);
    assert!(record.valid && record.not_a_result.is_empty(), "README shows a result: {:?}", record.not_a_result);
    assert_eq!(sample_of(&std::fs::read_to_string(page).unwrap()), sample(&record), "README.md beside {STORED}");
    assert_eq!(std::fs::read_to_string(picture).unwrap(), super::svg(&record), "docs/compare.svg beside {STORED}");
}

fn read(file: &Path) -> Comparison {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The contents of sample and picture, and the environment of the measurement, without runs and seconds.
fn reduced(record: &Comparison) -> Comparison {
    let path = |path: &PathResult| PathResult { runs: Vec::new(), ..path.clone() };
    Comparison { paths: record.paths.iter().map(path).collect(), regimes: Vec::new(), predictions: Vec::new(), ..record.clone() }
}

fn sample_of(readme: &str) -> &str {
    readme.split(BEGIN).nth(1).and_then(|rest| rest.split("```\n").next()).expect("README has a sample")
}

/// The report from its verdict to the end of its first table.
fn sample(record: &Comparison) -> String {
    let printed = super::table(record, super::WIDTH_MAX);
    let parts: Vec<&str> = printed.splitn(3, "\n\n").collect();
    format!("{}\n\n{}\n", parts[0], parts[1])
}
