//! A drop-in of systemd: what has to change in a database's unit for it to run over Direct NFS.

use anyhow::{Context, anyhow};

use super::super::installed::find_in_versions;
use super::{Kind, Unit};

pub(super) fn drop_in(unit: &Unit) -> anyhow::Result<String> {
    let program = program(unit);
    let version = version_of(&program).unwrap_or("17");
    let (service, example) = match unit.kind {
        Kind::Postgres => (
            format!("postgresql@.service of Debian and Ubuntu, here for cluster {version}/main"),
            format!("postgresql@{version}-main.service"),
        ),
        Kind::MariaDb => ("mariadb.service".to_owned(), "mariadb.service".to_owned()),
        Kind::Other => ("a service of your own".to_owned(), "NAME.service".to_owned()),
    };
    let mut text = format!(
        "# Drop-in for {service}. Save it as\n\
         #   /etc/systemd/system/{example}.d/millrace.conf\n\
         # then: systemctl daemon-reload && systemctl restart {example}\n\
         # Nothing is mounted: {} exists for this service alone. No other host may run it on the same files.\n\
         [Unit]\nAfter=network-online.target\nWants=network-online.target\n",
        unit.paths()
    );
    if unit.kind == Kind::Postgres {
        text += "# The configuration is that of the data directory, or the one the command line names.\nAssertPathExists=\n";
    }
    let start = command_line(unit, &program)?;
    text += &format!("\n[Service]\nUser={}\nGroup={}\n", unit.user.uid, unit.user.gid);
    text += match unit.kind {
        // It tells systemd when it is ready; SIGINT is its fast shutdown, to the postmaster alone.
        Kind::Postgres => "Type=notify\nPIDFile=\nKillMode=mixed\nKillSignal=SIGINT\n",
        Kind::MariaDb => "Type=notify\n",
        Kind::Other => "Type=exec\n",
    };
    text += &format!("ExecStart=\nExecStart={start}\n");
    if unit.kind == Kind::Postgres {
        text += "ExecStop=\nExecReload=\nExecReload=/bin/kill -HUP $MAINPID\n";
    }
    Ok(text)
}

/// The program by its path: PATH of a service is not that of a shell.
fn program(unit: &Unit) -> String {
    let Some(program) = unit.arguments.get(unit.command_at()) else { return String::new() };
    let mut command = [program.clone().into()];
    find_in_versions(&mut command, "printed as");
    let [found] = command;
    let found = super::super::locate(&found).and_then(|path| path.to_str().map(str::to_owned));
    found.unwrap_or_else(|| program.clone())
}

/// The version of a program of PostgreSQL where Debian has it: `/usr/lib/postgresql/15/bin/postgres`.
fn version_of(program: &str) -> Option<&str> {
    program.strip_prefix("/usr/lib/postgresql/")?.split('/').next()
}

/// This binary and its arguments, with the program by this path.
fn command_line(unit: &Unit, program: &str) -> anyhow::Result<String> {
    let binary = std::env::current_exe().context("find this binary")?;
    let binary = binary.to_str().ok_or_else(|| anyhow!("print {}: it is not plain text", binary.display()))?;
    let mut words = vec![binary.to_owned()];
    words.extend(unit.arguments.iter().cloned());
    let at = 1 + unit.command_at();
    if let Some(word) = words.get_mut(at) {
        program.clone_into(word);
    }
    Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

/// A word of a command line of systemd (systemd.service(5), COMMAND LINES): `%` begins a specifier, `$` a variable.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%?&@+".contains(c);
    if !word.is_empty() && escaped.chars().all(plain) { escaped } else { format!("\"{escaped}\"") }
}

#[cfg(test)]
mod tests {
    use super::{quoted, version_of};

    #[test]
    fn the_cluster_is_of_the_version_of_the_program() {
        assert_eq!(version_of("/usr/lib/postgresql/15/bin/postgres"), Some("15"));
        assert_eq!(version_of("/usr/local/bin/postgres"), None);
    }

    #[test]
    fn words_of_a_command_line_are_quoted_as_systemd_reads_them() {
        assert_eq!(quoted("/db=nfs://a/vol?close=nothing"), "/db=nfs://a/vol?close=nothing");
        assert_eq!(quoted("100%"), "100%%");
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("it's $HOME"), "\"it's $$HOME\"");
        assert_eq!(quoted(r#"a"\"#), r#""a\"\\""#);
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted(";"), "\";\"");
    }
}
