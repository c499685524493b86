//! Settings of MySQL and MariaDB as facts: rows of `SHOW VARIABLES`.

use crate::collect::database::rows::{Row, plain_setting};
use crate::collect::text::integer;
use crate::facts::{Facts, Value};

/// Notes rows of `SHOW VARIABLES`.
pub(in crate::collect::database) fn rows(rows: &[Row], origin: &str, facts: &mut Facts) {
    for row in rows {
        let name = row.name.to_ascii_lowercase();
        if name == "version" {
            let number = row.value.split('-').next().unwrap_or(&row.value);
            // MariaDB reports 5.5.5-10.x, because old replication clients need a 5.x version.
            let number = row
                .value
                .strip_prefix("5.5.5-")
                .and_then(|rest| rest.split('-').next())
                .filter(|_| row.value.contains("MariaDB"))
                .unwrap_or(number);
            facts.put("mysql.version", number, origin);
            let comment = rows.iter().any(|row| {
                row.name.eq_ignore_ascii_case("version_comment") && row.value.to_ascii_lowercase().contains("mariadb")
            });
            let mariadb = comment || row.value.to_ascii_lowercase().contains("mariadb");
            facts.put("mysql.flavor", if mariadb { "mariadb" } else { "mysql" }, origin);
            continue;
        }
        let value = match integer(&row.value) {
            Some(number) => Value::Int(number),
            None => plain_setting(&name, &row.value),
        };
        facts.put(&format!("mysql.{name}"), value, origin);
    }
}
