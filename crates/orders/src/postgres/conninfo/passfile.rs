//! The password file (PostgreSQL 18, 34.16).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Permission bits of group and others; none of them may be set.
const OTHERS: u32 = 0o077;

/// The login whose password is searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Login<'a> {
    /// A name, an address, or `localhost` for the default directory of sockets.
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// The lines of a password file, or why it must be ignored, in libpq's words. A missing file has no lines.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let Ok(found) = std::fs::metadata(path) else { return Ok(String::new()) };
    if !found.is_file() {
        return Err(format!("password file \"{}\" is not a plain file", path.display()));
    }
    if found.permissions().mode() & OTHERS != 0 {
        return Err(format!(
            "password file \"{}\" has group or world access; permissions should be u=rw (0600) or less",
            path.display()
        ));
    }
    std::fs::read_to_string(path).map_err(|error| format!("password file \"{}\" cannot be read: {error}", path.display()))
}

/// The password in the first line that matches this login.
pub(super) fn password(text: &str, login: Login<'_>) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [host, port, database, user, password] = fields.as_slice() else { return None };
        let is = |field: &Field, value: &str| field.is_any || field.text == value;
        let matches =
            is(host, login.host) && is(port, &login.port.to_string()) && is(database, login.database) && is(user, login.user);
        (matches && !password.text.is_empty()).then(|| password.text.clone())
    })
}

/// A field between colons.
#[derive(Debug, Default)]
struct Field {
    text: String,
    /// A bare `*`.
    is_any: bool,
}

/// The five fields. A backslash escapes the next character, and the last field extends to the end of the line.
fn fields(line: &str) -> Vec<Field> {
    let mut fields = vec![Field::default()];
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let count = fields.len();
        let Some(field) = fields.last_mut() else { break };
        match letter {
            '\\' => field.text.extend(letters.next()),
            ':' if count < 5 => fields.push(Field::default()),
            '*' if field.text.is_empty() && letters.peek() == Some(&':') && count < 5 => {
                field.text.push('*');
                field.is_any = true;
            }
            _ => field.text.push(letter),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN: Login<'static> = Login { host: "db1", port: 5432, database: "shop", user: "clerk" };

    #[test]
    fn the_first_line_that_matches_in_all_four_fields_gives_the_password() {
        let text =
            "#db1:*:*:*:comment\ndb2:*:*:*:other\ndb1:5433:*:*:port\nshort:line\ndb1:*:shop:clerk:a\\:b\\\\c\n*:*:*:*:last\n";
        assert_eq!(password(text, LOGIN).as_deref(), Some("a:b\\c"));
        assert_eq!(password(text, Login { user: "boss", ..LOGIN }).as_deref(), Some("last"));
        assert_eq!(password("\\*:*:*:*:x", LOGIN), None);
        assert_eq!(password("*:*:*:*:with:colons", LOGIN).as_deref(), Some("with:colons"));
    }

    #[test]
    fn a_file_that_others_may_read_is_not_used_and_one_that_is_not_there_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        assert_eq!(read(&path).unwrap(), "");
        std::fs::write(&path, "*:*:*:*:secret").unwrap();
        let mode = |mode: u32| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        let said = read(&path).unwrap_err();
        assert!(said.contains("has group or world access; permissions should be u=rw (0600) or less"), "{said}");
        mode(0o600);
        assert_eq!(read(&path).unwrap(), "*:*:*:*:secret");
        assert!(read(folder.path()).unwrap_err().contains("is not a plain file"));
    }
}
