//! `--print`: an environment, systemd drop-in, compose file or pod that runs a program over Direct NFS.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};
use dnfs::mount::MountSpec;

use super::{Args, Environment, Format, parse_mount};
use crate::closed_output::TO_STDOUT;
use crate::error_printing::refusal;

mod containers;
mod systemd;
mod version;

/// The user of the printed service or container.
#[derive(Clone, Copy)]
pub(super) struct User {
    uid: u32,
    gid: u32,
}

/// The kind of a program, which decides how it is started, reloaded and stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Postgres,
    /// `pg_ctlcluster … start` of Debian and Ubuntu.
    Cluster,
    MariaDb,
    Other,
}

/// The content of a printed unit, for all formats.
struct Unit {
    /// Last part of the program's path.
    name: String,
    kind: Kind,
    /// `exec` with its options and `--`, then the program and its arguments.
    arguments: Vec<String>,
    mounts: Vec<MountSpec>,
    user: User,
    image: Option<String>,
}

/// Prints a unit. It does not contact the server, which need not be reachable from here.
pub(super) fn unit(format: Format, args: &Args) -> anyhow::Result<ExitCode> {
    let unit = Unit::of(format, args)?;
    let text = match format {
        Format::Systemd => systemd::drop_in(&unit)?,
        Format::Compose => containers::compose(&unit)?,
        Format::Env | Format::Kubernetes => containers::pod(&unit)?,
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context(TO_STDOUT)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints variables, quoted for a shell: `eval "$(millrace exec … --print env)"` works.
pub(super) fn environment(environment: &Environment) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for (name, value) in environment {
        let quoted = value.to_string_lossy().replace('\'', r"'\''");
        writeln!(out, "export {name}='{quoted}'").context(TO_STDOUT)?;
    }
    Ok(())
}

/// `UID:GID`, or `UID` for a group of the same number.
pub(super) fn parse_user(text: &str) -> Result<User, String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    let number =
        |part: &str| part.parse::<u32>().map_err(|_| "give numbers, as in 999:999 (`id postgres` shows them)".to_owned());
    Ok(User { uid: number(uid)?, gid: number(gid)? })
}

impl Unit {
    fn of(format: Format, args: &Args) -> anyhow::Result<Self> {
        let mounts = args.mounts.iter().map(|text| parse_mount(text)).collect::<anyhow::Result<_>>()?;
        let Some(program) = args.command.first() else {
            return Err(refusal(
                "print how to run a program: no program was given",
                "name it after --, as in: -- postgres -D /db/pg",
            ));
        };
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        if name == "pg_ctl" || name == "pg_ctlcluster" && format != Format::Systemd {
            let what = format!("print how to run {name}: it starts the server in the background and ends");
            return Err(refusal(what, "name the server itself: -- postgres -D /db/pg"));
        }
        let kind = match name.as_str() {
            "postgres" => Kind::Postgres,
            "pg_ctlcluster" => Kind::Cluster,
            "mariadbd" | "mysqld" => Kind::MariaDb,
            _ => Kind::Other,
        };
        if args.image.is_some() && format == Format::Systemd {
            return Err(refusal("use --image with --print systemd: a service has no image", "leave --image out"));
        }
        if let Some(group) = &args.group {
            let what =
                format!("print how to run {name} with --group {}: its runtime directory belongs to its user", group.display());
            return Err(refusal(what, "leave --group out, and run other programs on these files as the same user"));
        }
        let mut arguments = vec!["exec".to_owned()];
        let options = [("--mount", &args.mounts), ("--local-medium", &args.local_media)];
        for (option, values) in options {
            for value in values {
                arguments.extend([option.to_owned(), text_of(value)?]);
            }
        }
        arguments.extend(args.force.then(|| "--force".to_owned()));
        // The unit of a cluster ignores a failed start (`ExecStart=-`), so exec must wait for the server.
        let wait = args.wait.map(|wait| wait.to_string()).or_else(|| (kind == Kind::Cluster).then(|| "forever".to_owned()));
        arguments.extend(wait.into_iter().flat_map(|wait| ["--wait".to_owned(), wait]));
        arguments.push("--".to_owned());
        for word in &args.command {
            arguments.push(text_of(word)?);
        }
        let user = args.user.map_or_else(|| user_of(kind), Ok)?;
        Ok(Self { name, kind, arguments, mounts, user, image: args.image.clone() })
    }

    /// The index of the program in `arguments`; the program's own arguments follow it.
    fn command_at(&self) -> usize {
        self.arguments.iter().position(|word| word == "--").map_or(0, |at| at + 1)
    }

    /// A name that systemd, compose and Kubernetes take (RFC 1123: small letters, digits, hyphens).
    fn label(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let label: String = self.name.chars().map(plain).take(63).collect();
        let label = label.trim_matches('-');
        if label.is_empty() { "program".to_owned() } else { label.to_owned() }
    }

    /// The name of the runtime directory. All services of one kind have one user, and share the
    /// directory.
    fn runtime_name(&self) -> String {
        match self.kind {
            Kind::Postgres | Kind::Cluster => "millrace-postgres".to_owned(),
            Kind::MariaDb => "millrace-mariadb".to_owned(),
            Kind::Other => format!("millrace-{}", self.label()),
        }
    }

    fn paths(&self) -> String {
        let paths: Vec<String> =
            self.mounts.iter().map(|mount| String::from_utf8_lossy(&mount.local_path).into_owned()).collect();
        paths.join(", ")
    }

    /// Files that the URLs name. The service or container needs them.
    fn certificates(&self) -> Vec<&str> {
        let options = self.mounts.iter().map(|mount| &mount.url.options);
        let files = options.flat_map(|options| [&options.trusted, &options.certificate, &options.key]);
        let mut files: Vec<&str> = files.flatten().map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// Converts a word to text without control characters, because all formats are text.
fn text_of(word: &OsString) -> anyhow::Result<String> {
    let text = std::str::from_utf8(word.as_bytes()).ok().filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| anyhow!("print {}: it is not plain text on one line", word.display()))
}

/// This user. For root, the user that the database's packages make, because root should not run a
/// database.
fn user_of(kind: Kind) -> anyhow::Result<User> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if !uid.is_root() {
        return Ok(User { uid: uid.as_raw(), gid: gid.as_raw() });
    }
    let name = match kind {
        Kind::Postgres | Kind::Cluster => Some("postgres"),
        Kind::MariaDb => Some("mysql"),
        Kind::Other => None,
    };
    let number = |option: &str, name: &str| -> Option<u32> {
        String::from_utf8(Command::new("id").args([option, name]).output().ok()?.stdout).ok()?.trim().parse().ok()
    };
    let user = name.and_then(|name| Some(User { uid: number("-u", name)?, gid: number("-g", name)? }));
    user.ok_or_else(|| {
        refusal(
            "choose the user of the service: millrace runs as root, and the service should not",
            "name the owner of the files on the export, as in: --user 999:999",
        )
    })
}
