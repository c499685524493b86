//! Archiving of the log: finished segments are copied to a separate volume.

use std::path::Path;

/// Settings for copying finished log segments to `directory`, as the database sees it. The command is the one in
/// PostgreSQL's manual (continuous archiving, 26.3.1 in version 15): it refuses to overwrite files.
pub(crate) fn settings(directory: &Path) -> [(String, String); 2] {
    // The server replaces `%p` and `%f`; a percent sign in the path is doubled. The shell interprets the rest.
    let directory = directory.display().to_string().replace('%', "%%").replace('\'', "'\\''");
    let command = format!("test ! -f '{directory}/%f' && cp %p '{directory}/%f'");
    [("archive_mode".to_owned(), "on".to_owned()), ("archive_command".to_owned(), command)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_the_path_reach_neither_server_nor_shell() {
        let [mode, command] = settings(Path::new("/a 5%/b'c"));
        assert_eq!(mode.1, "on");
        assert_eq!(command.1, "test ! -f '/a 5%%/b'\\''c/%f' && cp %p '/a 5%%/b'\\''c/%f'");
    }
}
