//! Settings of databases as rows of name and value, and the tables in which clients print them.

use crate::collect::text::{cells, integer, lines, telling_value, words};
use crate::facts::{Database, Value, origin_of, set_by};

/// One setting as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The unit of the value (`8kB`, `ms`), if the database reports one.
    pub unit: Option<String>,
    /// Whether a change waits for a restart, if the database reports it.
    pub pending_restart: Option<bool>,
    /// File and line of the value in force, or what else set it, if the database reports it.
    pub source: Option<String>,
    /// The database or role with its own value (`database mill`); `None` for the server's value.
    pub set_for: Option<String>,
    /// The values that the server accepts, if there are few and the server was queried. Captures do
    /// not have them.
    pub values: Vec<String>,
}

impl Row {
    /// The origin for the source of a value in `pg_settings`.
    #[must_use]
    pub fn source_of(said: String) -> String {
        origin_of(&said).unwrap_or(said)
    }

    /// The origin of the value: the source that the database reports, otherwise `otherwise`.
    pub(super) fn origin<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.source.as_deref().unwrap_or(otherwise)
    }
}

/// The text before the server's address in the command line of a capture's entry.
const AT: &str = " -- at ";

/// The address in the command line of a capture's entry.
pub(super) fn address(line: &str) -> Option<&str> {
    line.split_once(AT).map(|(_, address)| address.trim()).filter(|address| !address.is_empty())
}

/// Rows as the command line and the table of a capture's entry, which [`table`] and [`named`] read
/// back.
pub(in crate::collect) fn as_text(database: Database, address: &str, rows: &[Row]) -> (String, String) {
    let line = match database {
        Database::Postgres => {
            "psql -c SELECT name, setting, unit, pending_restart, sourcefile, sourceline, source FROM pg_settings"
        }
        Database::Mysql => "mysql -e SHOW GLOBAL VARIABLES",
        Database::Oracle => "sqlplus select name, value from v$parameter",
    };
    let clean = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let mut text = "name\tvalue\tunit\tpending_restart\tsourcefile\tsourceline\tsource\tset_for\n".to_owned();
    for row in rows {
        let pending = row.pending_restart.map_or("", |pending| if pending { "t" } else { "f" });
        let other = row.source.as_deref().filter(|source| set_by(source).is_some());
        let file = row.source.as_deref().filter(|_| other.is_none());
        let (file, line) = file.and_then(|source| source.rsplit_once(':')).unwrap_or_default();
        text.push_str(&format!(
            "{}\t{}\t{}\t{pending}\t{}\t{line}\t{}\t{}\n",
            clean(&row.name),
            clean(&row.value),
            row.unit.as_deref().unwrap_or_default(),
            clean(file),
            clean(other.unwrap_or_default()),
            clean(row.set_for.as_deref().unwrap_or_default())
        ));
    }
    (if address.is_empty() { line.to_owned() } else { format!("{line}{AT}{address}") }, text)
}

/// A value: yes or no, a number, or a text, which may be empty.
pub(super) fn plain(text: &str) -> Value {
    if integer(text).is_none() && text.trim().is_empty() { Value::Text(String::new()) } else { telling_value(text) }
}

/// The value of a setting. A fraction gets one form: `10.000000` becomes 10, and `0.50` becomes
/// `0.5`. A version is not a fraction.
pub(super) fn plain_setting(name: &str, text: &str) -> Value {
    let said = text.trim();
    let is_fraction = said.strip_prefix('-').unwrap_or(said).split_once('.').is_some_and(|(whole, part)| {
        let are_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        are_digits(whole) && are_digits(part)
    });
    if is_fraction && !name.contains("version") {
        return plain(said.trim_end_matches('0').trim_end_matches('.'));
    }
    plain(text)
}

/// Rows of a table as clients print it: comma-separated or tab-separated, `a | b`, `| a | b |`, or
/// `a = b`.
pub(super) fn table(text: &str) -> Vec<Vec<String>> {
    let body = || lines(text).map(|(_, line)| line).filter(|line| !line.trim().is_empty());
    let rules =
        |line: &str| line.chars().all(|letter| "-+| =".contains(letter)) || (line.starts_with('(') && line.ends_with("rows)"));
    let first = body().find(|line| !rules(line)).unwrap_or_default();
    let mark = if first.contains('\t') {
        '\t'
    } else if first.contains('|') {
        '|'
    } else if first.contains(',') {
        ','
    } else {
        '='
    };
    let split = |line: &str| match mark {
        '|' => line.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect(),
        '=' => line.split_once('=').map(|(key, value)| vec![key.trim().to_owned(), value.trim().to_owned()]).unwrap_or_default(),
        ',' => cells(line, ',').into_iter().map(|cell| cell.trim().to_owned()).collect::<Vec<_>>(),
        mark => line.split(mark).map(|cell| cell.trim().to_owned()).collect(),
    };
    body().filter(|line| !rules(line)).map(split).filter(|row: &Vec<String>| row.len() >= 2).collect()
}

/// Rows with the columns that the head names. Without a head, the first column is the name and the
/// second the value.
pub(super) fn named(table: Vec<Vec<String>>) -> Vec<Row> {
    let head: Vec<String> =
        table.first().map(|row| row.iter().map(|cell| cell.to_ascii_lowercase()).collect()).unwrap_or_default();
    let column = |names: &[&str]| head.iter().position(|cell| names.contains(&cell.as_str()));
    let name = column(&["name", "variable_name"]);
    let value = column(&["setting", "value", "variable_value", "display_value"]);
    let (unit, pending) = (column(&["unit"]), column(&["pending_restart"]));
    let source = (column(&["sourcefile"]), column(&["sourceline"]));
    let (set_by, set_for) = (column(&["source"]), column(&["set_for"]));
    let skip = usize::from(name.is_some());
    let (name, value) = (name.unwrap_or(0), value.filter(|_| skip == 1).unwrap_or(1));
    let rows = table.into_iter().skip(skip).map(|row| {
        let of = |at: Option<usize>| at.and_then(|at| row.get(at)).cloned();
        Row {
            name: of(Some(name)).unwrap_or_default(),
            value: of(Some(value)).unwrap_or_default(),
            unit: of(unit.filter(|_| skip == 1)).filter(|unit| !unit.is_empty()),
            pending_restart: of(pending.filter(|_| skip == 1))
                .filter(|said| !said.is_empty())
                .map(|said| matches!(said.as_str(), "t" | "true" | "on" | "1")),
            source: of(source.0)
                .filter(|file| file.starts_with('/'))
                .map(|file| of(source.1).filter(|line| !line.is_empty()).map_or(file.clone(), |line| format!("{file}:{line}")))
                .or_else(|| origin_of(&of(set_by)?)),
            set_for: of(set_for.filter(|_| skip == 1)).filter(|said| !said.is_empty()),
            values: Vec::new(),
        }
    });
    rows.filter(|row| !row.name.is_empty() && words(&row.name).count() == 1 && row.name.len() < 200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_the_same_however_many_zeros_it_ends_with() {
        for (name, said, wanted) in [
            ("expire_logs_days", "10.000000", Value::Int(10)),
            ("long_query_time", "0.500000", "0.5".into()),
            ("long_query_time", "0.5", "0.5".into()),
            ("seq_page_cost", "0.0", Value::Int(0)),
            ("geqo_seed", "-1.50", "-1.5".into()),
            ("server_version", "15.20", "15.20".into()),
            ("innodb_version", "10.11.60", "10.11.60".into()),
            ("listen_addresses", "10.0.0.0", "10.0.0.0".into()),
        ] {
            assert_eq!(plain_setting(name, said), wanted, "{name} {said}");
        }
    }
}
