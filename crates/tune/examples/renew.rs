//! Writes the files that are generated from `rules/`: the table of built-in files, and the page
//! `docs/rules.md`.

use std::error::Error;
use std::fs;
use std::path::Path;

use tune::rules::RuleSet;

const HEAD: &str = "\
//! The files of `rules/` as they are in the program: name, text. Written by `cargo run -p tune --example renew`.

pub(crate) const FILES: &[(&str, &str)] = &[
";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("rules");
    let mut table = HEAD.to_owned();
    for file in RuleSet::file_names(&folder)? {
        table += &format!("    (\"rules/{file}\", include_str!(\"../../../rules/{file}\")),\n");
    }
    table += "];\n";
    fs::write(root.join("crates/tune/src/builtin.rs"), table)?;
    // Reads the folder and not the built-in copy, which is not rebuilt yet.
    fs::write(root.join("docs/rules.md"), tune::rules_page::rules_page(&RuleSet::folder(&folder)?))?;
    Ok(())
}
