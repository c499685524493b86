//! `millrace exec`: runs a program over Direct NFS.
//!
//! A program must never fall through to local disk unseen. So before it becomes the program, this command mounts each
//! export once, makes sure that nothing of this host hides below a mount's path, puts the library where the program may
//! read it, and lets a child of itself prove that the library is active and leads to the server.

use std::hash::Hasher;
use anyhow::{Context, anyhow, bail};
use dnfs::mount::MountSpec;
use dnfs::file::AccessRights;
use dnfs::{Attributes, Client, Credentials, NfsUrl, ROOT_SQUASH_HINT};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use self::local_medium::LocalMedium;
use crate::error_printing::{hinted, print_error, refusal};

mod group;
mod local_medium;

const LIBRARY: &str = "libmillrace_preload.so";
const MOUNTS: &str = "MILLRACE_MOUNTS";
/// The binary that the library starts as the mount's keeper.
const KEEPER: &str = "MILLRACE_KEEPER";
/// A shell's codes for a program that is not there, or can't be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// An export and the path under which the program sees it; may be given several times
    #[arg(long = "mount", value_name = "/PATH=nfs://HOST[:PORT]/EXPORT[/SUB][?OPTIONS]", required_unless_present_any = ["prove", "prove_medium", "local_media"])]
    mounts: Vec<OsString>,
    /// Slow a directory of this host down to this storage medium, as `serve --medium` does
    #[arg(long = "local-medium", value_name = "/DIR=PROFILE,KEY=VALUE,…")]
    local_media: Vec<OsString>,
    /// Share the mounts with the members of this group (name or number): locks, sizes and what is not yet stable. Programs that
    /// change their user need it, and users who work on the same files
    #[arg(long, value_name = "GROUP")]
    group: Option<OsString>,
    /// Run although the mount's path exists on this host and is not an empty directory; the export hides it
    #[arg(long)]
    force: bool,
    /// Print the environment instead of running a program
    #[arg(long, value_name = "FORMAT", value_parser = ["env"])]
    print: Option<String>,
    /// Paths whose file number a child process prints, to show that the library is active in it
    #[arg(long, hide = true, value_name = "PATH")]
    prove: Vec<OsString>,
    /// States of local media that the child looks for
    #[arg(long, hide = true, value_name = "PATH")]
    prove_medium: Vec<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD", required_unless_present_any = ["print", "prove", "prove_medium"])]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
  millrace exec --mount /db=nfs://filer/vol -- initdb -D /db/pg
  millrace exec --mount /db=nfs://filer/vol -- pg_ctl -D /db/pg -l /db/log start
  millrace exec --mount /db=nfs://filer/vol -- psql     (sees the same files)
  millrace exec --group mysql --mount /db=nfs://filer/vol -- mariadbd --user=mysql --datadir=/db/my
  millrace exec --mount '/db=nfs://127.0.0.1:2049/vol?mountport=2049' --print env
  millrace exec --local-medium /srv/pg=fc15k,spindles=80 -- pg_ctl -D /srv/pg start

Needs no root and makes no mount: the program sees /db, the rest of the host does not. The library
is loaded with LD_PRELOAD, so statically linked and set-uid programs, and Go programs, find
nothing below /db. A file that is closed is committed first, as a kernel's client does it;
close=nothing in the URL leaves that out, for a database, which syncs its files itself. Written
data that is not yet stable is kept in memory (retain=64MiB), so that a restarted server gets it
again. A program that changes its user is that user to the server from then on, with the files it
has open still the one who opened them. Users have separate mounts, whose locks do not exclude
each other, unless --group names a group that all of them are in; its members trust each other
with these mounts. The preload library is the one named by MILLRACE_PRELOAD, else that beside this
binary or in ../lib/millrace.

Two hosts, or two containers that cannot see each other's processes, must never have one data
directory open: nothing but its postmaster.pid stands against that.

A server that has not answered for 5 s is told of on stderr, or in syslog where stderr lies on a
mount, and so is its return; the program waits, as with a hard mount. MILLRACE_LOG=/PATH sends all
messages to that file, MILLRACE_LOG=1 logs more, MILLRACE_LOG=0 says nothing of servers.

Exit codes: the program's own; 2 could not run (the mount, the library or an argument; nothing was
started); 126 the program can't be executed; 127 there is no such program.";

/// An error with what the user can do about it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !args.prove.is_empty() || !args.prove_medium.is_empty() {
        return prove(&args);
    }
    prepare_and_run(&args)
}

fn prepare_and_run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = args.group.as_deref().map(group::runtime_directory).transpose()?;
    let outer = std::env::var_os(MOUNTS).unwrap_or_default();
    let media = local_medium::parse_all(&args.local_media)?;
    media.iter().try_for_each(LocalMedium::make_state)?;
    let mut lines: Vec<OsString> = Vec::new();
    let mut expected = Vec::new();
    for text in &args.mounts {
        let spec = MountSpec::parse(text.as_bytes()).with_context(|| format!("use --mount {}", text.display()))?;
        if text.as_bytes().contains(&b'\n') {
            let what = format!("use --mount {}: it has a line feed in it", text.display());
            return Err(refusal(what, "write line feeds of a URL as %0A"));
        }
        let path = PathBuf::from(OsString::from_vec(spec.local_path.clone()));
        if expected.iter().any(|(other, _): &(PathBuf, u64)| other.starts_with(&path) || path.starts_with(other)) {
            let what = format!("use --mount {}: mount paths overlap", text.display());
            return Err(refusal(what, "choose paths of which none is below another, as /db and /wal"));
        }
        if !args.force && !has_mount(&outer, &spec.local_path) {
            local_path_is_free(&path)?;
        }
        expected.push((path, check(&spec)?));
        lines.push(text.clone());
    }
    // Mounts of an exec around this one stay, so that descriptors and the working directory keep their meaning.
    let inherited = outer.as_bytes().split(|b| *b == b'\n').filter(|line| {
        MountSpec::parse(line).is_ok_and(|spec| !expected.iter().any(|(path, _)| path.as_os_str().as_bytes() == spec.local_path))
    });
    lines.extend(inherited.map(|line| OsStr::from_bytes(line).to_owned()));
    let root = runtime.as_ref().map_or_else(dnfs::mount::runtime_root, PathBuf::from);
    lines.iter().for_each(|line| warn_of_those_apart(line, &root));
    let library = readable_by_all(&find_library()?)?;
    let mounts = lines.join(OsStr::new("\n"));
    let preload = preload_list(&library);
    let keeper = std::env::current_exe().context("find this binary")?.into_os_string();
    let media_lines = local_medium::lines(&media);
    let mut environment = vec![("LD_PRELOAD", preload), (MOUNTS, mounts), (KEEPER, keeper), (local_medium::VARIABLE, media_lines)];
    environment.extend(runtime.map(|directory| (group::VARIABLE, directory)));
    handshake(&expected, &media, &environment)?;
    if args.print.is_some() {
        print_environment(&environment)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some((program, arguments)) = args.command.split_first() else { return Err(anyhow!("run a program: none is given")) };
    reachable(program)?;
    let error = Command::new(program).args(arguments).envs(environment).exec();
    Ok(not_run(program, error))
}

/// Says why a program was not run. Its hint is where PostgreSQL's packages put their programs, outside PATH.
fn not_run(program: &OsStr, error: std::io::Error) -> ExitCode {
    if error.kind() != ErrorKind::NotFound {
        let hint = if error.kind() == ErrorKind::PermissionDenied { "if it is a program, let this user run it: chmod +x FILE" } else { "" };
        print_error(&hinted(anyhow!(error).context(format!("run {}", program.display())), hint));
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let in_path = !program.as_bytes().contains(&b'/');
    let installed = program.to_str().filter(|_| in_path).and_then(lab::installed_program);
    let folder = |found: &Path| found.parent().unwrap_or(found).display().to_string();
    let hint = match installed {
        Some(found) => format!("it is in {}, which PATH lacks: run {}", folder(&found), found.display()),
        None if in_path => "check the spelling, or name the program by its whole path".to_owned(),
        None => "check the path; a program that lies on a mount cannot be run from there (docs/compat-preload.md)".to_owned(),
    };
    let why = if in_path { "not found in PATH" } else { "no such file" };
    print_error(&refusal(format!("run {}: {why}", program.display()), hint));
    ExitCode::from(NOT_FOUND)
}

/// Whether the exec around this one has a mount at this path.
fn has_mount(mounts: &OsStr, path: &[u8]) -> bool {
    mounts.as_bytes().split(|b| *b == b'\n').any(|line| MountSpec::parse(line).is_ok_and(|spec| spec.local_path == path))
}

/// Nothing of this host may be below a mount's path: a program that slipped past the library would use it.
fn local_path_is_free(path: &Path) -> anyhow::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(anyhow!(error).context(format!("look at {}", path.display()))),
        Ok(found) => found,
    };
    let empty = found.is_dir() && path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if empty {
        return Ok(());
    }
    let what = if found.is_dir() { "a directory that is not empty" } else { "not a directory" };
    Err(hinted(
        anyhow!("mount at {}: it exists on this host and is {what}", path.display()),
        "choose a path that does not exist, as /db; --force hides what is there from the program",
    ))
}

/// Mounts once: the server's refusals become one clear message before anything starts. The root's number.
fn check(spec: &MountSpec) -> anyhow::Result<u64> {
    let who = Credentials::of_process().for_url(&spec.url);
    let client = Client::mount(&spec.url, &who).with_context(|| format!("mount {}", spec.url))?;
    let root = client.getattr(&client.parts().root).with_context(|| format!("mount {}", spec.url))?;
    if rustix::process::geteuid().is_root() && spec.url.options.uid.is_none() {
        warn_of_root_squash(&spec.url, &client, &root);
    }
    Ok(root.fileid)
}

/// Says that root is refused what root may do where it is not squashed: a program's own message would not tell why.
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

fn find_library() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("MILLRACE_PRELOAD").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        return match path.canonicalize() {
            Ok(path) => Ok(path),
            Err(error) => {
                let what = anyhow!(error).context(format!("use MILLRACE_PRELOAD={}", path.display()));
                Err(hinted(what, format!("name {LIBRARY} with its whole path, or unset the variable: it is found beside the binary")))
            }
        };
    }
    let binary = std::env::current_exe().and_then(|path| path.canonicalize()).context("find this binary")?;
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/millrace").join(LIBRARY)];
    places.iter().find_map(|place| place.canonicalize().ok()).ok_or_else(|| {
        hinted(
            anyhow!("find {LIBRARY} beside {} or in ../lib/millrace", binary.display()),
            "build it with `make build`, or name it in MILLRACE_PRELOAD",
        )
    })
}

/// The library where every user can read it: a program may change its user before it runs the next.
fn readable_by_all(library: &Path) -> anyhow::Result<PathBuf> {
    // The loader splits LD_PRELOAD at these.
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

/// FNV-1a: the name of a copy says what is in it, so that an update never changes a library in use.
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

/// Says who has the same export mounted without sharing locks, sizes and what is not yet stable.
fn warn_of_those_apart(mount: &OsStr, root: &Path) {
    let Ok(spec) = MountSpec::parse(mount.as_bytes()) else { return };
    let users = dnfs::mount::mounted_apart(&spec.url, root);
    if users.is_empty() {
        return;
    }
    let users: Vec<String> = users.iter().map(|uid| format!("uid {uid}")).collect();
    let who = users.join(", ");
    eprintln!("millrace: warning: {} is mounted apart on this host by {who}: their locks and these do not exclude each other", spec.url);
    eprintln!("hint: run all of them with --group GROUP, a group that they are in; containers need one /dev/shm for that");
}

/// Our library first: it must see a call before any other that wraps it.
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

/// A child of ourselves under the library looks at each mount: it must see the root the server showed us; and at itself:
/// it must have the state of each medium.
fn handshake(expected: &[(PathBuf, u64)], media: &[LocalMedium], environment: &Environment) -> anyhow::Result<()> {
    let binary = std::env::current_exe().context("find this binary")?;
    let mut child = Command::new(&binary);
    child.arg("exec").envs(environment.iter().cloned()).stdin(Stdio::null()).current_dir("/");
    for (path, _) in expected {
        child.arg("--prove").arg(path);
    }
    for medium in media {
        child.arg("--prove-medium").arg(medium.state());
    }
    let output = child.output().with_context(|| format!("start {} to try the library", binary.display()))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    let roots = expected.iter().map(|(_, root)| format!("{root}\n"));
    let wanted: String = roots.chain(media.iter().map(|_| "true\n".to_owned())).collect();
    if output.status.success() && answer == wanted {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // The library was loaded when it says itself why it could not mount.
    if let Some((_, why)) = said.split_once("millrace: cannot mount ") {
        let mut lines = why.lines();
        let error = anyhow!("mount {}", lines.next().unwrap_or_default());
        return Err(hinted(error, lines.next().and_then(|line| line.strip_prefix("hint: ")).unwrap_or_default()));
    }
    let said = said.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let error = anyhow!("load the library {} into a child process: {said}", environment[0].1.display());
    Err(hinted(error, "is it built for this system (same C library and processor)? is its file system mounted noexec?"))
}

/// In that child: prints the number of each path's object and whether each medium is there, or says what went wrong.
fn prove(args: &Args) -> anyhow::Result<ExitCode> {
    for path in &args.prove {
        let found = std::fs::metadata(path).with_context(|| format!("reach the server through {}", path.display()))?;
        println!("{}", found.ino());
    }
    for state in &args.prove_medium {
        println!("{}", local_medium::is_mapped(state));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_environment(environment: &Environment) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    for (name, value) in environment {
        // Quoted for a shell: `eval "$(millrace exec … --print env)"` works.
        let quoted = value.to_string_lossy().replace('\'', r"'\''");
        writeln!(out, "export {name}='{quoted}'").context("print")?;
    }
    Ok(())
}

/// Refuses a program that the loader would start without the library.
fn reachable(program: &OsStr) -> anyhow::Result<()> {
    let Some(path) = locate(program) else { return Ok(()) }; // the exec itself will say so
    let Ok(found) = path.metadata() else { return Ok(()) };
    if found.mode() & 0o6000 != 0 && found.uid() != std::fs::metadata("/proc/self").map_or(0, |me| me.uid()) {
        return Err(hinted(
            anyhow!("run {} over Direct NFS: it is a set-uid program, so the loader ignores the library", path.display()),
            "run millrace as the user you want, for example: runuser -u postgres -- millrace exec …",
        ));
    }
    if is_static(&path) {
        return Err(hinted(
            anyhow!(
                "run {} over Direct NFS: it is statically linked, so the library can't be loaded into it",
                path.display()
            ),
            "use a dynamically linked build, or `millrace nfs cp` to move files",
        ));
    }
    Ok(())
}

fn locate(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Whether a file is a 64-bit ELF program without an interpreter (ELF-64: e_phoff at 32, e_phentsize at 54, e_phnum at 56).
fn is_static(path: &Path) -> bool {
    const HEADERS_BYTES_MAX: u64 = 64 * 1024;
    const PT_INTERP: [u8; 4] = 3u32.to_ne_bytes();
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(HEADERS_BYTES_MAX).read_to_end(&mut bytes));
    if read.is_err() || !bytes.starts_with(b"\x7fELF\x02") {
        return false;
    }
    let half = |at: usize| bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map(u16::from_ne_bytes);
    let start = bytes.get(32..40).and_then(|eight| eight.try_into().ok()).map(u64::from_ne_bytes);
    let (Some(start), Some(size), Some(count)) = (start, half(54), half(56)) else { return false };
    let Ok(start) = usize::try_from(start) else { return false };
    let header = |index: u16| bytes.get(start + usize::from(index) * usize::from(size)..)?.get(..4);
    start < bytes.len() && !(0..count).any(|index| header(index) == Some(&PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_program_is_not_static() {
        assert!(!is_static(Path::new("/bin/sh")));
        assert!(!is_static(Path::new("/etc/passwd")));
    }

    #[test]
    fn mounts_of_an_outer_exec_are_known_by_their_path() {
        let mounts = OsStr::new("/db=nfs://a/x\n/other=nfs://b/y");
        assert!(has_mount(mounts, b"/other"));
        assert!(!has_mount(mounts, b"/oth"));
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
