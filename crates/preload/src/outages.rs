//! Messages about servers: when they stop and start answering or exporting a volume, which mounts
//! wait, which calls stay unanswered, and why this process cannot reach a server.

use crate::messages::report_server;
use crate::mounts;
use crate::raw;
use dnfs::{Event, FileHandle, UnansweredCall};
use std::fmt::{Display, Formatter};
use std::net::SocketAddr;

/// Reports one event. The caller may be inside a call to the server and hold locks, so this allocates nothing and never waits.
pub(crate) fn report(event: Event) {
    let now_s = raw::realtime_s();
    match event {
        Event::NotResponding { server, cause, silent } => {
            let since = Utc { seconds: now_s.saturating_sub(silent.as_secs()) };
            report_server(format_args!("server {server}{} {cause}; waiting since {since}", MountsOf { server }));
        }
        Event::Responding { server, away } => {
            let (now, away_s) = (Utc { seconds: now_s }, away.as_secs());
            report_server(format_args!("server {server}{} answers again at {now}, after {away_s} s", MountsOf { server }));
        }
        Event::Unanswered { server, call, renewed } => {
            let UnansweredCall { file, offset, age, .. } = call;
            let (procedure, of, at) = (call.procedure(), Object { server, file }, At { offset });
            let next = if renewed { "sending it again under another xid" } else { "waiting" };
            report_server(format_args!(
                "server {server}{} answers others, but has left {procedure}{of}{at} unanswered for {} s; {next}",
                MountsOf { server },
                age.as_secs()
            ));
        }
        Event::Denied { server, denial } => report_server(format_args!(
            "no connection to server {server}{}: {denial}; calls fail with EIO; `millrace mount` needs no sockets in the program",
            MountsOf { server }
        )),
        Event::ExportGone { server, export, waited } => {
            let since = Utc { seconds: now_s.saturating_sub(waited.as_secs()) };
            report_server(format_args!(
                "server {server}{}: the server no longer exports {export}; waiting since {since}",
                MountsOf { server }
            ));
        }
        Event::ExportBack { server, export, away } => {
            let (now, away_s) = (Utc { seconds: now_s }, away.as_secs());
            report_server(format_args!(
                "server {server}{}: the server exports {export} again at {now}, after {away_s} s",
                MountsOf { server }
            ));
        }
        Event::DirectoryRemoved { server, export } => {
            report_server(format_args!("server {server}{}: {export} was removed; calls fail with ESTALE", MountsOf { server }));
        }
        Event::VolumeReplaced { server, export } => report_server(format_args!(
            "server {server}{}: the server exports another volume as {export}; open files of the old one fail with ESTALE, \
             and data that was not committed there is lost",
            MountsOf { server }
        )),
        Event::OtherVersionEnds { found } => report_server(format_args!(
            "waiting until another version of millrace (layout {found}) has saved what programs wrote"
        )),
        Event::NothingKept => report_server(format_args!(
            "warning: no space left in {}: written data is not kept until COMMIT, so a power cut of the server loses it, and fsync fails \
             then. Enlarge it (docker and podman: --shm-size), stop all programs of the mount, and start them again",
            Text(mounts::root().unwrap_or_default())
        )),
    }
}

/// The paths of the mounts that this server serves, or that this thread attaches: ` (mount /db)`; empty if there are no such paths.
struct MountsOf {
    server: SocketAddr,
}

impl Display for MountsOf {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let is_of_it = |mounted: &&mounts::Mounted| {
            mounted.is_attaching() || mounted.attached().is_some_and(|mount| mount.client().server() == self.server)
        };
        let mut before = " (mount ";
        for mounted in mounts::all().filter(is_of_it) {
            f.write_str(before)?;
            mounted.local_path().utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))?;
            before = ", ";
        }
        f.write_str(if before == ", " { ")" } else { "" })
    }
}

/// The object of a call: ` of inode 7` if the mount knows the inode, ` of the root`, or the handle.
struct Object {
    server: SocketAddr,
    file: Option<FileHandle>,
}

impl Display for Object {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Some(handle) = self.file else { return Ok(()) };
        let of_server = || {
            let attached = mounts::all().filter_map(mounts::Mounted::attached);
            attached.filter(|mount| mount.client().server() == self.server)
        };
        if of_server().any(|mount| mount.client().parts().root == handle) {
            return f.write_str(" of the root");
        }
        match of_server().find_map(|mount| mount.known_fileid(&handle)) {
            Some(fileid) => write!(f, " of inode {fileid}"),
            None => write!(f, " of handle {handle:?}"),
        }
    }
}

/// The offset of a call, as ` at offset 8192`; empty for a call without an offset.
struct At {
    offset: Option<u64>,
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.offset.map_or(Ok(()), |offset| write!(f, " at offset {offset}"))
    }
}

/// A path, shown without bytes that are not UTF-8.
struct Text(&'static [u8]);

impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}

/// Seconds since 1970, shown as in RFC 3339: `2026-01-31T08:05:09Z`.
struct Utc {
    seconds: u64,
}

impl Display for Utc {
    /// The calendar repeats after 400 years, which are 146,097 days. Years begin in March, so that
    /// a leap day is a year's last.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        const DAYS_OF_400_YEARS: u64 = 146_097;
        // Days from 1 March of the year 0 to 1 January 1970.
        let days = self.seconds / 86_400 + 719_468;
        let (period, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // From March, five months have 153 days: 31, 30, 31, 30, 31.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = 400 * period + year + month / 10;
        let month = (month + 2) % 12 + 1;
        let (hours, minutes, seconds) = (self.seconds / 3600 % 24, self.seconds / 60 % 60, self.seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_in_utc() {
        // Shown as `date -u -d @N +%FT%TZ` prints it.
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (1_798_761_600, "2027-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Utc { seconds }.to_string(), shown);
        }
    }
}
