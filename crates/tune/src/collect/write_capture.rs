//! Writes a capture: a folder or a tar archive, which may be compressed by gzip. Secrets were
//! removed before (`redact`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::archive;
use super::collected::{Collected, LISTING, WRITABLE};
use super::command_line::slug;
use super::manifest::{EXIT_ABSENT, VERSION};
use super::redact::redacted;
use super::running_text;

/// Writes a capture. If the name ends with `.tar.gz`, `.tgz` or `.tar`, it is an archive; otherwise
/// a new folder.
///
/// Only its owner can read it. No existing file is overwritten, and a capture that cannot be completed is removed.
///
/// # Errors
/// The path already exists, or a write failed.
pub(super) fn write(path: &Path, collected: &Collected) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("capture");
    let archive = [".tar.gz", ".tgz", ".tar"].iter().find_map(|end| name.strip_suffix(end).map(|stem| (stem, *end)));
    let entries = entries(collected);
    match archive {
        None => {
            fs::DirBuilder::new().mode(0o700).create(path)?;
            folder(path, &entries).inspect_err(|_| drop(fs::remove_dir_all(path)))
        }
        Some((stem, end)) => {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            packed(file, stem, end, entries).inspect_err(|_| drop(fs::remove_file(path)))
        }
    }
}

fn packed(file: File, stem: &str, end: &str, entries: Vec<(String, String)>) -> io::Result<()> {
    let stem = if stem.is_empty() { "capture" } else { stem };
    let file = if end == ".tar" {
        let mut to = io::BufWriter::new(file);
        pack(&mut to, stem, entries)?;
        to.into_inner().map_err(io::IntoInnerError::into_error)?
    } else {
        let mut to = GzEncoder::new(io::BufWriter::new(file), Compression::default());
        pack(&mut to, stem, entries)?;
        to.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?
    };
    file.sync_all()
}

fn pack(to: &mut impl Write, stem: &str, entries: Vec<(String, String)>) -> io::Result<()> {
    let files: Vec<(String, String)> = entries.into_iter().map(|(path, text)| (format!("{stem}/{path}"), text)).collect();
    archive::write(to, &files)
}

fn folder(path: &Path, entries: &[(String, String)]) -> io::Result<()> {
    for (name, text) in entries {
        let at = path.join(name);
        if let Some(parent) = at.parent() {
            fs::create_dir_all(parent)?;
        }
        File::create_new(at)?.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// All files of the capture. The MANIFEST is the first one.
fn entries(collected: &Collected) -> Vec<(String, String)> {
    let user = match collected.root {
        Some(true) => "root".to_owned(),
        _ => std::env::var("USER")
            .ok()
            .filter(|user| !user.is_empty() && !user.contains(char::is_whitespace))
            .unwrap_or_else(|| "user".to_owned()),
    };
    let host = if collected.host.is_empty() { "unknown" } else { &collected.host };
    let mut manifest = format!("millrace-capture {VERSION}\nhost {host}\nsystem {}\ntime {}\n", collected.system, collected.time);
    let mut entries = Vec::new();
    let mut line = |path: &str, exit: i32, what: &str| manifest.push_str(&format!("entry {path}\t{exit}\t{user}\t{what}\n"));
    let mut names = std::collections::BTreeSet::new();
    for output in &collected.commands {
        let line_of = redacted("", &output.line).replace(['\t', '\n'], " ");
        let mut path = format!("commands/{}.txt", slug(&line_of));
        let mut copy = 2;
        while !names.insert(path.clone()) {
            path = format!("commands/{}-{copy}.txt", slug(&line_of));
            copy += 1;
        }
        line(&path, output.exit.unwrap_or(0), &line_of);
        entries.push((path, output.text.clone()));
    }
    for (file, text) in &collected.files {
        let path = format!("files{file}");
        line(&path, 0, file);
        entries.push((path, text.clone()));
    }
    for (folder, names) in &collected.folders {
        let command = format!("{LISTING} {folder}/");
        let path = format!("commands/{}.txt", slug(&command));
        line(&path, 0, &command);
        entries.push((path, names.iter().map(|name| format!("{name}\n")).collect()));
    }
    if !collected.writable.is_empty() {
        let path = format!("commands/{}.txt", slug(WRITABLE));
        line(&path, 0, WRITABLE);
        entries.push((path, collected.writable.iter().map(|file| format!("{file}\n")).collect()));
    }
    for (command, text) in collected.running.iter().map(running_text::written) {
        let path = format!("commands/{}.txt", slug(&command));
        line(&path, 0, &command);
        entries.push((path, text));
    }
    for path in &collected.absent {
        line(&format!("files{path}"), EXIT_ABSENT, path);
    }
    // Files and commands that could not be read or run are listed with the exit codes of a shell:
    // 126 for not permitted, 127 for not found. The text of the entry is the reason.
    let had = |name: &str| collected.files.contains_key(name) || collected.commands.iter().any(|output| output.line == name);
    for (name, reason) in collected.denied.iter().filter(|(name, _)| !had(name)) {
        let exit = if reason.contains("no such command") { 127 } else { 126 };
        let path = if name.starts_with('/') { format!("files{name}") } else { format!("commands/{}.txt", slug(name)) };
        line(&path, exit, name);
        entries.push((path, redacted("", &format!("{reason}\n"))));
    }
    if let Some(site) = &collected.site {
        entries.push(("site.toml".to_owned(), redacted("site.toml", site)));
    }
    entries.insert(0, ("MANIFEST".to_owned(), manifest));
    entries
}
