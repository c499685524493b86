//! Who uses block devices of this host.

use std::fs;
use std::path::{Path, PathBuf};

/// Other processes that have something open, `process 7 (bash)`, or stand in it, which is said. Not this one: its user cannot end it.
pub(super) fn processes(is_meant: impl Fn(&Path) -> bool) -> Vec<String> {
    let meant = |link: PathBuf| fs::read_link(link).ok().filter(|target| is_meant(target));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if pid == std::process::id() {
            continue;
        }
        let folder = entry.path();
        let descriptors = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten().map(|fd| fd.path());
        let mut links = descriptors.chain(["root", "exe"].into_iter().map(|name| folder.join(name)));
        let has_open = links.any(|link| meant(link).is_some());
        let place = meant(folder.join("cwd"));
        if has_open || place.is_some() {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            let place = place.map(|place| format!("; its working directory is in {}: cd elsewhere", place.display()));
            found.push(format!("process {pid} ({}{})", name.trim(), place.unwrap_or_default()));
        }
    }
    found
}

/// Whether a table has a line with this first column.
pub(super) fn has_first_word(table: &str, word: &str) -> bool {
    table.lines().any(|line| line.split_whitespace().next() == Some(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_stands_somewhere_is_told_with_what_to_do_and_never_oneself() {
        let place = std::env::temp_dir().join(format!("millrace-stands-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let open = fs::File::open(&place).unwrap();
        assert_eq!(processes(|target| target == place), Vec::<String>::new(), "only this one has it open");
        drop(open);
        let mut sleeper = Command::new("sleep").arg("60").current_dir(&place).spawn().unwrap();
        let said = processes(|target| target == place);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let expected = format!("process {} (sleep; its working directory is in {}: cd elsewhere)", sleeper.id(), place.display());
        assert_eq!(said, [expected]);
        fs::remove_dir(&place).unwrap();
    }

    #[test]
    fn a_swap_device_is_known_by_its_whole_name() {
        let swaps = "Filename Type\n/dev/loop11 partition\n";
        assert!(has_first_word(swaps, "/dev/loop11") && !has_first_word(swaps, "/dev/loop1"));
    }
}
