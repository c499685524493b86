//! Connection service files (PostgreSQL 18, 34.17).

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::error::ConninfoError;
use super::text::{Pairs, add};

/// Directory of the system-wide service file in Debian's packages; PGSYSCONFDIR names another directory.
const SYSTEM_DIR: &str = "/etc/postgresql-common";
const SYSTEM_FILE: &str = "pg_service.conf";

/// The parameters of a service, from the user's file, else from the system-wide file.
pub(super) fn parameters(name: &str, file: Option<String>, environment: &Environment<'_>) -> Result<Pairs, ConninfoError> {
    let system = environment.get("PGSYSCONFDIR").unwrap_or_else(|| SYSTEM_DIR.to_owned());
    let own = file.map(PathBuf::from);
    // A file that is named explicitly must exist.
    if let Some(path) = &own
        && !path.exists()
    {
        return Err(unreadable(path, std::io::ErrorKind::NotFound.into()));
    }
    let own = own.or_else(|| Some(environment.home()?.join(".pg_service.conf")));
    let searched: Vec<PathBuf> = own.into_iter().chain([Path::new(&system).join(SYSTEM_FILE)]).collect();
    for path in &searched {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(path, error)),
        };
        if let Some(pairs) = section(&text, name, path)? {
            return Ok(pairs);
        }
    }
    Err(ConninfoError::NoService { name: name.to_owned(), searched })
}

fn unreadable(path: &Path, source: std::io::Error) -> ConninfoError {
    ConninfoError::File { what: "service file", path: path.to_owned(), source }
}

/// The lines of the first section with this name; `None` if there is no such section.
fn section(text: &str, name: &str, path: &Path) -> Result<Option<Pairs>, ConninfoError> {
    let mut found: Option<Pairs> = None;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            found = (header.strip_suffix(']') == Some(name)).then(Vec::new);
        } else if let Some(pairs) = &mut found {
            let wrong = || ConninfoError::ServiceLine { path: path.to_owned(), line: number };
            let (keyword, value) = line.split_once('=').ok_or_else(wrong)?;
            // A service must not refer to another one.
            if keyword == "service" || keyword == "servicefile" || keyword.contains(char::is_whitespace) {
                return Err(wrong());
            }
            add(pairs, &format!("line {number} of service file {}", path.display()), keyword, value.to_owned())?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# services\n[other]\nhost=db2\n\n[shop]\n host=db1\nport=5433\n[shop]\nhost=never\n";

    #[test]
    fn the_first_section_of_the_name_counts_and_a_wrong_line_is_named() {
        let read = |text: &str| section(text, "shop", Path::new("/s"));
        assert_eq!(read(TEXT).unwrap().unwrap(), [("host", "db1".to_owned()), ("port", "5433".to_owned())]);
        assert_eq!(read("[other]\nnonsense\n").unwrap(), None);
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(said("[shop]\nhost db1\n"), "line 2 of service file /s is not KEYWORD=VALUE");
        assert!(said("[shop]\nservice=other\n").contains("line 2"));
        assert!(said("[shop]\nhots=db1\n").contains("line 2 of service file /s has \"hots\""));
    }
}
