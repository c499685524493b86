//! Finds the directory that the main option files of MySQL and MariaDB include last.

use crate::change::root::Root;

/// The main files of a server whose command line names no file, in the order in which the server
/// reads them.
const DEFAULT_FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];

/// The main files of a server with this option file.
pub(super) fn main_files(config: Option<&str>) -> Vec<&str> {
    match config {
        Some(config) if !DEFAULT_FILES.contains(&config) => vec![config],
        _ => DEFAULT_FILES.to_vec(),
    }
}

/// The last existing directory that the files name in an `!includedir`, and the lines that the server reads after it.
pub(super) fn included_last(root: &Root, files: &[&str]) -> Option<(String, String)> {
    let texts = files.iter().filter_map(|file| root.read_text(file).ok().flatten());
    let lines: Vec<String> = texts.flat_map(|text| text.split_inclusive('\n').map(as_read).collect::<Vec<_>>()).collect();
    let is_there = |line: &String| included(line).is_some_and(|directory| root.has_folder(directory));
    let (line, after) = lines.get(lines.iter().rposition(is_there)?..)?.split_first()?;
    Some((included(line)?.to_owned(), after.join("\n")))
}

/// A line as the server reads it, without its newline. If the last line has no newline and begins
/// with `!`, the server drops its last character.
fn as_read(line: &str) -> String {
    match line.strip_suffix('\n') {
        Some(line) => line.to_owned(),
        None if line.trim_start().starts_with('!') => line.chars().take(line.chars().count() - 1).collect(),
        None => line.to_owned(),
    }
}

/// The directory that a line includes. A relative one is ignored, because it depends on where the
/// server was started.
fn included(line: &str) -> Option<&str> {
    let word = line.trim_start().strip_prefix('!')?.trim_start().strip_prefix("includedir")?;
    let directory = word.strip_prefix(char::is_whitespace)?.trim().trim_end_matches('/');
    directory.starts_with('/').then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directory for these main files, with `/etc/a` and `/etc/b` existing.
    fn last(my: &str, mysql: &str) -> Option<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        for directory in ["etc/mysql", "etc/a", "etc/b"] {
            std::fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        std::fs::write(folder.path().join("etc/my.cnf"), my).unwrap();
        std::fs::write(folder.path().join("etc/mysql/my.cnf"), mysql).unwrap();
        included_last(&Root::new(folder.path()), &main_files(None))
    }

    #[test]
    fn the_directory_included_last_is_found_with_the_lines_after_it() {
        let found = |my: &str, mysql: &str| last(my, mysql).map(|(directory, _)| directory);
        assert_eq!(found("!includedir /etc/a/\n!includedir /etc/b\n", ""), Some("/etc/b".into()));
        assert_eq!(found("!includedir /etc/b\n", " ! includedir\t/etc/a \n!include /etc/b\n"), Some("/etc/a".into()));
        assert_eq!(found("!includedir /etc/a\n!includedir /etc/gone\n", ""), Some("/etc/a".into()));
        let (directory, after) = last("!includedir /etc/a\nx = 1\n", "[mysqld]\ny = 2").unwrap();
        assert_eq!((directory.as_str(), after.as_str()), ("/etc/a", "x = 1\n[mysqld]\ny = 2"));
    }

    #[test]
    fn a_directory_that_is_only_there_is_not_included() {
        for text in ["", "[mysqld]\n", "# !includedir /etc/a\n", "!includedirs /etc/a\n", "!includedir a\n", "!includedir /\n"] {
            assert_eq!(last(text, ""), None, "{text:?}");
        }
        // The server reads /etc/ from this line, without the last character. It would stop if that
        // directory did not exist.
        assert_eq!(last("!includedir /etc/a", ""), Some(("/etc".into(), String::new())));
    }

    #[test]
    fn a_server_with_a_file_of_its_own_reads_that_alone() {
        assert_eq!(main_files(Some("/etc/mysql/my.cnf")), DEFAULT_FILES);
        assert_eq!(main_files(Some("/etc/other.cnf")), ["/etc/other.cnf"]);
    }
}
