//! Creates the file of a benchmark and fills it. It is complete or does not exist.

use super::Progress;
use super::copy::{Writer, create};
use crate::cmd::interrupts::Interrupts;
use crate::error_printing::refusal;
use anyhow::{Context, ensure};
use dnfs::{Client, Error, FileHandle, NfsUrl};
use results::sizes::{about_text, size_text};

/// Printed at the first signal.
const INTERRUPTED: &str = "interrupted: removing the incomplete file; a second signal ends the program at once";
/// Bytes that are written at a time.
const CHUNK_BYTES: u32 = 4 << 20;

/// Creates a file of this size in a directory, and fills it. Removes it after an error and after a signal.
pub(super) fn filled(client: &Client, url: &NfsUrl, (dir, name): (&FileHandle, &[u8]), size: u64) -> anyhow::Result<FileHandle> {
    check_space(client, url, dir, size)?;
    let interrupts = Interrupts::watch_in_thread(INTERRUPTED).context("start a thread")?;
    let file = create(client, dir, name, Some(0o644)).with_context(|| format!("create {url}"))?;
    let filled = fill(client, &file, size, &interrupts).and_then(|()| Ok(interrupts.end_at_once()?));
    if filled.is_err() {
        let _ = client.remove(dir, name);
    }
    filled.map(|()| file).with_context(|| format!("create {url}"))
}

/// Refuses a file that is larger than the free space of the server. A server need not know its free space.
fn check_space(client: &Client, url: &NfsUrl, dir: &FileHandle, size: u64) -> anyhow::Result<()> {
    let free = match client.fsstat(dir) {
        Ok(space) => space.available_bytes,
        Err(Error::Fs(_)) => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("create {url}")),
    };
    if size <= free {
        return Ok(());
    }
    let what = format!("create {url} with {}: the server has {} free", size_text(size), about_text(free));
    Err(refusal(what, "choose a smaller --size, or free space on the server"))
}

fn fill(client: &Client, file: &FileHandle, size: u64, interrupts: &Interrupts) -> anyhow::Result<()> {
    let mut writer = Writer::new(client, file);
    let mut progress = Progress::new();
    // The data is not zeros, which a server or a network could shorten.
    let chunk: Vec<u8> = (0..CHUNK_BYTES).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    while writer.offset < size {
        interrupts.check()?;
        let bytes = (size - writer.offset).min(chunk.len() as u64) as usize;
        writer.write(chunk.get(..bytes).unwrap_or_default())?;
        progress.show(|| format!("filling: {} of {} MiB", writer.offset >> 20, size >> 20));
    }
    ensure!(writer.commit()?, "the server lost data that was written");
    Ok(())
}
