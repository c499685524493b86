//! `ls` and `stat`.

use super::target::Target;
use crate::closed_output::TO_STDOUT;
use anyhow::{Context, ensure};
use dnfs::file::{DirectoryPosition, FileTime};
use dnfs::{Attributes, Client, FileHandle, FileKind};
use serde::Serialize;
use std::io::Write;
use std::sync::atomic::AtomicU32;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

/// The largest number of names of one directory. All of them are in memory, because a listing is sorted.
const NAMES_MAX: usize = 10_000_000;

#[derive(clap::Args)]
pub(super) struct Ls {
    /// URL of a directory or file
    url: String,
    /// Also show mode, links, owner, size and time of the last change (UTC)
    #[arg(short)]
    long: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(super) struct Stat {
    /// URL of a file or directory
    url: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    kind: &'static str,
    mode: String,
    nlink: u32,
    uid: u32,
    gid: u32,
    size: u64,
    used: u64,
    fileid: u64,
    atime: f64,
    mtime: f64,
    ctime: f64,
}

pub(super) fn ls(args: &Ls) -> anyhow::Result<()> {
    let target = Target::find(&args.url)?;
    let (handle, attributes) = target.existing()?;
    let mut items = Vec::new();
    if attributes.kind == FileKind::Directory {
        read_directory(&target.client, &handle, &mut items).with_context(|| format!("list {}", target.url))?;
        items.sort_by(|a, b| a.0.cmp(&b.0));
    } else {
        items.push((target.place.as_ref().map(|place| place.1.clone()).unwrap_or_default(), Some(attributes)));
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (name, attributes) in &items {
        let name = String::from_utf8_lossy(name);
        let line = match attributes {
            Some(attributes) if args.json => serde_json::to_string(&describe(&name, attributes))?,
            None if args.json => serde_json::to_string(&serde_json::json!({ "name": name }))?,
            Some(attributes) if args.long => long_line(&name, attributes),
            _ => name.into_owned(),
        };
        writeln!(out, "{line}").context(TO_STDOUT)?;
    }
    out.flush().context(TO_STDOUT)
}

pub(super) fn stat(args: &Stat) -> anyhow::Result<()> {
    let target = Target::find(&args.url)?;
    let (handle, attributes) = target.existing()?;
    let name = target.url.export_path.clone();
    let described = describe(&name, &attributes);
    if args.json {
        println!("{}", serde_json::to_string(&described)?);
        return Ok(());
    }
    println!("    path: {}", described.name);
    println!("    kind: {}   mode: {}   links: {}", described.kind, described.mode, described.nlink);
    println!("     uid: {}   gid: {}", described.uid, described.gid);
    println!("    size: {}   used: {}", described.size, described.used);
    println!("    file: {} on {:#x}", described.fileid, attributes.fsid);
    for (name, time) in [("mtime", attributes.mtime), ("ctime", attributes.ctime), ("atime", attributes.atime)] {
        println!("{name:>8}: {}", full_iso(time));
    }
    println!("  handle: {handle:?}");
    Ok(())
}

type Item = (Vec<u8>, Option<Attributes>);

fn read_directory(client: &Client, dir: &FileHandle, items: &mut Vec<Item>) -> anyhow::Result<()> {
    let refused = AtomicU32::new(0);
    let mut position = Some(DirectoryPosition::default());
    while let Some(from) = position {
        position = client.list(dir, from, &refused, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                items.push((entry.name.to_vec(), entry.attributes));
            }
            items.len() <= NAMES_MAX
        })?;
        ensure!(items.len() <= NAMES_MAX, "the directory has more than {NAMES_MAX} names");
    }
    Ok(())
}

fn describe<'a>(name: &'a str, attributes: &Attributes) -> Described<'a> {
    let seconds = |time: FileTime| time.seconds as f64 + f64::from(time.nanoseconds) / 1e9;
    Described {
        name,
        kind: match attributes.kind {
            FileKind::Regular => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "symlink",
            FileKind::Block => "block",
            FileKind::Character => "character",
            FileKind::Socket => "socket",
            FileKind::Fifo => "fifo",
        },
        mode: format!("{:04o}", attributes.mode & 0o7777),
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size,
        used: attributes.used,
        fileid: attributes.fileid,
        atime: seconds(attributes.atime),
        mtime: seconds(attributes.mtime),
        ctime: seconds(attributes.ctime),
    }
}

fn long_line(name: &str, attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Block => 'b',
        FileKind::Character => 'c',
        FileKind::Socket => 's',
        FileKind::Fifo => 'p',
    };
    let bits = attributes.mode;
    let rwx: String = (0..9).map(|bit| if bits & (0o400 >> bit) != 0 { ['r', 'w', 'x'][bit % 3] } else { '-' }).collect();
    let Attributes { nlink, uid, gid, size, mtime, .. } = attributes;
    format!("{kind}{rwx} {nlink:>3} {uid:>6} {gid:>6} {size:>14} {} {name}", long_iso(*mtime))
}

/// As `ls --time-style=long-iso`, in UTC: `2026-11-23 14:56`.
fn long_iso(time: FileTime) -> String {
    format_time(time, format_description!("[year]-[month]-[day] [hour]:[minute]"))
}

/// As `stat` of coreutils, in UTC: `2026-11-23 14:56:15.000000007 +0000`.
fn full_iso(time: FileTime) -> String {
    format_time(time, format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:9] +0000"))
}

fn format_time(time: FileTime, format: &[BorrowedFormatItem<'_>]) -> String {
    let nanoseconds = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let text = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok().and_then(|time| time.format(format).ok());
    // Only a time after the year 9999 cannot be formatted.
    text.unwrap_or_else(|| time.seconds.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        let time = FileTime { seconds: 1_795_445_775, nanoseconds: 7 };
        assert_eq!(long_iso(time), "2026-11-23 14:56");
        assert_eq!(full_iso(time), "2026-11-23 14:56:15.000000007 +0000");
    }
}
