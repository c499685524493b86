//! Counters as text.

use std::fmt;

use results::sizes::about_text;

use super::gather::{CallReport, MountReport, ProcessReport, SlotReport, State, UnsavedReport};

/// Processes named one by one.
const PROCESSES_SHOWN: usize = 8;
/// Files named one by one.
const FILES_SHOWN: usize = 8;

impl fmt::Display for MountReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.seconds.map_or_else(|| "so far".to_owned(), |seconds| format!("in {seconds:.1} s"));
        match self.paths.split_first() {
            Some((newest, others)) => {
                writeln!(f, "{} on {} ({}), {span}", newest.path, newest.url, self.runtime_dir.display())?;
                for other in others {
                    writeln!(f, "  also at {} on {}", other.path, other.url)?;
                }
            }
            None => writeln!(f, "{} {span}", self.runtime_dir.display())?,
        }
        self.write_users(f)?;
        self.unsaved.iter().try_for_each(|unsaved| write!(f, "{unsaved}"))?;
        for call in &self.calls_in_progress {
            writeln!(f, "  {call}")?;
        }
        for stray in &self.strays {
            writeln!(f, "  on no server: {} (made by a program of root that the library does not reach)", stray.display())?;
        }
        self.write_counts(f)
    }
}

impl MountReport {
    fn write_users(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = match (self.state, self.processes.len()) {
            (State::InUse, 0) if self.keeper.is_none() => "by processes that this user may not see".to_owned(),
            (State::InUse, 0) => {
                "by no program any more; if the server is gone for good, `millrace nfs give-up --force` ends it".to_owned()
            }
            (State::InUse, _) => format!("by {}", named(&self.processes)),
            (State::Unsaved, _) => "by no program".to_owned(),
            (State::Dead, _) => "by no program, and it keeps no data: --remove-dead removes it".to_owned(),
        };
        let keeper = self.keeper.map_or_else(String::new, |pid| format!("; keeper {pid}"));
        writeln!(f, "  used {users}{keeper}")
    }

    fn write_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, operations) in [("reads", &self.reads), ("writes", &self.writes), ("commits", &self.commits)] {
            write!(f, "  {name}: {} calls, {:.1} MiB", operations.calls, operations.bytes as f64 / f64::from(1 << 20))?;
            if let (Some(mean), Some(p50), Some(p99)) = (operations.mean_us, operations.p50_us, operations.p99_us) {
                write!(f, ", mean {mean:.0} us, p50 {p50:.0} us, p99 {p99:.0} us")?;
            }
            for (bytes, count) in &operations.sizes {
                write!(f, "; {count} of <= {bytes} B")?;
            }
            writeln!(f)?;
        }
        let (kept, limit) = (about_text(self.retained_bytes), about_text(self.retained_bytes_max));
        writeln!(f, "  kept until COMMIT: {kept} of {limit}")?;
        if let Some(mean) = self.in_progress_mean {
            writeln!(f, "  in progress: {mean:.2} on average")?;
        }
        if let Some(slots) = &self.slots {
            writeln!(f, "  {slots}")?;
        }
        if self.writer_waits > 0 {
            let mean = self.writer_wait_us / self.writer_waits as f64;
            writeln!(f, "  writers: {} waits for the one writer of a file, {mean:.0} us each", self.writer_waits)?;
        }
        Ok(())
    }
}

impl fmt::Display for UnsavedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.uncommitted_files > 0 {
            writeln!(
                f,
                "  not committed: {} bytes of {}; the keeper of the next program on this mount commits them (millrace exec … -- true)",
                self.uncommitted_bytes,
                counted(self.uncommitted_files, "file")
            )?;
        }
        if !self.lost_files.is_empty() {
            let shown: Vec<_> = self.lost_files.iter().take(FILES_SHOWN).map(u64::to_string).collect();
            let more = self.lost_files.len().saturating_sub(FILES_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            writeln!(
                f,
                "  lost: written data of file number {}{more}: the server refused or lost it, and no program has \
                 received the error; the next fsync of the file returns it (millrace exec … -- sync FILE)",
                shown.join(", ")
            )?;
        }
        if self.hidden_names > 0 {
            let names = counted(self.hidden_names, "hidden name");
            writeln!(f, "  {names} of removed files (.nfs… on the server); the keeper of the next program removes them")?;
        }
        Ok(())
    }
}

/// `1 file`, `2 files`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl fmt::Display for SlotReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slots: {} at most, ", self.limit)?;
        if let Some(mean) = self.in_use_mean {
            write!(f, "{mean:.2} in use on average, ")?;
        }
        write!(f, "{} at once, {} waits, {:.0} us each", self.most, self.waits, self.wait_us_mean)
    }
}

impl fmt::Display for CallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { procedure, pid, seconds, since } = self;
        write!(f, "in progress: {procedure} of process {pid} for {seconds:.1} s, since {since}")
    }
}

/// `2 processes: 811 postgres, 815 postgres`.
fn named(processes: &[ProcessReport]) -> String {
    let shown: Vec<String> =
        processes.iter().take(PROCESSES_SHOWN).map(|process| format!("{} {}", process.pid, process.command)).collect();
    let more = processes.len().saturating_sub(PROCESSES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if processes.len() == 1 { "process" } else { "processes" };
    format!("{} {noun}: {}{more}", processes.len(), shown.join(", "))
}
