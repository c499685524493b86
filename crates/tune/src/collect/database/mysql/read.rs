//! Reads option files of MySQL and MariaDB in the order in which the server reads them
//! (my_default.c).

use super::groups::{Identity, Membership};
use super::options::{Taken, taken};
use crate::collect::collected::{Collected, WRITABLE};
use crate::collect::database::reading::{Budget, Reading};
use crate::collect::sources::{Source, resolved};
use crate::facts::Value;

/// Options with their values.
pub(in crate::collect) type Found = Reading<Value>;

/// How deep files may include each other (max_recursion_level).
const DEPTH_MAX: usize = 10;

/// Length of a line that the server reads at once, in bytes. It takes the rest of a longer line as
/// another line.
const LINE_BYTES_MAX: usize = 4094;

/// How the reading of a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// At the end of the file, or the file does not exist.
    Whole,
    /// At a mistake. The rest of the file is not read.
    Mistake,
}

/// Reads a file that may be missing. A mistake in it prevents the server from starting.
pub(super) fn file(collected: &Collected, path: &str, identity: &Identity, found: &mut Found) {
    let mut reader = Reader { collected, identity, found, budget: Budget::default() };
    if reader.file(path, 0) == End::Mistake {
        reader.found.reject(format!("{path} has a mistake, with which the server does not start"));
    }
}

/// Notes one option of a file or a command line.
pub(super) fn option(written: &str, said: Option<&str>, origin: &str, identity: &Identity, found: &mut Found) {
    match taken(written, said, identity.flavor) {
        Taken::Set(name, value) => {
            // The option turns the log on and names its files. `SHOW VARIABLES` has a variable for
            // each of the two.
            if name == "log_bin" {
                let place = said.filter(|_| value == Value::Bool(true)).unwrap_or_default();
                found.set("log_bin_basename", place.into(), origin.to_owned());
            }
            found.set(&name, value, origin.to_owned());
        }
        Taken::Doubt(names, reason) => names.into_iter().for_each(|name| found.doubt(name, format!("{origin}: {reason}"))),
        Taken::Ignored => {}
        Taken::Refused(reason) => found.reject(format!("{origin}: {reason}, with which the server does not start")),
    }
}

struct Reader<'a, 'b> {
    collected: &'a Collected,
    identity: &'b Identity,
    found: &'b mut Found,
    budget: Budget,
}

impl Reader<'_, '_> {
    fn file(&mut self, path: &str, depth: usize) -> End {
        // The server can open a folder, but reads no line from it. It ignores a file that every
        // user may write.
        if self.collected.folders.contains_key(path) || self.collected.writable.contains(path) {
            return End::Whole;
        }
        if let Some(reason) = self.collected.denied.get(WRITABLE) {
            self.found.reject(format!("{WRITABLE}: {reason}, and the server ignores such files"));
        }
        let source = self.collected.source(path);
        let Some(text) = self.found.open(path, source) else { return End::Whole };
        if !self.budget.take(text) {
            self.found.gap(format!("{path} is one of more files than are read"));
            return End::Whole;
        }
        let mut group = None;
        let count = text.split('\n').count();
        for (number, line) in (1..).zip(text.split('\n')) {
            let origin = format!("{path}:{number}");
            // The server ends a line at a NUL byte.
            let line = line.split('\0').next().unwrap_or_default();
            if line.len() > LINE_BYTES_MAX {
                self.found.gap(format!("{origin} is longer than a line of the server"));
                continue;
            }
            let said = line.trim_start_matches(is_space);
            if said.is_empty() || said.starts_with(['#', ';']) {
                continue;
            }
            if let Some(directive) = said.strip_prefix('!') {
                // If the last line has no newline, the server drops its last character.
                let directive = directive.trim_start_matches(is_space);
                let directive = if number == count { without_last(directive) } else { directive };
                if depth < DEPTH_MAX && self.directive(directive, path, &origin, depth) == End::Mistake {
                    return End::Mistake;
                }
                continue;
            }
            if let Some(header) = said.strip_prefix('[') {
                let Some((name, _)) = header.split_once(']') else { return End::Mistake };
                group = Some(name.trim_end_matches(is_space).to_owned());
                continue;
            }
            let Some(group) = &group else { return End::Mistake };
            self.option(said, group, &origin);
        }
        End::Whole
    }

    fn directive(&mut self, directive: &str, from: &str, origin: &str, depth: usize) -> End {
        let argument = |word: &str| {
            directive.strip_prefix(word).filter(|rest| rest.starts_with(is_space)).map(|rest| rest.trim_matches(is_space))
        };
        let is_folder = argument("includedir").is_some();
        // The server ignores other words after the `!`.
        let Some(path) = argument("includedir").or_else(|| argument("include")) else {
            return if ["include", "includedir"].contains(&directive) { End::Mistake } else { End::Whole };
        };
        if path.is_empty() {
            return End::Mistake;
        }
        if !path.starts_with('/') {
            self.found.gap(format!("{origin} includes {path}, which is found from where the server was started"));
            return End::Whole;
        }
        let path = resolved(path, from);
        if !is_folder {
            // A mistake in an included file ends only that file.
            self.file(&path, depth + 1);
            return End::Whole;
        }
        match self.collected.listing(&path) {
            Source::Absent => End::Mistake,
            source => {
                let names = self.found.open(&path, source).into_iter().flatten();
                for name in names.filter(|name| name.ends_with(".cnf")) {
                    let file = resolved(name, &format!("{path}/"));
                    if !self.collected.folders.contains_key(&file) {
                        self.file(&file, depth + 1);
                    }
                }
                End::Whole
            }
        }
    }

    fn option(&mut self, said: &str, group: &str, origin: &str) {
        let membership = self.identity.reads(group);
        if membership == Membership::Other {
            return;
        }
        let said = without_comment(said);
        let (name, value) = match said.split_once('=') {
            Some((name, value)) => (name, Some(unescaped(unquoted(value.trim_matches(is_space))))),
            None => (said, None),
        };
        let name = name.trim_end_matches(is_space);
        if membership == Membership::Read {
            return option(name, value.as_deref(), origin, self.identity, self.found);
        }
        // It is not known whether the server reads the group. If the group has the same value, this
        // does not matter.
        let reason = format!("{origin} is in the group [{group}], which only some servers and versions read");
        match taken(name, value.as_deref(), self.identity.flavor) {
            Taken::Set(name, value) if self.found.get(&name).is_none_or(|(there, _)| *there != value) => {
                self.found.doubt(&name, reason)
            }
            Taken::Doubt(names, _) => names.into_iter().for_each(|name| self.found.doubt(name, reason.clone())),
            Taken::Refused(_) => self.found.gap(reason),
            Taken::Set(..) | Taken::Ignored => {}
        }
    }
}

fn is_space(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '\u{b}'
}

fn without_last(text: &str) -> &str {
    text.char_indices().next_back().map_or("", |(at, _)| &text[..at])
}

/// The line up to a `#` outside quotes.
fn without_comment(said: &str) -> &str {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, letter) in said.char_indices() {
        match letter {
            '\'' | '"' if !is_escaped && quote.is_none() => quote = Some(letter),
            _ if !is_escaped && quote == Some(letter) => quote = None,
            '#' if quote.is_none() => return &said[..at],
            _ => {}
        }
        is_escaped = quote.is_some() && letter == '\\' && !is_escaped;
    }
    said
}

fn unquoted(value: &str) -> &str {
    let of = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    of('"').or_else(|| of('\'')).unwrap_or(value)
}

fn unescaped(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = if letter == '\\' { letters.next() } else { None };
        match next {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('b') => plain.push('\u{8}'),
            Some('s') => plain.push(' '),
            Some(mark @ ('"' | '\'' | '\\')) => plain.push(mark),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::database::mysql::options::Flavor;

    const FLUSH: &str = "innodb_flush_log_at_trx_commit";

    /// Reads `/m/my.cnf` as MariaDB 10.11 would, with other files in folders whose listings are
    /// known.
    fn read(main: &str, others: &[(&str, &str)]) -> Found {
        let mut collected = Collected::default();
        collected.take_file("/m/my.cnf", main.as_bytes());
        for (path, text) in others {
            collected.take_file(path, text.as_bytes());
            let (folder, name) = path.rsplit_once('/').unwrap();
            collected.folders.entry(folder.to_owned()).or_default().insert(name.to_owned());
        }
        let identity = Identity { flavor: Some(Flavor::MariaDb), version: Some((10, 11)), suffix: String::new() };
        let mut found = Found::default();
        file(&collected, "/m/my.cnf", &identity, &mut found);
        found.end_of_files();
        found
    }

    fn flush(main: &str, others: &[(&str, &str)]) -> Option<Value> {
        read(main, others).get(FLUSH).map(|(value, _)| value.clone())
    }

    const ON: &str = "[mysqld]\ninnodb_flush_log_at_trx_commit=1\n";
    const OFF: &str = "[mysqld]\ninnodb_flush_log_at_trx_commit=0\n";

    #[test]
    fn headers_may_have_blanks_and_comments_and_only_groups_of_the_server_count() {
        for header in ["[mysqld] # ours", "[mysqld ]", "  [MYSQLD]", "[galera]", "[client-server]", "[mariadb-10.11] x"] {
            assert_eq!(flush(&format!("{ON}{header}\n{FLUSH}=0\n"), &[]), Some(0.into()), "{header}");
        }
        for header in ["[client]", "[mariadb-10.6]", "[mysqld-5.7]", "[ mysqld]", "[mysqld_safe]"] {
            assert_eq!(flush(&format!("{ON}{header}\n{FLUSH}=0\n"), &[]), Some(1.into()), "{header}");
        }
    }

    #[test]
    fn values_end_before_a_comment_and_may_be_quoted() {
        for value in ["0\t# was 1", "0#was 1", "'0'", "\"0\" # x", " 0 ", "0\r"] {
            assert_eq!(flush(&format!("[mysqld]\n  {FLUSH} ={value}\n"), &[]), Some(0.into()), "{value:?}");
        }
        // A semicolon after a value does not begin a comment.
        assert!(read(&format!("[mysqld]\n{FLUSH}=0 ; x\n"), &[]).is_unknown(FLUSH));
    }

    #[test]
    fn includes_are_read_where_they_stand_in_the_order_of_bytes_and_by_their_last_end() {
        let others = [("/m/d/a.cnf", OFF)];
        for include in ["!includedir /m/d/", "!includedir /m/d", "!include /m/d/a.cnf", " !  include   /m/d/a.cnf  "] {
            assert_eq!(flush(&format!("{ON}{include}\n"), &others), Some(0.into()), "{include}");
            assert_eq!(flush(&format!("{include}\n{ON}"), &others), Some(1.into()), "{include}");
        }
        for include in ["!INCLUDE /m/d/a.cnf\n", "# !include /m/d/a.cnf\n", "!includes /m/d/a.cnf\n"] {
            assert_eq!(flush(&format!("{ON}{include}"), &others), Some(1.into()), "{include}");
        }
        // The server drops the last character of a file that ends without a newline.
        assert_eq!(flush(&format!("{ON}!includedir /m/dx"), &others), Some(0.into()));
        let names = [("/m/d/10.cnf", OFF), ("/m/d/9.cnf", ON), ("/m/d/x.CNF", OFF), ("/m/d/x.cnf.bak", OFF)];
        assert_eq!(flush("!includedir /m/d/\n", &names), Some(1.into()));
        assert_eq!(flush("!includedir /m/d/\n", &[("/m/d/b.x.cnf", OFF), ("/m/d/.a.cnf", ON)]), Some(0.into()));
        // A group continues after an include.
        assert_eq!(flush(&format!("[mysqld]\n!includedir /m/d/\n{FLUSH}=2\n"), &names), Some(2.into()));
    }

    #[test]
    fn what_was_not_read_makes_everything_before_it_unknown() {
        for include in ["!include /x/a.cnf", "!includedir /x", "!include a.cnf"] {
            let found = read(&format!("{ON}{include}\n[mysqld]\nsync_binlog=1\n"), &[]);
            assert!(found.is_unknown(FLUSH) && !found.is_unknown("sync_binlog"), "{include}");
        }
    }

    #[test]
    fn a_mistake_stops_the_server_and_in_an_included_file_the_rest_of_that_file() {
        for main in [&format!("x=1\n{ON}"), &format!("{ON}[x\n"), &format!("{ON}!include \n"), &format!("\u{feff}{ON}")] {
            assert!(read(main, &[]).is_unknown(FLUSH), "{main:?}");
        }
        let others = [("/m/a.cnf", "[mysqld]\ninnodb_flush_log_at_trx_commit=2\n[x\ninnodb_flush_log_at_trx_commit=0\n")];
        assert_eq!(flush(&format!("{ON}!include /m/a.cnf\n"), &others), Some(2.into()));
    }
}
