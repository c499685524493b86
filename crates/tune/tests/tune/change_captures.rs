//! The built-in rules on the hosts of the reports. Every finding with a fix gives a readable
//! change. Other systems than Linux get only text.

use std::fs;
use std::path::Path;

use tune::change::{Apart, Choice, Part, Root, plan, plan_of, render};
use tune::{collect, judge, rules};

#[test]
fn every_capture_of_the_reports_has_a_plan() {
    let set = rules::built_in().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut planned = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok((facts, info)) = collect::capture(&path) else { continue };
        let findings = judge::judge(&set, &facts).findings;
        let root = Root::new(path.join("files"));
        let whole = plan(&set, &facts, &findings, &root);
        let text = render(&whole);
        let named = path.file_name().unwrap().to_string_lossy().into_owned();
        let changes = whole.groups.iter().flat_map(|group| &group.changes);
        for change in changes.chain(whole.apart.iter().map(|Apart { change, .. }| change)) {
            assert!(!change.parts.is_empty(), "{named}: {} does nothing", change.rule);
            assert!(whole.system == "linux" || !change.is_ours(), "{named}: {} would write on {}", change.rule, info.system);
            for part in &change.parts {
                if let Part::Run(run) = part {
                    assert!(run.lines.iter().all(|line| !line.contains('\n') && !line.is_empty()), "{named}: {run:?}");
                }
            }
            let alone = Choice { rules: vec![change.rule.clone()] };
            let alone = plan_of(&set, &facts, &findings, &root, &alone);
            assert!(
                alone.groups.iter().flat_map(|group| &group.changes).any(|one| one.rule == change.rule),
                "{named}: naming {} lets it in",
                change.rule
            );
        }
        if named.ends_with("-untuned") {
            assert!(!whole.is_empty(), "{named}: {text}");
            planned += 1;
        }
        println!("=== {named}: {}\n{text}", info.system);
    }
    assert!(planned >= 5, "captures are missing: {planned}");
}
