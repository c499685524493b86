//! `give-up`: ends a mount whose server is gone for good, or that is not needed any more.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use dnfs::NfsUrl;
use dnfs::mount::{KeeperProgram, MountPath, MountProcesses, MountSpec, Observer, OtherLayout, UnsavedFile, processes_of};
use serde_json::json;

use crate::cmd::runtime;
use crate::error_printing::{hinted, refusal};

/// Timeout of the request that asks the server whether it has the volume.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the keeper may take to commit, after the server has answered.
const SAVE: Duration = Duration::from_secs(30);
/// After this time a line names what the command waits for.
const QUIET: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// Files named one by one in text.
const FILES_SHOWN: usize = 20;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct GiveUp {
    /// The mount: its path, its URL or its runtime directory [default: the only mount of this user and its groups]
    #[arg(value_name = "/PATH|nfs://HOST/EXPORT|DIR")]
    mount: Option<OsString>,
    /// End it even if programs use it, and lose data that the server has not committed
    #[arg(long)]
    force: bool,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  millrace nfs give-up
  millrace nfs give-up /db
  millrace nfs give-up --json nfs://filer/vol
  millrace nfs give-up --force /db

Ends a mount of `millrace exec` or `millrace mount` on this host: its shared memory, and its keeper,
the process that commits what programs left when they ended. The server first commits everything
that programs have written. If it does not answer, the command fails after some 12 s, and names each
file with uncommitted data by its number on the server. Run it as the user of the mount.

With --force the mount ends nevertheless, and this data is lost. Programs that use the mount
continue without it: calls on open files get ESTALE, and calls that wait for the server wait until
the program ends.

The command also ends a mount of another version of millrace, whose shared memory has another
layout. Without --force, it does so only if no program uses the mount and the keeper has saved
everything.

Exit codes: 0 the mount has ended, or this user has no mount; 2 programs use it, data is not saved,
there is no such mount, or the command failed.";

/// The result of the command.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// There is no such mount.
    Nothing,
    /// The server has all data.
    Saved,
    /// Data is lost.
    Lost,
}

/// A mount of this user.
struct Found {
    directory: PathBuf,
    observer: Observer,
    /// `/db on nfs://filer/vol`, or the directory.
    name: String,
}

/// A mount that another version of Millrace made.
struct Other {
    directory: PathBuf,
    layout: OtherLayout,
    name: String,
}

pub(super) fn run(args: &GiveUp) -> anyhow::Result<()> {
    let (found, others) = find(args.mount.as_deref())?;
    if let Some(other) = others.into_iter().next() {
        return give_up_other(args, &other);
    }
    let Some(found) = found else {
        if let Some(mount) = args.mount.as_deref().map(OsStr::display) {
            let hint = format!(
                "run it as the user of the mount, and set MILLRACE_RUNTIME_DIR if the mount was made with it: runuser -u USER -- millrace nfs give-up {mount}"
            );
            return Err(refusal(format!("give up {mount}: this user has no such mount"), hint));
        }
        return report(args, None, Outcome::Nothing, &[], || "nothing to give up: this user has no mount".to_owned());
    };
    let what = || format!("give up {}", found.name);
    if !args.force && is_used(&found)? {
        return Err(in_use(&found));
    }
    let mut lost = found.observer.unsaved().map_err(dnfs::Error::from).with_context(what)?;
    if !lost.is_empty() {
        let (left, reason) = save(&found)?;
        if !left.is_empty() && !args.force {
            return Err(not_saved(&found, &left, &reason));
        }
        lost = left;
    }
    let hidden = found.observer.hidden_names();
    if !found.observer.give_up(args.force).map_err(dnfs::Error::from).with_context(what)? {
        return Err(in_use(&found));
    }
    let outcome = if lost.is_empty() { Outcome::Saved } else { Outcome::Lost };
    report(args, Some((&found.name, &found.directory)), outcome, &lost, || summary(&found, &lost, hidden))
}

/// Gives up a mount that another version of Millrace made.
fn give_up_other(args: &GiveUp, other: &Other) -> anyhow::Result<()> {
    let is_saved =
        other.layout.give_up(args.force).map_err(dnfs::Error::from).with_context(|| format!("give up {}", other.name))?;
    let (outcome, what) = match is_saved {
        true => (Outcome::Saved, "everything that programs wrote is saved"),
        false => (Outcome::Lost, "lost what the server had not committed; only the version that made it could list that"),
    };
    let text = || format!("gave up {}, made by another version of millrace: {what}", other.name);
    report(args, Some((&other.name, &other.directory)), outcome, &[], text)
}

fn is_used(found: &Found) -> anyhow::Result<bool> {
    found.observer.is_used().map_err(dnfs::Error::from).with_context(|| format!("give up {}", found.name))
}

fn in_use(found: &Found) -> anyhow::Error {
    let programs: Vec<String> =
        processes(found).programs.iter().map(|process| format!("{} {}", process.pid, process.command)).collect();
    let programs = if programs.is_empty() { "they are hidden from this user".to_owned() } else { programs.join(", ") };
    refusal(format!("give up {}: programs use it: {programs}", found.name), "end them first; --force ends the mount under them")
}

fn processes(found: &Found) -> MountProcesses {
    processes_of(std::slice::from_ref(&found.directory)).pop().unwrap_or_default()
}

/// The mount that the user named, or the only one. `None` if there is no such mount. If another version of Millrace made it, it is
/// the second.
fn find(wanted: Option<&OsStr>) -> anyhow::Result<(Option<Found>, Option<Other>)> {
    let roots = match wanted.map(Path::new).and_then(|path| path.join("segment").is_file().then(|| path.parent()).flatten()) {
        Some(root) => {
            let root = std::path::absolute(root)?;
            runtime::check(&root)?;
            vec![root]
        }
        None => runtime::searched()?,
    };
    let (mut all, mut others) = (Vec::new(), Vec::new());
    for directory in roots.iter().flat_map(|root| Observer::directories(root)) {
        if let Some(layout) = OtherLayout::at(&directory) {
            let name = names_of(&layout.paths()).into_iter().next().unwrap_or_else(|| directory.display().to_string());
            others.push(Other { directory, layout, name });
            continue;
        }
        let observer = Observer::at(&directory).map_err(|error| {
            let what = anyhow!(dnfs::Error::from(error)).context(format!("read the mount in {}", directory.display()));
            hinted(what, format!("if no program uses it: rm -r {}", directory.display()))
        });
        if let Some(observer) = observer? {
            let name = names_of(&observer.paths()).into_iter().next().unwrap_or_else(|| directory.display().to_string());
            all.push(Found { directory, observer, name });
        }
    }
    if let Some(wanted) = wanted {
        all.retain(|found| is_meant(&found.directory, &found.observer.paths(), wanted));
        others.retain(|other| is_meant(&other.directory, &other.layout.paths(), wanted));
    }
    if all.len() + others.len() > 1 {
        let each = |directory: &Path, paths: &[MountPath]| format!("{} ({})", directory.display(), names_of(paths).join(", "));
        let named = all.iter().map(|found| each(&found.directory, &found.observer.paths()));
        let named: Vec<_> = named.chain(others.iter().map(|other| each(&other.directory, &other.layout.paths()))).collect();
        let what = format!("give up a mount: {} mounts of this user may be meant", named.len());
        let hint = format!("name one by its directory: {}", named.join("; "));
        return Err(refusal(what, hint));
    }
    Ok((all.pop(), others.pop()))
}

/// `/db on nfs://filer/vol` for each path at which programs had the mount, newest first.
fn names_of(paths: &[MountPath]) -> Vec<String> {
    paths.iter().map(|path| format!("{} on {}", path.path, path.url)).collect()
}

fn is_meant(directory: &Path, paths: &[MountPath], wanted: &OsStr) -> bool {
    let text = wanted.to_string_lossy();
    let url = text.parse::<NfsUrl>().ok().map(|url| url.to_string());
    let is_directory = std::path::absolute(wanted).is_ok_and(|path| path == directory);
    let path = text.trim_end_matches('/');
    is_directory || paths.iter().any(|known| known.path == path || url.as_ref() == Some(&known.url))
}

/// The mount argument of its keeper, with all options. Without a keeper, the recorded path and URL,
/// without options.
fn mount_text(found: &Found) -> Option<Vec<u8>> {
    let of_keeper = processes(found).keepers.iter().find_map(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).skip_while(|word| *word != b"--mount");
        words.nth(1).map(<[u8]>::to_vec)
    });
    of_keeper.or_else(|| found.observer.paths().first().map(|path| format!("{}={}", path.path, path.url).into_bytes()))
}

/// If the server answers, waits until the keeper has saved everything. Returns the files with data
/// that is not saved, and the reason.
fn save(found: &Found) -> anyhow::Result<(Vec<UnsavedFile>, String)> {
    let unsaved = || found.observer.unsaved().map_err(dnfs::Error::from).with_context(|| format!("give up {}", found.name));
    let text = mount_text(found);
    let spec = text.as_deref().and_then(|text| MountSpec::parse(text).ok());
    let Some((text, spec)) = text.zip(spec) else { return Ok((unsaved()?, "its URL is not known".to_owned())) };
    eprintln!("millrace: {}: asking the server to commit what programs have written", found.name);
    if let Err(error) = found.observer.ask_server(&spec.url, ANSWER) {
        return Ok((unsaved()?, crate::error_printing::text(&anyhow!(error))));
    }
    if processes(found).keepers.is_empty() {
        let binary = std::env::current_exe().context("find this binary")?;
        let keeper = KeeperProgram::new(binary.as_os_str(), &text);
        let keeper = found.directory.parent().and_then(|runtime| keeper?.with_runtime_root(runtime));
        let _ = keeper.is_some_and(|keeper| keeper.start());
    }
    let begin = Instant::now();
    let mut is_reported = false;
    loop {
        let left = unsaved()?;
        if left.is_empty() || begin.elapsed() >= SAVE {
            return Ok((left, format!("the server answers, and did not commit it within {} s", SAVE.as_secs())));
        }
        if !is_reported && begin.elapsed() >= QUIET {
            eprintln!("millrace: {}: waiting for COMMIT of {}", found.name, files(&left));
            is_reported = true;
        }
        std::thread::sleep(LOOK);
    }
}

fn not_saved(found: &Found, left: &[UnsavedFile], reason: &str) -> anyhow::Error {
    let what = format!("give up {}: {} not saved: {reason}{}", found.name, files(left), listed(left));
    let hint = if left.iter().any(|file| file.has_error) {
        "the server refused or lost data of a file, and no program has received the error: the next fsync of the file returns it \
         (millrace exec … -- sync FILE; find EXPORT -inum NUMBER on the server's host gives its name); --force ends the mount and loses the data"
    } else {
        "start the server, or continue it if it is stopped, then try again; --force ends the mount and loses the data"
    };
    refusal(what, hint)
}

/// The number of bytes and of files.
fn files(files: &[UnsavedFile]) -> String {
    let bytes: u64 = files.iter().map(|file| file.kept_bytes).sum();
    let count = format!("{} {}", files.len(), if files.len() == 1 { "file" } else { "files" });
    if bytes == 0 { count } else { format!("{bytes} bytes of {count}") }
}

/// One line for each file.
fn listed(files: &[UnsavedFile]) -> String {
    let mut text = String::new();
    for file in files.iter().take(FILES_SHOWN) {
        text += &format!("\n  file number {} of the export: {} bytes", file.fileid, file.kept_bytes);
        if file.has_error {
            text += ", and an error that no fsync has returned";
        }
    }
    if files.len() > FILES_SHOWN {
        text += &format!("\n  and {} more", files.len() - FILES_SHOWN);
    }
    text
}

fn summary(found: &Found, lost: &[UnsavedFile], hidden: usize) -> String {
    let mut text = format!("gave up {}", found.name);
    if lost.is_empty() {
        text += ": everything that programs wrote is saved";
    } else {
        text += &format!(": lost {} that the server has not committed{}", files(lost), listed(lost));
    }
    if hidden > 0 {
        text += &format!("\n  removed files that programs had open keep a hidden name (.nfs…) on the server: {hidden}");
    }
    text
}

fn report(
    args: &GiveUp,
    found: Option<(&str, &Path)>,
    outcome: Outcome,
    lost: &[UnsavedFile],
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if !args.json {
        println!("{}", text());
        return Ok(());
    }
    let files: Vec<_> =
        lost.iter().map(|file| json!({"fileid": file.fileid, "bytes": file.kept_bytes, "has_error": file.has_error})).collect();
    let bytes: u64 = lost.iter().map(|file| file.kept_bytes).sum();
    let (name, directory) = found.map(|(name, directory)| (name, directory.display().to_string())).unzip();
    let object = json!({"outcome": outcome, "mount": name, "runtime_dir": directory, "lost": files, "lost_bytes": bytes});
    println!("{object}");
    Ok(())
}
