//! Unsafe code is only where ARCHITECTURE.md allows it.

use std::path::Path;

use crate::architecture::{UnsafeCode, row_of};
use crate::tree::{code_lines, crate_of, crates, read, report, rust_files, shown};

fn allowed_in(name: &str) -> UnsafeCode {
    row_of(name).map_or(UnsafeCode::None, |row| row.unsafe_code)
}

#[test]
fn each_crate_root_forbids_or_denies_unsafe_code() {
    let mut faults = Vec::new();
    for found in crates() {
        let level = match allowed_in(&found.name) {
            UnsafeCode::Throughout => continue,
            UnsafeCode::InSys => "#![deny(unsafe_code)]",
            UnsafeCode::None => "#![forbid(unsafe_code)]",
        };
        let roots = ["lib.rs", "main.rs"].map(|file| found.folder.join("src").join(file));
        for file in roots.into_iter().filter(|file| file.exists()) {
            // A crate whose sys module does not need unsafe code yet may still forbid it.
            let text = read(&file);
            if !text.contains(level) && !text.contains("#![forbid(unsafe_code)]") {
                faults.push(format!("{}: {level} is missing", shown(&file)));
            }
        }
    }
    report("crate roots that leave unsafe code open", &faults);
}

#[test]
fn unsafe_code_stands_only_where_architecture_allows_it() {
    const ITEMS: [&str; 5] = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("];
    let mut faults = Vec::new();
    for file in rust_files() {
        if may_hold_unsafe(&file) {
            continue;
        }
        let text = read(&file);
        for (number, line) in code_lines(&text) {
            let opened = line.contains("(unsafe_code)") && !line.starts_with("#![") && !opens_sys(&file, &text, line);
            if opened || ITEMS.iter().any(|item| line.contains(item)) {
                faults.push(format!("{}:{number}: {}", shown(&file), line.trim()));
            }
        }
    }
    report("unsafe code where ARCHITECTURE.md does not allow it", &faults);
}

fn may_hold_unsafe(file: &Path) -> bool {
    let Some((name, inside)) = crate_of(file) else { return false };
    match allowed_in(&name) {
        UnsafeCode::None => false,
        UnsafeCode::Throughout => true,
        UnsafeCode::InSys => {
            ["src/sys.rs", "src/sys", "tests"].iter().any(|place| inside.starts_with(place))
                || (inside.starts_with("benches") && inside.ends_with("sys.rs"))
        }
    }
}

/// The one place outside `sys` that may allow the lint: above `mod sys` in the crate root.
fn opens_sys(file: &Path, text: &str, line: &str) -> bool {
    let Some((name, inside)) = crate_of(file) else { return false };
    let below = text.split(line.trim()).nth(1).unwrap_or_default().trim_start();
    let below = below.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    allowed_in(&name) == UnsafeCode::InSys && inside == Path::new("src/lib.rs") && below.starts_with("mod sys")
}
