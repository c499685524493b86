//! A systemd drop-in: the changes to a database's unit that make it run over Direct NFS.

use anyhow::{Context, anyhow};

use super::super::installed::find_in_versions;
use super::version::{VERSION, postgres_version};
use super::{Kind, Unit};
use crate::error_printing::refusal;

/// Seconds between two starts of a service whose server is away.
const RESTART_SECONDS: u32 = 5;

pub(super) fn drop_in(unit: &Unit) -> anyhow::Result<String> {
    let program = program(unit);
    let (service, example) = match unit.kind {
        Kind::Postgres => {
            let version = postgres_version(&program);
            let what = if version == VERSION { ": replace VERSION by the number in its file PG_VERSION" } else { "" };
            (
                format!("postgresql@.service of Debian and Ubuntu, here for cluster {version}/main{what}"),
                format!("postgresql@{version}-main.service"),
            )
        }
        Kind::Cluster => {
            let cluster = Cluster::of(unit)?.name;
            (format!("postgresql@.service of Debian and Ubuntu, for cluster {cluster}"), format!("postgresql@{cluster}.service"))
        }
        Kind::MariaDb => ("mariadb.service".to_owned(), "mariadb.service".to_owned()),
        Kind::Other => ("a service of your own".to_owned(), "NAME.service".to_owned()),
    };
    let runtime = unit.runtime_name();
    let mut text = format!(
        "# Drop-in for {service}. Save it as\n\
         #   /etc/systemd/system/{example}.d/millrace.conf\n\
         # then: systemctl daemon-reload && systemctl restart {example}\n\
         # Nothing is mounted: {paths} exists for this service alone. No other host may run it on the same files.\n\
         # Other programs of this user on the same files share its state with: MILLRACE_RUNTIME_DIR=/run/{runtime} millrace exec …\n\
         [Unit]\nAfter=network-online.target\nWants=network-online.target\n",
        paths = unit.paths()
    );
    if unit.kind != Kind::Cluster {
        text +=
            "# If the server is away at start, systemd starts this service again until it answers.\nStartLimitIntervalSec=0\n";
    }
    if unit.kind == Kind::Postgres {
        text += "# The configuration is that of the data directory, or the one the command line names.\nAssertPathExists=\n";
    }
    text += &format!(
        "\n[Service]\nUser={}\nGroup={}\n# The memory that all programs on these files share; it outlives a restart of the service.\n\
         RuntimeDirectory={runtime}\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n\
         Environment=MILLRACE_RUNTIME_DIR=/run/{runtime}\n",
        unit.user.uid, unit.user.gid
    );
    text += match unit.kind {
        // The server notifies systemd when it is ready. SIGINT to the postmaster alone is a fast
        // shutdown.
        Kind::Postgres => "Type=notify\nPIDFile=\nKillMode=mixed\nKillSignal=SIGINT\n",
        Kind::Cluster => "",
        Kind::MariaDb => "Type=notify\n",
        Kind::Other => "Type=exec\n",
    };
    if unit.kind == Kind::Cluster {
        return Ok(text + &Cluster::commands(unit, &program)?);
    }
    text += &format!("Restart=on-failure\nRestartSec={RESTART_SECONDS}s\n");
    let mut words = unit.arguments.clone();
    if let Some(word) = words.get_mut(unit.command_at()) {
        *word = program;
    }
    text += &format!("ExecStart=\nExecStart={}\n", command_line(&words)?);
    if unit.kind == Kind::Postgres {
        text += "ExecStop=\nExecReload=\nExecReload=/bin/kill -HUP $MAINPID\n";
    }
    Ok(text)
}

/// `pg_ctlcluster [OPTION]… VERSION-CLUSTER start`, or `VERSION CLUSTER start`.
struct Cluster {
    /// `15-main`.
    name: String,
}

impl Cluster {
    fn of(unit: &Unit) -> anyhow::Result<Self> {
        let words = unit.arguments.get(unit.command_at() + 1..).unwrap_or_default();
        let place = words.iter().rposition(|word| word == "start");
        let name = place.and_then(|place| match words.get(..place)? {
            [.., version, name] if version.parse::<f32>().is_ok() => Some(format!("{version}-{name}")),
            [.., name] => Some(name.clone()),
            [] => None,
        });
        let name = name.ok_or_else(|| {
            let what = "print how to run pg_ctlcluster: its arguments name no cluster to start";
            refusal(what, format!("as in: -- pg_ctlcluster {}-main start", postgres_version("pg_ctlcluster")))
        })?;
        Ok(Self { name })
    }

    /// The lines that start, stop and reload the cluster.
    fn commands(unit: &Unit, program: &str) -> anyhow::Result<String> {
        const DIRECT: &str = "--skip-systemctl-redirect";
        let line = |action: &str, options: &[&str]| {
            let (exec, command) = unit.arguments.split_at(unit.command_at());
            let mut exec = exec.to_vec();
            // Only `start` waits for the server. While the server is away before a start, there is
            // nothing to stop or reload.
            if let Some(wait) = exec.iter().position(|word| word == "--wait").filter(|_| action != "start") {
                exec.drain(wait..wait + 2);
            }
            let is_direct = command.iter().any(|word| word == DIRECT);
            let mut words = vec![program.to_owned()];
            words.extend((!is_direct).then(|| DIRECT.to_owned()));
            words.extend(options.iter().map(|option| (*option).to_owned()));
            words.extend(command.iter().skip(1).cloned());
            if let Some(word) = words.iter_mut().rfind(|word| *word == "start") {
                action.clone_into(word);
            }
            command_line(&[exec, words].concat())
        };
        Ok(format!(
            "# -: a recovery may take longer than pg_ctl waits for it; it goes on.\nExecStart=\nExecStart=-{}\nExecStop=\nExecStop={}\n\
             ExecReload=\nExecReload={}\n",
            line("start", &[])?,
            line("stop", &["-m", "fast"])?,
            line("reload", &[])?
        ))
    }
}

/// The path of the program, because a service has another PATH than a shell.
fn program(unit: &Unit) -> String {
    let Some(program) = unit.arguments.get(unit.command_at()) else { return String::new() };
    let mut command = [program.clone().into()];
    find_in_versions(&mut command, "printed as");
    let [found] = command;
    let found = super::super::locate(&found).and_then(|path| path.to_str().map(str::to_owned));
    found.unwrap_or_else(|| program.clone())
}

/// This binary with these arguments.
fn command_line(arguments: &[String]) -> anyhow::Result<String> {
    let binary = std::env::current_exe().context("find this binary")?;
    let binary = binary.to_str().ok_or_else(|| anyhow!("print {}: it is not plain text", binary.display()))?;
    let words = std::iter::once(binary).chain(arguments.iter().map(String::as_str));
    Ok(words.map(quoted).collect::<Vec<_>>().join(" "))
}

/// A word of a command line of systemd (systemd.service(5), COMMAND LINES): `%` begins a specifier, `$` a variable.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%?&@+".contains(c);
    if !word.is_empty() && escaped.chars().all(plain) { escaped } else { format!("\"{escaped}\"") }
}

#[cfg(test)]
mod tests {
    use super::quoted;

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
