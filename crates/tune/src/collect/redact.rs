//! Taking secrets out of what is written down: passwords and CHAP names, users of Direct NFS, data source names.

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Words in a key that make its value a secret.
const SECRETS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "psk",
    "token",
    "sst_auth",
    "credential",
    "auth.username",
    "chap",
    "wep-key",
    "private-key",
    "api_key",
];

/// Keys that only look like it.
const HARMLESS: &[&str] = &["password_encryption", "old_passwords", "default_password_lifetime", "stable_secret_none"];

/// A text without its secrets; `origin` is the file or the command line it comes from.
pub fn redacted(origin: &str, text: &str) -> String {
    let oranfstab = origin.ends_with("oranfstab");
    let iscsi = origin.contains("iscsi");
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let mut kept = without_arguments(&without_logins(body));
        if oranfstab {
            kept = after_key(&kept, &["user", "mount_user", "community"]);
        }
        if iscsi {
            kept = after_key(&kept, &["username", "username_in", "user"]);
        }
        out.push_str(&without_values(&kept));
        out.push_str(end);
    }
    out
}

/// `scheme://user:password@host` as `scheme://[redacted]@host`.
fn without_logins(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after.find(|letter: char| letter.is_whitespace() || "/?#'\"".contains(letter)).unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(at) => {
                out.push_str(REDACTED);
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

/// Everything after `key:` or `key =`, where the line begins with one of the keys.
fn after_key(line: &str, keys: &[&str]) -> String {
    let trimmed = line.trim_start();
    for key in keys {
        let Some(rest) = trimmed.strip_prefix(key) else { continue };
        if let Some(mark) = rest.trim_start().chars().next().filter(|mark| ":=".contains(*mark)) {
            let indent = &line[..line.len() - trimmed.len()];
            return format!("{indent}{key}{mark} {REDACTED}");
        }
    }
    line.to_owned()
}

/// Commands that a setting names (`archive_command`, `restore_command`) reduced to their program, and passwords among the
/// arguments of other commands.
///
/// What an argument of an unknown program means cannot be told, so none of a setting's command is kept.
fn without_arguments(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let ends = lower.match_indices("_command").map(|(at, word)| at + word.len());
    let Some((begin, quote)) = ends.filter_map(|end| command_begin(line, end)).next() else {
        return without_passwords(line);
    };
    let said = &line[begin..];
    let end = match quote {
        Some(quote) => quoted_length(said, quote),
        None => said.find('\t').unwrap_or(said.len()),
    };
    let command = said[..end].trim_end();
    let program = command.split(' ').next().unwrap_or_default();
    let is_program = |letter: char| letter.is_ascii_alphanumeric() || "_./+-".contains(letter);
    let kept = if !program.chars().all(is_program) {
        REDACTED.to_owned()
    } else if program.len() == command.len() {
        program.to_owned()
    } else {
        format!("{program} {REDACTED}")
    };
    format!("{}{kept}{}", &line[..begin], &said[end..])
}

/// Where the value behind a key begins, and the quote it stands in: `= value`, `'value'`, or a value in the next column.
fn command_begin(line: &str, key_end: usize) -> Option<(usize, Option<char>)> {
    let is_quote = |letter: &char| "'\"".contains(*letter);
    let rest = &line[key_end..];
    let rest = rest.strip_prefix(|letter: char| is_quote(&letter)).unwrap_or(rest);
    let value = rest.trim_start_matches(|letter: char| " \t=|:,".contains(letter));
    let marks = &rest[..rest.len() - value.len()];
    let begin = line.len() - value.len();
    match value.chars().next()? {
        // In a column of a table, a quote is part of the command.
        quote if is_quote(&quote) && !marks.contains(['\t', '|']) && !marks.is_empty() => Some((begin + 1, Some(quote))),
        _ if marks.contains(['=', '|', '\t', ':']) => Some((begin, None)),
        _ => None,
    }
}

/// How long a quoted text is; a quote in it is doubled, or behind a backslash.
fn quoted_length(said: &str, quote: char) -> usize {
    let mut letters = said.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let is_doubled = letter == quote && letters.peek().is_some_and(|(_, next)| *next == quote);
        if letter == '\\' || is_doubled {
            letters.next();
        } else if letter == quote {
            return at;
        }
    }
    said.len()
}

/// The arguments of a command line that are a password by what stands before them: `--password WORD`, `sshpass -p WORD`,
/// `-u USER:WORD`, and `-pWORD` of the clients of MySQL and MariaDB.
fn without_passwords(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let (mut option, mut program) = ("", "");
    for piece in line.split_inclusive([' ', '\t', '\'', '"']) {
        let word = piece.trim_end_matches([' ', '\t', '\'', '"']);
        if word.is_empty() {
            out.push_str(piece);
            continue;
        }
        let is_mysql = program.starts_with("mysql") || program.starts_with("mariadb");
        let attached = |flag: &str| word.strip_prefix(flag).filter(|rest| !rest.is_empty());
        let flag = match option {
            "--password" | "--passwd" | "--token" | "--secret" | "--pass" => Some(""),
            "-p" if program == "sshpass" => Some(""),
            "-u" | "--user" | "--proxy-user" | "-U" if word.contains(':') => Some(""),
            _ if program == "sshpass" && attached("-p").is_some() => Some("-p"),
            _ if is_mysql && attached("-p").is_some() => Some("-p"),
            _ if attached("-u").is_some_and(|login| login.contains(':')) => Some("-u"),
            _ if attached("--user=").is_some_and(|login| login.contains(':')) => Some("--user="),
            _ => None,
        };
        match flag {
            Some(flag) => {
                out.push_str(flag);
                out.push_str(REDACTED);
                out.push_str(&piece[word.len()..]);
            }
            None => out.push_str(piece),
        }
        if !word.starts_with('-') && flag.is_none() {
            program = word.rsplit(['/', '=']).next().unwrap_or(word);
        }
        option = word;
    }
    out
}

/// Values of keys that are secrets, anywhere on the line.
fn without_values(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let mut out = String::new();
    let mut at = 0;
    while let Some((begin, word)) =
        SECRETS.iter().filter_map(|word| lower[at..].find(word).map(|found| (at + found, *word))).min()
    {
        let before = lower[at..begin].char_indices().rev().find(|(_, letter)| !is_key(*letter));
        let key_begin = before.map_or(at, |(before, letter)| at + before + letter.len_utf8());
        let after_word = begin + word.len();
        let key_end = lower[after_word..].find(|letter: char| !is_key(letter)).map_or(lower.len(), |more| after_word + more);
        let harmless = HARMLESS.contains(&&lower[key_begin..key_end]);
        let Some((value_begin, value_end)) =
            value(line, key_end, line[..key_begin].trim_matches(|letter: char| " \t\"'#|".contains(letter)).is_empty())
                .filter(|_| !harmless)
        else {
            out.push_str(&line[at..key_end]);
            at = key_end;
            continue;
        };
        out.push_str(&line[at..value_begin]);
        out.push_str(REDACTED);
        at = value_end;
    }
    out.push_str(&line[at..]);
    out
}

fn is_key(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_.-".contains(letter)
}

/// Where the value after a key stands. Of a key that begins its line it is the whole rest; of one inside, up to the next mark.
fn value(line: &str, key_end: usize, begins: bool) -> Option<(usize, usize)> {
    let rest = &line[key_end..];
    let marks = rest.find(|letter: char| !"\"' \t=:|,".contains(letter)).unwrap_or(rest.len());
    let separator = &rest[..marks];
    // A word in running text has blanks behind it and no mark.
    let apart = separator.contains(['=', ':', '|', '\t']) || (begins && separator.contains([',', ' ']));
    if marks == rest.len() || !apart {
        return None;
    }
    let begin = key_end + marks;
    if begins {
        return Some((begin, line.len()));
    }
    let end = line[begin..]
        .find(|letter: char| letter.is_whitespace() || ",;&'\"|".contains(letter))
        .map_or(line.len(), |more| begin + more);
    Some((begin, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_each_kind_are_taken_out() {
        let cases = [
            ("/etc/iscsi/iscsid.conf", "node.session.auth.password = hunter2\n"),
            ("/etc/iscsi/iscsid.conf", "node.session.auth.username = hunter2\n"),
            ("/etc/iscsi/iscsid.conf", "# node.session.auth.password_in = hunter2"),
            ("iscsiadm -m session -P 3", "\t\tusername: hunter2"),
            ("/etc/fstab", "//s/x /x cifs user=a,password=hunter2,ro 0 0"),
            ("/etc/oranfstab", "mount_user: hunter2"),
            ("/postgresql.conf", "primary_conninfo = 'host=a password=hunter2 port=5'"),
            ("pg_settings", "primary_conninfo | host=a password=hunter2 |  | f"),
            ("/etc/my.cnf", "password=hunter2 with blanks hunter2"),
            ("SHOW VARIABLES", "wsrep_sst_auth\troot:hunter2"),
            ("x", "url = postgresql://me:hunter2@db/x and mysql://u:hunter2@h"),
            ("/etc/NetworkManager/system-connections/a", "psk=hunter2"),
            ("x.csv", "\"report_password\",\"hunter2\""),
            ("postgresql.conf", "archive_command = 'curl -u backup:hunter2 -T %p ftp://b/%f'"),
            ("postgresql.conf", "#restore_command 'wget --header \"X-Key: hunter2\" x'\t# it"),
            ("postgresql.auto.conf", "archive_cleanup_command = 'KEY=hunter2 wal-g delete'"),
            ("pg_settings", "archive_command\tsshpass -p hunter2 scp %p b:\t\tf\t/etc/x\t7"),
            ("pg_settings", " archive_command | gzip < %p | curl -u a:hunter2 b | | f"),
            ("command line", "postgres -D /data -c restore_command=curl -ua:hunter2 b"),
            ("crontab", "0 1 * * * root sshpass -p hunter2 scp x b:"),
            ("crontab", "0 1 * * * root sshpass -phunter2 scp x b:"),
            ("crontab", "0 1 * * * root /usr/bin/mysqldump -uroot -phunter2 shop"),
            ("unit", "ExecStartPost=/usr/bin/curl -u backup:hunter2 https://b/"),
            ("unit", "ExecStartPost=/bin/x --password hunter2 --token 'hunter2'"),
        ];
        for (origin, line) in cases {
            let kept = redacted(origin, line);
            assert!(!kept.contains("hunter2") && kept.contains(REDACTED), "{line:?} became {kept:?}");
            assert_eq!(kept.ends_with('\n'), line.ends_with('\n'));
        }
    }

    #[test]
    fn of_a_command_in_a_setting_the_program_stays() {
        for (line, wanted) in [
            ("archive_command = 'cp %p /a/%f'  # comment\n", "archive_command = 'cp [redacted]'  # comment\n"),
            ("archive_command = 'cp ''%p'' /a'", "archive_command = 'cp [redacted]'"),
            ("archive_command = '/bin/true'", "archive_command = '/bin/true'"),
            ("#archive_command = ''\t\t# command to use", "#archive_command = ''\t\t# command to use"),
            ("archive_command\tcp %p /a\t\tf\t/etc/x.conf\t7\n", "archive_command\tcp [redacted]\t\tf\t/etc/x.conf\t7\n"),
            ("# archive_command is read at every archived file", "# archive_command is read at every archived file"),
        ] {
            assert_eq!(redacted("postgresql.conf", line), wanted);
        }
    }

    #[test]
    fn what_is_no_secret_stays_byte_for_byte() {
        for line in [
            "vm.swappiness = 60\n",
            "password_encryption = scram-sha-256",
            "node.session.cmds_max = 128",
            "nfs://server/export",
            "a password is needed",
            "mount -t nfs -o vers=3 a:/b /c",
            "mysqld --user=mysql --port=3306 -P 3306",
            "sysctl -p /etc/sysctl.conf",
            "",
        ] {
            assert_eq!(redacted("/etc/x", line), line);
        }
    }
}
