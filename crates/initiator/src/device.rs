//! A LUN and its paths.

use crate::command::{Command, Completion, Failure};
use crate::error::Error;
use crate::identity::{Geometry, Identity};
use crate::naming;
use crate::options::Options;
use crate::path::Path;
use crate::path_report::{PathReport, PathState};
use crate::retention::Retention;
use crate::url::IscsiUrl;
use crate::work::{Origin, Submitted, Work};
use std::time::{Duration, Instant};

/// How long the device waits for the other paths once the first path is up.
const OTHERS: Duration = Duration::from_secs(1);

/// A LUN over one or several portals. One thread owns it; nothing happens outside of [`Device::turn`].
pub struct Device {
    pub(crate) url: IscsiUrl,
    pub(crate) options: Options,
    pub(crate) paths: Vec<Path>,
    pub(crate) work: Work,
    pub(crate) identity: Identity,
    pub(crate) geometry: Geometry,
    /// Since when there is no path. `None` while there is one.
    pub(crate) without_path: Option<Instant>,
    last_number: u64,
    under_way: usize,
}

impl Device {
    /// Logs in over each portal of the URL, and waits until one leads to the LUN and the others do or have failed.
    ///
    /// # Errors
    /// The error of the first portal if no portal leads to the LUN. [`Error::OtherLun`] if one leads to another LUN.
    pub fn open(url: &IscsiUrl, options: Options) -> Result<Self, Error> {
        if url.target.is_none() {
            return Err(Error::NoLun { url: url.to_string() });
        }
        let now = Instant::now();
        let mut device = Self::without_paths(url, options, now)?;
        device.wait_for_paths(now)?;
        Ok(device)
    }

    fn without_paths(url: &IscsiUrl, options: Options, now: Instant) -> Result<Self, Error> {
        let isid = naming::isids(options.of_use.as_deref());
        let has_former = options.of_use.is_some();
        let paths = (0_u8..).zip(&url.portals);
        let paths = paths
            .map(|(number, (host, port))| Path::new(url, isid(number), has_former, (host, *port), now))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            url: url.clone(),
            work: Work {
                write_cache: true,
                block_bytes: 512,
                retention: Retention::new(options.retained_bytes_max),
                ..Work::default()
            },
            options,
            paths,
            identity: Identity::default(),
            geometry: Geometry::default(),
            without_path: Some(now),
            last_number: 0,
            under_way: 0,
        })
    }

    fn wait_for_paths(&mut self, began: Instant) -> Result<(), Error> {
        let mut first_up = None;
        loop {
            let now = Instant::now();
            self.turn(Some(Duration::from_millis(50)), None)?;
            if self.paths.iter().any(|path| path.state == PathState::Up) {
                let since = *first_up.get_or_insert(now);
                let settled = |path: &Path| path.state == PathState::Up || path.failures > 0;
                if self.paths.iter().all(settled) || now >= since + OTHERS {
                    return Ok(());
                }
            }
            let is_over = now >= began + self.options.login_timeout.saturating_mul(2);
            if first_up.is_none() && (self.paths.iter().all(|path| path.has_given_up()) || is_over) {
                let error = self.paths.iter_mut().find_map(|path| path.last_error.take());
                let seconds = (now - began).as_secs();
                return Err(error.unwrap_or_else(|| Error::Silent { portal: self.url.portals_text(), seconds }));
            }
        }
    }

    /// The identity of the LUN.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its sizes. They may change while it is in use, when it is resized.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The paths, in the order of the URL.
    #[must_use]
    pub fn paths(&self) -> Vec<PathReport> {
        self.paths.iter().map(Path::report).collect()
    }

    /// Queues a command. The [`Completion`] has its `tag`, and comes at the latest shortly after
    /// [`Options::replacement_timeout`].
    pub fn submit(&mut self, tag: u64, command: Command) {
        let now = Instant::now();
        self.under_way += 1;
        let submitted = self.numbered(tag, command, Origin::Caller, now);
        if self.work.is_lost {
            self.work.finish(submitted, Err(Failure::Lost));
        } else if self.fits(&submitted.command) {
            self.work.queue.push_back(submitted);
        } else {
            self.work.finish(submitted, Err(Failure::Invalid));
        }
    }

    pub(crate) fn numbered(&mut self, tag: u64, command: Command, origin: Origin, now: Instant) -> Submitted {
        self.last_number += 1;
        let (number, covers) = (self.last_number, self.work.changes);
        Submitted { number, origin, tag, command, attempts: 0, covers, submitted: now, sent: now }
    }

    fn fits(&self, command: &Command) -> bool {
        let (offset, bytes) = command.range();
        let block = u64::from(self.geometry.block_bytes);
        let end = offset.checked_add(bytes);
        let limit = match command {
            Command::Flush => return true,
            Command::Read { .. } | Command::Write { .. } => self.geometry.transfer_bytes_max.into(),
            Command::Unmap { .. } if self.geometry.can_unmap => self.geometry.unmap_bytes_max,
            Command::Unmap { .. } => 0,
            Command::WriteZeroes { .. } => self.geometry.write_same_bytes_max,
        };
        let whole = offset % block == 0 && bytes % block == 0;
        bytes > 0 && bytes <= limit && whole && end.is_some_and(|end| end <= self.geometry.bytes())
    }

    /// The next command that ended.
    pub fn completed(&mut self) -> Option<Completion> {
        let completion = self.work.done.pop_front()?;
        self.under_way -= 1;
        Some(completion)
    }

    /// Whether a command has ended and was not fetched.
    #[must_use]
    pub fn has_completed(&self) -> bool {
        !self.work.done.is_empty()
    }

    /// Commands submitted and not fetched by [`Device::completed`].
    #[must_use]
    pub const fn under_way(&self) -> usize {
        self.under_way
    }

    /// Takes what a path learned about its LUN. The first path defines which LUN it is. Later ones must lead to the same LUN.
    pub(crate) fn learn(&mut self, number: usize) -> Result<(), Error> {
        let Some(probe) = self.paths.get_mut(number).and_then(|path| path.learned.take()) else { return Ok(()) };
        let is_known = !self.identity.designator.is_empty();
        if is_known && probe.identity.designator != self.identity.designator {
            let portal = self.paths.get(number).map(|path| path.report().portal).unwrap_or_default();
            let (found, expected) = (probe.identity.to_string(), self.identity.to_string());
            return Err(Error::OtherLun { portal, found, expected });
        }
        if let Some(epoch) = probe.loss_epoch {
            self.work.note_epoch(epoch);
        }
        (self.identity, self.geometry) = (probe.identity, probe.geometry);
        (self.work.write_cache, self.work.block_bytes) = (self.geometry.write_cache, self.geometry.block_bytes);
        Ok(())
    }

    /// Ends the sessions. Commands under way are given up.
    pub fn close(mut self) {
        self.paths.iter_mut().for_each(Path::log_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_portals_of_different_luns_are_no_paths_of_one() {
        let url: IscsiUrl = "iscsi://127.0.0.1,127.0.0.2/iqn.2026-11.test/0".parse().unwrap();
        let mut device = Device::without_paths(&url, Options::for_portals(2), Instant::now()).unwrap();
        let mut learn = |path: usize, designator: &str| {
            let mut probe = crate::probe::Probe::new();
            probe.identity.designator = designator.to_owned();
            device.paths[path].learned = Some(probe);
            device.learn(path)
        };
        assert!(learn(0, "naa.6001").is_ok());
        assert!(learn(1, "naa.6001").is_ok());
        assert!(matches!(learn(1, "naa.6002"), Err(Error::OtherLun { found, .. }) if found.contains("naa.6002")));
    }
}
