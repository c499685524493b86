//! The thread that owns the device and answers the kernel.

use super::channel::{Channel, Received};
use super::error::AttachError;
use super::file_system::start_unmount;
use super::pending::{self, Answer, Begun, Pending, Progress};
use super::protocol::{self, LUN, Operation, ROOT, Shape};
use super::{BACKGROUND_MAX, FILE, REQUEST_BYTES_MAX, REQUESTS_MAX};
use crate::command::{Command, Failure};
use crate::device::Device;
use crate::identity::Geometry;
use fnv::FnvHashMap;
use rustix::io::Errno;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest wait between two checks whether to report, and whether to stop.
const TURN: Duration = Duration::from_millis(200);
/// Time between two reports.
const REPORT: Duration = Duration::from_secs(1);
/// How long requests in progress, and then a flush, may take after [`Stop::stop`].
const STOP: Duration = Duration::from_secs(10);

/// A LUN that is served to the kernel as a file.
pub struct Server {
    device: Device,
    channel: Channel,
    directory: PathBuf,
    stop: Stop,
    pending: FnvHashMap<u64, Pending>,
    last: u64,
    activity: Activity,
    unmounted: bool,
}

/// Stops a [`Server`], from any thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

/// The progress of the end.
#[derive(Default)]
struct End {
    limit: Option<Instant>,
    unmounting: Option<Child>,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Reads, writes, flushes and discards of the kernel that were answered.
    pub requests: u64,
    /// Number of `requests` that failed.
    pub failed: u64,
    /// Maximum number of commands in progress together.
    pub commands_under_way_max: usize,
}

impl Stop {
    /// Stops the server within a moment: requests in progress are completed and flushed, the file system is unmounted if no
    /// program has the file open, and the sessions end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Server {
    /// Mounts the file system at a directory. Requests wait until [`Server::run`].
    ///
    /// # Errors
    /// [`AttachError::Fuse`]; [`AttachError::Program`] and [`AttachError::Failed`] of mount(8).
    pub fn mount(device: Device, directory: &Path) -> Result<Self, AttachError> {
        let channel = Channel::mount(directory, &device.url.to_string())?;
        let (directory, pending) = (directory.to_owned(), FnvHashMap::default());
        let (stop, activity) = (Stop::default(), Activity::default());
        Ok(Self { device, channel, directory, stop, pending, last: 0, activity, unmounted: false })
    }

    /// The LUN.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Returns what stops [`Server::run`].
    #[must_use]
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Answers the kernel until the server is stopped, or the file system unmounted. Calls `report` about once a
    /// second.
    ///
    /// # Errors
    /// [`AttachError::Device`]: nothing more may be sent, and requests fail from then on. [`AttachError::Fuse`].
    /// [`AttachError::Unflushed`].
    pub fn run(mut self, mut report: impl FnMut(&Device, Activity)) -> Result<(), AttachError> {
        let served = self.serve(&mut report);
        // Requests whose commands have not ended get an error.
        let left: Vec<Pending> = self.pending.drain().map(|(_, pending)| pending).collect();
        left.into_iter().for_each(|pending| self.answer(&pending.give_up()));
        let flushed = served.and_then(|()| self.flush());
        report(&self.device, self.activity);
        self.device.close();
        flushed
    }

    fn serve(&mut self, report: &mut impl FnMut(&Device, Activity)) -> Result<(), AttachError> {
        let mut end = End::default();
        let mut reported = Instant::now();
        loop {
            self.receive()?;
            self.take_completed();
            if (self.unmounted || self.stop.0.load(Ordering::Acquire)) && self.is_ended(&mut end) {
                return Ok(());
            }
            let wake = (self.pending.len() < REQUESTS_MAX && !self.unmounted).then(|| self.channel.as_fd());
            self.device.turn(Some(TURN), wake)?;
            if reported.elapsed() >= REPORT {
                reported = Instant::now();
                report(&self.device, self.activity);
            }
        }
    }

    /// Whether nothing is left to do after the stop, or the time is over. Requests in progress end first, then the file system is
    /// unmounted. If the file is still open, it stays mounted, and requests fail once this process has ended. A process or loop
    /// device that has the file open must close it first.
    fn is_ended(&self, end: &mut End) -> bool {
        let is_late = Instant::now() >= *end.limit.get_or_insert(Instant::now() + STOP);
        if !self.pending.is_empty() || self.unmounted || is_late {
            return self.pending.is_empty() && self.unmounted || is_late;
        }
        match &mut end.unmounting {
            // A process of its own unmounts: it makes the kernel send requests, which this process
            // must answer.
            unmounting @ None => match start_unmount(&self.directory) {
                Ok(child) => {
                    *unmounting = Some(child);
                    false
                }
                Err(_) => true,
            },
            Some(child) => !matches!(child.try_wait(), Ok(None)),
        }
    }

    /// Reads requests of the kernel, as long as more may be in progress.
    fn receive(&mut self) -> Result<(), AttachError> {
        while self.pending.len() < REQUESTS_MAX && !self.unmounted {
            let bytes = match self.channel.receive().map_err(AttachError::Fuse)? {
                Received::Request(bytes) => bytes,
                Received::Nothing => return Ok(()),
                Received::Unmounted => {
                    self.unmounted = true;
                    return Ok(());
                }
            };
            let Some((unique, operation)) = protocol::decode(bytes) else { continue };
            let geometry = self.device.geometry();
            let shape = shape(geometry);
            let begun = match check(&operation, &shape) {
                Ok(()) => pending::begin(unique, &operation, geometry),
                Err(errno) => Some(Begun::Answered(Err(errno))),
            };
            match begun {
                Some(Begun::Commands(pending, commands)) => self.submit(pending, commands),
                Some(Begun::Answered(result)) => self.answer(&Answer { unique, result }),
                None => {
                    let result = other(&operation, &shape);
                    self.unmounted |= operation == Operation::Destroy;
                    if let Some(result) = result {
                        self.channel.reply(unique, result.as_deref().map_err(|errno| *errno));
                    }
                }
            }
        }
        Ok(())
    }

    fn submit(&mut self, pending: Pending, commands: Vec<Command>) {
        self.last += 1;
        self.pending.insert(self.last, pending);
        for command in commands {
            self.device.submit(self.last, command);
        }
        let under_way = &mut self.activity.commands_under_way_max;
        *under_way = self.device.under_way().max(*under_way);
    }

    fn take_completed(&mut self) {
        while let Some(completion) = self.device.completed() {
            let tag = completion.tag;
            let Some(pending) = self.pending.remove(&tag) else { continue };
            match pending.ended(completion) {
                Progress::UnderWay(pending) => {
                    self.pending.insert(tag, pending);
                }
                Progress::Done(answer) => self.answer(&answer),
            }
        }
    }

    fn answer(&mut self, answer: &Answer) {
        self.activity.requests += 1;
        self.activity.failed += u64::from(answer.result.is_err());
        self.channel.reply(answer.unique, answer.result.as_deref().map_err(|errno| *errno));
    }

    /// Makes answered writes durable. Also on a LUN that had no write cache when it was last probed: another initiator may have
    /// turned it on.
    fn flush(&mut self) -> Result<(), AttachError> {
        if self.device.geometry().read_only {
            return Ok(());
        }
        self.last += 1;
        self.device.submit(self.last, Command::Flush);
        let limit = Instant::now() + STOP;
        while Instant::now() < limit {
            while let Some(completion) = self.device.completed() {
                if completion.tag == self.last {
                    return completion.result.map_err(AttachError::Unflushed);
                }
            }
            self.device.turn(Some(TURN), None)?;
        }
        Err(AttachError::Unflushed(Failure::NoPath))
    }
}

fn shape(geometry: &Geometry) -> Shape {
    Shape {
        bytes: geometry.bytes(),
        block_bytes: geometry.block_bytes,
        physical_block_bytes: geometry.physical_block_bytes.max(geometry.block_bytes),
        read_only: geometry.read_only,
    }
}

/// Refuses what the LUN cannot do.
fn check(operation: &Operation<'_>, shape: &Shape) -> Result<(), Errno> {
    let (offset, bytes, changes) = match *operation {
        Operation::Read { offset, bytes } => (offset, bytes.into(), false),
        Operation::Write { offset, data } => (offset, data.len() as u64, true),
        Operation::Zero { offset, bytes, .. } => (offset, bytes, true),
        _ => return Ok(()),
    };
    match changes {
        _ if !shape.is_whole(offset, bytes) => Err(Errno::INVAL),
        true if shape.read_only => Err(Errno::ROFS),
        true if bytes == 0 => Err(Errno::INVAL),
        true if offset.checked_add(bytes).is_none_or(|end| end > shape.bytes) => Err(Errno::NOSPC),
        _ => Ok(()),
    }
}

/// The reply to a request about the connection or the file system, not about the LUN. `None` if it gets no reply.
fn other(operation: &Operation<'_>, shape: &Shape) -> Option<Result<Vec<u8>, Errno>> {
    Some(match *operation {
        Operation::Init { major, readahead, flags, .. } => {
            protocol::init(major, readahead, flags, REQUEST_BYTES_MAX, BACKGROUND_MAX).ok_or(Errno::PROTO)
        }
        Operation::Lookup { parent: ROOT, name } if name == FILE.as_bytes() => Ok(shape.entry()),
        Operation::Lookup { .. } => Err(Errno::NOENT),
        Operation::Attributes { inode } => Ok(shape.attributes_reply(inode)),
        Operation::Open { writes: true, .. } if shape.read_only => Err(Errno::ROFS),
        Operation::Open { inode, .. } => Ok(protocol::opened(inode == LUN)),
        Operation::OpenDirectory => Ok(protocol::opened(false)),
        Operation::ReadDirectory { offset, bytes } => Ok(protocol::entries(FILE.as_bytes(), offset, bytes)),
        Operation::Statistics => Ok(shape.statistics()),
        Operation::Close | Operation::Destroy => Ok(Vec::new()),
        Operation::NoFallocate => Err(Errno::OPNOTSUPP),
        Operation::Nothing => return None,
        _ => Err(Errno::NOSYS),
    })
}
