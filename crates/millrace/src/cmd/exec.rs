//! `millrace exec`: runs a program over Direct NFS.
//!
//! A program must not use the local disk unnoticed. So before this command executes the program, it
//! mounts each export once, checks that this host has no files below a mount's path, puts the
//! library where the program may read it, and starts a child that proves that the library is active
//! and reaches the server.

use anyhow::{Context, anyhow, bail};
use dnfs::file::AccessRights;
use dnfs::mount::MountSpec;
use dnfs::{Attributes, Client, Credentials, MountParts, NfsUrl, ROOT_SQUASH_HINT};
use std::ffi::{OsStr, OsString};
use std::hash::Hasher;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use self::first_answer::{Wait, mount_once};
use self::installed::{find_in_versions, not_run};
use self::local_medium::LocalMedium;
use self::program::{CLibrary, is_static, locate};
use super::apart::report_apart;
use super::runtime;
use crate::error_printing::{hinted, refusal};

mod first_answer;
pub(super) mod group;
mod installed;
mod local_medium;
mod log_file;
mod print;
mod program;
mod proof;

const LIBRARY: &str = "libmillrace_preload.so";
/// The program that tests the library if this binary cannot load it.
const PROVER: &str = "millrace-prove";
const MOUNTS: &str = "MILLRACE_MOUNTS";
/// The binary that the library starts as the mount's keeper.
const KEEPER: &str = "MILLRACE_KEEPER";
/// Identifies a tree of processes for the library, which reports each program that it does not reach once in a tree; `0`
/// disables the lines.
const UNREACHED: &str = "MILLRACE_UNREACHED";
/// The runtime directory that the mounts' processes share.
const RUNTIME: &str = "MILLRACE_RUNTIME_ID";

/// The form in which `--print` writes what would run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Variables for a shell: eval "$(millrace exec … --print env)"
    Env,
    /// A drop-in for a service
    Systemd,
    /// A compose file
    Compose,
    /// A Kubernetes pod
    #[value(name = "k8s")]
    Kubernetes,
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = "millrace exec --mount /PATH=URL [OPTIONS] -- CMD [ARGUMENT]...")]
pub(crate) struct Args {
    /// An export and the path under which the program sees it; may be given several times
    #[arg(long = "mount", value_name = "/PATH=nfs://HOST[:PORT]/EXPORT[/SUB][?OPTIONS]", required_unless_present_any = ["prove", "prove_medium", "local_media", "becomes"])]
    mounts: Vec<OsString>,
    /// Delay I/O in a directory of this host as this storage medium would, like `serve --medium`
    #[arg(long = "local-medium", value_name = "/DIR=PROFILE,KEY=VALUE,…")]
    local_media: Vec<OsString>,
    /// Share locks, sizes and unsaved data with the members of this group (name or number). Needed by programs that change their
    /// user, and by users that work on the same files
    #[arg(long, value_name = "GROUP")]
    group: Option<OsString>,
    /// Run even if the mount's path exists and is not an empty directory (the export then hides it), or if another user's
    /// programs hold file locks on the export
    #[arg(long)]
    force: bool,
    /// Wait this long for the servers, if they do not serve the exports yet: 30s, 5m, 2h, forever [default: 2 s for a server that
    /// refuses connections]
    #[arg(long, value_name = "TIME")]
    wait: Option<Wait>,
    /// Print an equivalent environment, systemd drop-in, compose file or pod instead of running the program
    #[arg(long, value_enum, value_name = "FORMAT")]
    print: Option<Format>,
    /// User and group of the printed service or container. They must own the files on the export [default: this user; for root,
    /// postgres or mysql]
    #[arg(long, value_name = "UID:GID", requires = "print", value_parser = print::parse_user)]
    user: Option<print::User>,
    /// Image of the printed container; it must contain millrace and the program
    #[arg(long, value_name = "IMAGE", requires = "print")]
    image: Option<String>,
    /// Paths whose file number a child process prints, to show that the library is active in it
    #[arg(long, hide = true, value_name = "PATH")]
    prove: Vec<OsString>,
    /// States of local media that the child looks for
    #[arg(long, hide = true, value_name = "PATH")]
    prove_medium: Vec<PathBuf>,
    /// The library is loaded: become the program, which lies on a mount
    #[arg(long = "become", hide = true)]
    becomes: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD", required_unless_present_any = ["print", "prove", "prove_medium"])]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples (PostgreSQL refuses root; as root, put `runuser -u postgres --` before them, or mysql):
  millrace exec --mount /db=nfs://filer/vol -- initdb -D /db/pg
  millrace exec --mount /db=nfs://filer/vol -- pg_ctl -D /db/pg -l /tmp/pg.log -o '-p 5440' start
  millrace exec --mount /db=nfs://filer/vol -- sh -c 'ls -l /db/pg'    sees the same files
  millrace exec --mount /db=nfs://filer/vol -- pg_ctl -D /db/pg stop
  millrace exec --mount /db=nfs://filer/vol -- mariadbd --datadir=/db/my
  millrace exec --wait 5m --mount /db=nfs://filer/vol -- postgres -D /db/pg
  millrace exec --mount '/db=nfs://127.0.0.1:2049/vol?mountport=2049' --print env
  millrace exec --mount /db=nfs://filer/vol --print systemd -- postgres -D /db/pg
  millrace exec --mount /db=nfs://filer/vol --print k8s --user 999:999 -- postgres -D /db/pg
  millrace exec --local-medium /srv/pg=fc15k,spindles=80 -- ls /srv/pg

Needs no root and makes no mount: the program sees /db, the rest of the host does not. The library
is loaded with LD_PRELOAD, so static, set-uid and Go programs find nothing below /db: use `millrace
mount` for them. A program of PostgreSQL that PATH lacks is found in /usr/lib/postgresql/*/bin, if
only one version has it. Kernel AIO (libaio) works on these files. io_uring does not and is
refused; MariaDB then uses libaio. Keep the server's own log on a local disk.

Closing a file commits its data first, as a kernel client does. close=nothing in the URL leaves out
that commit: use it for a database, which syncs its files itself. Written data that is not yet
stable is kept in memory (retain=64MiB) and resent to a server that restarted. Small consecutive
writes are coalesced; gather=off in the URL sends each by itself.

After a program has changed its user (setuid, as in --group mysql … mariadbd --user=mysql by root),
new calls are made as the new user, and calls on open files as the user that opened them. Each user
has separate mounts whose locks do not exclude each other, unless --group names a group of all of
them; its members trust each other with these mounts.

The preload library is the one that MILLRACE_PRELOAD names, else the one beside this binary or in
../lib/millrace; for a program of musl (Alpine Linux) the one in musl/ there.

Never open one data directory from two hosts, or from two containers that cannot see each other's
processes. Nothing prevents it: postmaster.pid works only among processes that see each other.

The mounts' shared memory is in /dev/shm/millrace-UID (root: /run/millrace where /run is in memory),
or in the directory that MILLRACE_RUNTIME_DIR names. A directory that another user made or can
replace is refused. The directory of a --group belongs to root: root has to run exec with that
--group once after each boot, before the members.

--print writes to stdout: `env` variables for a shell; `systemd` a drop-in, for example for Debian's
postgresql@.service (CMD may be `pg_ctlcluster VERSION-NAME start`); `compose` a compose file; `k8s`
a pod that the restricted profile admits: any uid, no capabilities, the default seccomp filter, a
read-only root. The printed units name a runtime directory, and restart or wait while the server is
away. Only `env` contacts the server.

With --wait, exec waits for a server that is away or does not serve the export yet. After 2 s a line
on stderr names it.

If a server does not answer for 5 s, the program waits, as on a hard mount, and a line goes to
stderr, or to syslog if stderr is a file on a mount: at most one in a minute. A line follows when
the server answers. Another line reports a server that comes back with another volume: calls on
files of the old one fail then.
MILLRACE_LOG=/PATH sends all messages to that file, or to stderr if the file cannot be written;
MILLRACE_LOG=1 logs more, MILLRACE_LOG=0 suppresses those about servers. If CMD starts a program
that the library cannot be loaded into (static, set-uid, with another environment), a line on stderr
names it once; MILLRACE_UNREACHED=0 suppresses it.

Exit codes: the program's own; 2 could not run (the mount, the library or an argument; nothing was
started); 126 the program can't be executed; 127 there is no such program.";

/// Runs the program, prints what would run it, or proves that the library is active.
pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    if !args.prove.is_empty() || !args.prove_medium.is_empty() {
        return prove(&args);
    }
    if args.becomes {
        return become_program(Command::new(args.command.first().context("run a program: no program was given")?), &args.command);
    }
    if let Some(format) = args.print.filter(|format| *format != Format::Env) {
        return print::unit(format, &args);
    }
    // Printed variables need the path too: it decides which C library's preload library they name.
    find_in_versions(&mut args.command, if args.print.is_some() { "printed for" } else { "running" });
    prepare_and_run(&args)
}

fn prepare_and_run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = args.group.as_deref().map(group::runtime_directory).transpose()?;
    let root = runtime.as_ref().map_or_else(dnfs::mount::runtime_root, PathBuf::from);
    runtime::check(&root)?; // made only if the program will be started
    let outer = std::env::var_os(MOUNTS).unwrap_or_default();
    let media = local_medium::parse_all(&args.local_media)?;
    let mut lines: Vec<OsString> = Vec::new();
    let mut expected = Vec::new();
    let specs: Vec<MountSpec> = args.mounts.iter().map(|text| parse_mount(text)).collect::<Result<_, _>>()?;
    check_overlap(&specs)?;
    for (text, spec) in args.mounts.iter().zip(&specs) {
        let path = PathBuf::from(OsString::from_vec(spec.local_path.clone()));
        if !args.force && !has_mount(&outer, &spec.local_path) {
            local_path_is_free(&path)?;
        }
        let (root_number, parts) = check(spec, args.wait)?;
        report_apart(&spec.url, &parts, &root, args.force)?;
        expected.push((path, root_number));
        lines.push(text.clone());
    }
    // Mounts of an exec around this one stay, so that descriptors and the working directory keep their meaning.
    let inherited = outer.as_bytes().split(|b| *b == b'\n').filter(|line| {
        MountSpec::parse(line).is_ok_and(|spec| !expected.iter().any(|(path, _)| path.as_os_str().as_bytes() == spec.local_path))
    });
    lines.extend(inherited.map(|line| OsStr::from_bytes(line).to_owned()));
    log_file::warn_if_unwritable();
    let c_library = CLibrary::of(args.command.first().map(OsString::as_os_str));
    let built = find_library(c_library)?;
    let library = readable_by_all(&built)?;
    let mounts = lines.join(OsStr::new("\n"));
    let preload = preload_list(&library);
    let keeper = std::env::current_exe().context("find this binary")?.into_os_string();
    let media_lines = local_medium::lines(&media);
    let mut environment =
        vec![("LD_PRELOAD", preload), (MOUNTS, mounts), (KEEPER, keeper), (local_medium::VARIABLE, media_lines)];
    environment.extend(runtime.map(|directory| (group::VARIABLE, directory)));
    if args.print.is_some() {
        // No proof: it would attach the mount and leave its keeper, although the program may never start.
        print::environment(&environment)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(program) = args.command.first() else { return Err(anyhow!("run a program: no program was given")) };
    let on_mount = is_on_mount(program, &environment[1].1);
    if !on_mount && locate(program).is_none() {
        return Ok(not_run(program, ErrorKind::NotFound.into())); // before the proof attaches the mount
    }
    runtime::made(&root)?;
    media.iter().try_for_each(LocalMedium::make_state)?;
    environment.push((RUNTIME, OsString::new())); // an outer exec's value is not valid here
    handshake(prover(&built, c_library)?, &expected, &media, &environment)?;
    environment.extend(identity(&root));
    environment.extend(mark_of_tree());
    environment.extend(user_namespace());
    let mut command = if on_mount {
        // Only the library can execute a program on a mount (docs/design/018-stored-programs.md).
        let mut command = prover(&built, c_library)?;
        command.args(["--become", "--"]).arg(program);
        command
    } else {
        reachable(program)?;
        Command::new(program)
    };
    command.envs(environment);
    become_program(command, &args.command)
}

/// Executes the program of `words`, by a command that lacks only its arguments.
fn become_program(mut command: Command, words: &[OsString]) -> anyhow::Result<ExitCode> {
    let (program, arguments) = words.split_first().context("run a program: no program was given")?;
    let error = command.args(arguments).exec();
    Ok(not_run(program, error))
}

/// Whether a program is on a mount of these lines, by its path, or by PATH if this host has no program of that name.
fn is_on_mount(program: &OsStr, mounts: &OsStr) -> bool {
    let is_below = |path: &Path| {
        let lines = mounts.as_bytes().split(|byte| *byte == b'\n');
        lines.filter_map(|line| MountSpec::parse(line).ok()).any(|spec| path.starts_with(OsStr::from_bytes(&spec.local_path)))
    };
    match locate(program) {
        Some(path) => is_below(&path) || !path.exists(),
        None => std::env::var_os("PATH").is_some_and(|list| std::env::split_paths(&list).any(|folder| is_below(&folder))),
    }
}

/// The identity of the runtime directory, `DEVICE:INODE:PATH`. By it the library notices that
/// another file system covers the directory.
fn identity(root: &Path) -> Option<(&'static str, OsString)> {
    let found = std::fs::metadata(root).ok()?;
    let mut identity = OsString::from(format!("{}:{}:", found.dev(), found.ino()));
    identity.push(root);
    Some((RUNTIME, identity))
}

/// The mark of this tree of processes. `None` if an outer exec or the user has set one.
fn mark_of_tree() -> Option<(&'static str, OsString)> {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let mark = format!("{}-{}", std::process::id(), since.as_nanos());
    std::env::var_os(UNREACHED).is_none_or(|set| set.is_empty()).then(|| (UNREACHED, mark.into()))
}

/// The inode of this process's user namespace, whose numbers the mounts have. `None` if an outer
/// exec has set one.
fn user_namespace() -> Option<(&'static str, OsString)> {
    const VARIABLE: &str = dnfs::user_namespace::VARIABLE;
    let inode = dnfs::user_namespace::of_process()?;
    std::env::var_os(VARIABLE).is_none_or(|set| set.is_empty()).then(|| (VARIABLE, inode.to_string().into()))
}

/// Refuses mounts of which one contains another, before any server is asked.
fn check_overlap(specs: &[MountSpec]) -> anyhow::Result<()> {
    let path = |spec: &MountSpec| PathBuf::from(OsStr::from_bytes(&spec.local_path));
    for (at, spec) in specs.iter().enumerate() {
        let own = path(spec);
        if let Some(other) = specs[..at].iter().map(path).find(|other| other.starts_with(&own) || own.starts_with(other)) {
            let what = format!("mount at {}: the path overlaps that of another --mount, {}", own.display(), other.display());
            return Err(refusal(what, "choose paths that do not contain one another, such as /db and /wal"));
        }
    }
    Ok(())
}

fn parse_mount(text: &OsStr) -> anyhow::Result<MountSpec> {
    let spec = MountSpec::parse(text.as_bytes())
        .with_context(|| format!("use --mount {}", dnfs::url::without_user(&text.to_string_lossy())))?;
    if text.as_bytes().contains(&b'\n') {
        let what = format!("use --mount {}: it has a line feed in it", text.display());
        return Err(refusal(what, "write line feeds of a URL as %0A"));
    }
    Ok(spec)
}

/// Whether an outer exec has a mount at this path.
fn has_mount(mounts: &OsStr, path: &[u8]) -> bool {
    mounts.as_bytes().split(|b| *b == b'\n').any(|line| MountSpec::parse(line).is_ok_and(|spec| spec.local_path == path))
}

/// Checks that this host has no files below a mount's path: a program without the library would use them.
fn local_path_is_free(path: &Path) -> anyhow::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(anyhow!(error).context(format!("inspect {}", path.display()))),
        Ok(found) => found,
    };
    let mounts = host::mount_table::read().unwrap_or_default();
    if let Some(mounted) = mounts.iter().find(|mount| mount.directory == path) {
        return Err(refusal(
            format!("mount at {}: {} is mounted there", path.display(), mounted.source),
            format!("umount {}, or choose another path; with --force the export hides it", path.display()),
        ));
    }
    let empty = found.is_dir() && path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if empty {
        return Ok(());
    }
    let what = if found.is_dir() { "a directory that is not empty" } else { "not a directory" };
    Err(hinted(
        anyhow!("mount at {}: it exists on this host and is {what}", path.display()),
        "choose a path that does not exist; with --force the export hides what is there",
    ))
}

/// Mounts once, so that a refusal of the server is reported before anything starts. Returns the
/// root's file number and the result of mounting.
fn check(spec: &MountSpec, wait: Option<Wait>) -> anyhow::Result<(u64, MountParts)> {
    let who = Credentials::of_process().for_url(&spec.url);
    let client = mount_once(&spec.url, &who, wait).with_context(|| format!("mount {}", spec.url))?;
    let root = client.getattr(&client.parts().root).with_context(|| format!("mount {}", spec.url))?;
    if rustix::process::geteuid().is_root() && spec.url.options.uid.is_none() {
        warn_of_root_squash(&spec.url, &client, &root);
    }
    Ok((root.fileid, client.parts()))
}

/// Warns that the server maps root to another user: a program's own message would not show that.
fn warn_of_root_squash(url: &NfsUrl, client: &Client, root: &Attributes) {
    const READS: AccessRights = AccessRights::READ;
    const WRITES: AccessRights = AccessRights::EXTEND;
    let Ok(granted) = client.access(&client.parts().root, READS | WRITES) else { return };
    let (uid, mode) = (root.uid, root.mode);
    let why = if !granted.has_any(READS) {
        "root may not read it"
    } else if uid == 0 && mode & 0o200 != 0 && !granted.has_any(WRITES) {
        "root may not write there, although the directory is root's: root squash, or a read-only export"
    } else {
        return;
    };
    eprintln!("millrace: warning: {url}: permission denied (NFSERR_ACCES): {why}");
    eprintln!("hint: {ROOT_SQUASH_HINT}");
}

/// The preload library for programs of a C library. The one for musl is in the folder musl/ beside
/// the one for glibc.
fn find_library(c_library: CLibrary) -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("MILLRACE_PRELOAD").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        return match path.canonicalize() {
            Ok(path) => Ok(path),
            Err(error) => {
                let what = anyhow!(error).context(format!("use MILLRACE_PRELOAD={}", path.display()));
                Err(hinted(
                    what,
                    format!("name {LIBRARY} with its whole path, or unset the variable: it is found beside the binary"),
                ))
            }
        };
    }
    let binary = std::env::current_exe().and_then(|path| path.canonicalize()).context("find this binary")?;
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let name = Path::new(c_library.folder()).join(LIBRARY);
    let places = [folder.join(&name), folder.join("../lib/millrace").join(&name)];
    places.iter().find_map(|place| place.canonicalize().ok()).ok_or_else(|| {
        let hint = match c_library {
            CLibrary::Glibc => "build it with `make build`, or name it in MILLRACE_PRELOAD",
            CLibrary::Musl => {
                "the program is one of musl: packages hold the library for it (`make dist`), or name it in MILLRACE_PRELOAD"
            }
        };
        hinted(anyhow!("find {} beside {} or in ../lib/millrace", name.display(), binary.display()), hint)
    })
}

/// The program that shows whether the library is active in a process: this binary if it can load the library, otherwise the
/// program built with it.
fn prover(library: &Path, c_library: CLibrary) -> anyhow::Result<Command> {
    if CLibrary::of_this_binary() == Some(c_library) {
        let mut this = Command::new(std::env::current_exe().context("find this binary")?);
        this.arg("exec");
        return Ok(this);
    }
    let path = library.with_file_name(PROVER);
    if !path.is_file() {
        let what = anyhow!("try the library {}: {PROVER} is not beside it", library.display());
        return Err(hinted(what, "this binary cannot load it itself; packages hold the program: keep the two files together"));
    }
    Ok(Command::new(path))
}

/// The path of the library, or of a copy of it, that every user can read: a program may change its
/// user before it starts another program.
fn readable_by_all(library: &Path) -> anyhow::Result<PathBuf> {
    // The loader splits LD_PRELOAD at these bytes.
    let plain = !library.as_os_str().as_bytes().iter().any(|b| matches!(b, b':' | b' ' | b'\t' | b'\n'));
    let open_to_all = |path: &Path| {
        let right = if path == library { 0o004 } else { 0o001 };
        path.metadata().is_ok_and(|found| found.mode() & right != 0)
    };
    if plain && library.ancestors().all(open_to_all) {
        return Ok(library.to_owned());
    }
    let bytes = std::fs::read(library).with_context(|| format!("read {}", library.display()))?;
    let me = std::fs::metadata("/proc/self").context("read /proc/self")?.uid();
    let folder = std::env::temp_dir().join(format!("millrace-lib-{me}"));
    let copy = folder.join(format!("{:016x}-{LIBRARY}", fingerprint(&bytes)));
    copy_to(&folder, &copy, &bytes, me).with_context(|| format!("copy the library to {}", copy.display()))?;
    Ok(copy)
}

/// FNV-1a. The name of a copy identifies its contents, so that an update never changes a library in use.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hash = fnv::FnvHasher::default();
    hash.write(bytes);
    hash.finish()
}

fn copy_to(folder: &Path, copy: &Path, bytes: &[u8], me: u32) -> anyhow::Result<()> {
    match std::fs::create_dir(folder) {
        Ok(()) => std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
    }
    let found = folder.symlink_metadata()?;
    if !found.is_dir() || found.uid() != me || found.mode() & 0o022 != 0 {
        bail!("{} is not a directory that only this user may write", folder.display());
    }
    if std::fs::read(copy).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let fresh = folder.join(format!("{}.new", std::process::id()));
    std::fs::write(&fresh, bytes)?;
    std::fs::set_permissions(&fresh, PermissionsExt::from_mode(0o755))?;
    std::fs::rename(&fresh, copy)?;
    Ok(())
}

/// This library comes first: it must see a call before any library that wraps it.
fn preload_list(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        let others = others.into_vec();
        let others =
            others.split(|b| matches!(b, b':' | b' ')).filter(|other| !other.is_empty() && !other.ends_with(LIBRARY.as_bytes()));
        for other in others {
            list.push(":");
            list.push(OsStr::from_bytes(other));
        }
    }
    list
}

/// Variables that the library reads.
type Environment = [(&'static str, OsString)];

/// Starts a child under the library and checks its output: the child must see the root that the
/// server returned to this process, and must have mapped the state of each medium.
fn handshake(
    mut child: Command,
    expected: &[(PathBuf, u64)],
    media: &[LocalMedium],
    environment: &Environment,
) -> anyhow::Result<()> {
    child.envs(environment.iter().cloned()).stdin(Stdio::null()).current_dir("/");
    for (path, _) in expected {
        child.arg("--prove").arg(path);
    }
    for medium in media {
        child.arg("--prove-medium").arg(medium.state());
    }
    let output = child.output().with_context(|| format!("start {} to try the library", child.get_program().display()))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    let roots = expected.iter().map(|(_, root)| format!("{root}\n"));
    let wanted: String = roots.chain(media.iter().map(|_| "true\n".to_owned())).collect();
    if output.status.success() && answer == wanted {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // The library was loaded if it printed why it could not mount.
    if let Some((_, why)) = said.split_once("millrace: cannot mount ") {
        let mut lines = why.lines();
        let error = anyhow!("mount {}", lines.next().unwrap_or_default());
        return Err(hinted(error, lines.next().and_then(|line| line.strip_prefix("hint: ")).unwrap_or_default()));
    }
    let said = said.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let error = anyhow!("load the library {} into a child process: {said}", environment[0].1.display());
    Err(hinted(error, "is it built for this system (same C library and processor)? is its file system mounted noexec?"))
}

/// Runs in the child that [`handshake`] starts.
fn prove(args: &Args) -> anyhow::Result<ExitCode> {
    proof::print(&args.prove, &args.prove_medium).map_err(anyhow::Error::msg)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a program that the loader would start without the library.
fn reachable(program: &OsStr) -> anyhow::Result<()> {
    let Some(path) = locate(program) else { return Ok(()) }; // the exec itself reports it
    let Ok(found) = path.metadata() else { return Ok(()) };
    if found.mode() & 0o6000 != 0 && found.uid() != std::fs::metadata("/proc/self").map_or(0, |me| me.uid()) {
        return Err(hinted(
            anyhow!("run {} over Direct NFS: it is a set-uid program, so the loader ignores the library", path.display()),
            "run millrace as the user you want, for example: runuser -u postgres -- millrace exec …",
        ));
    }
    if is_static(&path) {
        return Err(hinted(
            anyhow!("run {} over Direct NFS: it is statically linked, so the library can't be loaded into it", path.display()),
            "`millrace mount` mounts the export for such programs (`millrace help mount`); or use a dynamically linked build",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_an_outer_exec_are_known_by_their_path() {
        let mounts = OsStr::new("/db=nfs://a/x\n/other=nfs://b/y");
        assert!(has_mount(mounts, b"/other"));
        assert!(!has_mount(mounts, b"/oth"));
    }

    #[test]
    fn a_program_is_on_a_mount_by_its_path_there() {
        let mounts = OsStr::new("/db=nfs://a/x\n/other=nfs://b/y");
        for (program, expected) in
            [("/db/bin/tool", true), ("/other/tool", true), ("/nowhere/sh", true), ("/bin/sh", false), ("sh", false)]
        {
            assert_eq!(is_on_mount(OsStr::new(program), mounts), expected, "{program}");
        }
    }

    #[test]
    fn directory_with_something_in_it_is_refused_and_an_empty_one_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(local_path_is_free(scratch.path()).is_ok());
        assert!(local_path_is_free(&scratch.path().join("absent")).is_ok());
        std::fs::write(scratch.path().join("file"), b"x").unwrap();
        let refused = local_path_is_free(scratch.path()).unwrap_err();
        assert!(refused.to_string().contains("not empty"), "{}", refused);
        assert!(local_path_is_free(&scratch.path().join("file")).is_err());
    }
}
