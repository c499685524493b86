//! The threads that take requests from the kernel and reply to them.
//!
//! At least one thread always waits for requests, also while all others wait for the server. Requests that it receives then
//! wait in a queue, and the kernel can still report a killed caller.

use crate::caller::Callers;
use crate::device::{Device, REQUEST_BYTES_MAX};
use crate::error::MountError;
use crate::limits::{CLOSE_MS, FORGETS_MAX, IDLE_WORKERS_MAX, KILL_LOOK_MS, KILL_WAIT_MS, QUEUE_MAX, WORKERS_MAX};
use crate::locks::Look;
use crate::mount_table::mounted_at;
use crate::mounting::{self, MountHow};
use crate::operations::{Operations, Outcome};
use crate::pending::Pending;
use crate::protocol::Unique;
use crate::protocol::request::{Header, Operation, decode, forgets};
use crate::users::Users;
use dnfs::NfsUrl;
use dnfs::mount::Mount;
use host::Unpoisoned;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A mounted file system.
#[derive(Debug)]
pub struct Server(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    device: Device,
    /// Name of a thread, by which other processes find the process that serves this file system.
    thread_name: String,
    operations: Operations,
    pending: Pending,
    crew: Mutex<Crew>,
    changed: Condvar,
}

/// Threads, and requests that wait for one.
#[derive(Debug, Default)]
struct Crew {
    threads: usize,
    /// Number of threads that wait for a request, or are about to.
    waiting: usize,
    queue: VecDeque<Vec<u8>>,
    /// Set after the unmount, or with the error of the device.
    ended: Option<Option<Errno>>,
}

/// What a thread does with a request that it received.
enum Turn {
    Serve,
    /// Queue it: no other thread waits for requests, and no more threads are allowed.
    Queue,
}

impl Server {
    /// Mounts at an empty directory, as checked by [`mounting::prepare`], and negotiates with the kernel. Requests wait until
    /// [`Self::run`].
    ///
    /// # Errors
    /// [`MountError`].
    pub fn mount(mount: Mount, url: &NfsUrl, directory: &Path, how: MountHow) -> Result<Self, MountError> {
        let callers = Callers::open()?;
        let device = mounting::mount(directory, &url.to_string(), how)?;
        device.agree().inspect_err(|_| {
            let _ = mounting::unmount(directory, true);
        })?;
        mount.list_path();
        let number = mounted_at(directory).map(|entry| entry.device).unwrap_or_default();
        Ok(Self(Arc::new(Shared {
            device,
            thread_name: mounting::thread_name(&number),
            operations: Operations::new(callers, Users::new(mount, url.clone())),
            pending: Pending::default(),
            crew: Mutex::default(),
            changed: Condvar::new(),
        })))
    }

    /// Serves requests of the kernel until the file system is unmounted.
    ///
    /// # Errors
    /// [`MountError::Requests`], [`MountError::Thread`].
    pub fn run(self) -> Result<(), MountError> {
        let shared = self.0;
        let background =
            [(shared.thread_name.as_str(), Shared::answer_killed as fn(&Shared) -> !), ("locks", Shared::answer_locked)];
        for (name, work) in background {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(name.into()).spawn(move || work(&shared)).map_err(MountError::Thread)?;
        }
        shared.crew.lock().unpoisoned().count(1);
        start_worker(&shared).map_err(MountError::Thread)?;
        let mut crew = shared.crew.lock().unpoisoned();
        let ended = loop {
            match crew.ended {
                Some(ended) => break ended,
                None => crew = shared.changed.wait(crew).unpoisoned(),
            }
        };
        drop(crew);
        // Closes files that the kernel did not release before the unmount. Threads that still wait for the server end with
        // this process.
        let (sender, closed) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            shared.operations.close_all();
            let _ = sender.send(());
        });
        if closed.recv_timeout(Duration::from_millis(CLOSE_MS)).is_err() {
            tracing::warn!("the server does not answer: the keeper of the mount closes what is left");
        }
        ended.map_or(Ok(()), |error| Err(MountError::Requests(error.into())))
    }
}

fn start_worker(shared: &Arc<Shared>) -> std::io::Result<()> {
    let worker = Arc::clone(shared);
    std::thread::Builder::new().name("requests".into()).spawn(move || worker.work()).map(drop)
}

impl Crew {
    /// Adds waiting threads.
    const fn count(&mut self, threads: usize) {
        self.threads += threads;
        self.waiting += threads;
    }
}

impl Shared {
    /// The loop of a thread.
    fn work(self: Arc<Self>) {
        let mut request = vec![0; REQUEST_BYTES_MAX];
        let mut data = Vec::new();
        loop {
            let bytes = match self.device.receive(&mut request) {
                Ok(Some(bytes)) => request.get(..bytes).unwrap_or_default(),
                Ok(None) => return self.end(None),
                Err(error) => return self.end(Some(error)),
            };
            if self.is_done_at_once(bytes) {
                continue;
            }
            if let Some((header, _)) = decode(bytes) {
                self.pending.begin(header.unique, header.pid);
            }
            match self.take_turn() {
                Turn::Serve => self.serve(bytes, &mut data),
                Turn::Queue => {
                    self.enqueue(bytes.to_vec());
                    continue;
                }
            }
            while let Some(queued) = self.next_queued() {
                self.serve(&queued, &mut data);
            }
            if !self.wait_again() {
                return;
            }
        }
    }

    fn end(&self, error: Option<Errno>) {
        let mut crew = self.crew.lock().unpoisoned();
        crew.ended.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Handles a request that neither waits nor has a reply, so that it needs no free thread.
    fn is_done_at_once(&self, bytes: &[u8]) -> bool {
        let Some((header, operation)) = decode(bytes) else { return false };
        match operation {
            Operation::Forget { count } => self.operations.forget(header.node, count),
            Operation::ForgetMany { pairs } => {
                forgets(pairs).take(FORGETS_MAX).for_each(|(node, count)| self.operations.forget(node, count));
            }
            Operation::Interrupt { of } => {
                if self.pending.interrupt(of) {
                    self.operations.locks().look_now();
                } else {
                    // The request was not read yet, or has its reply. The kernel repeats the interrupt if the caller still waits.
                    self.device.refuse(header.unique, Errno::AGAIN);
                }
            }
            _ => return false,
        }
        true
    }

    /// Ends this thread's wait for requests. Starts another thread if it was the last one waiting.
    fn take_turn(self: &Arc<Self>) -> Turn {
        let mut crew = self.crew.lock().unpoisoned();
        if crew.waiting > 1 {
            crew.waiting -= 1;
            return Turn::Serve;
        }
        if crew.threads >= WORKERS_MAX {
            return Turn::Queue;
        }
        crew.count(1);
        crew.waiting -= 1;
        drop(crew);
        if let Err(error) = start_worker(self) {
            let mut crew = self.crew.lock().unpoisoned();
            crew.threads -= 1;
            // This is still the last waiting thread: it serves this request and then the next.
            tracing::warn!(%error, "cannot start a thread: requests wait for each other");
        }
        Turn::Serve
    }

    fn enqueue(&self, request: Vec<u8>) {
        let mut crew = self.crew.lock().unpoisoned();
        while crew.queue.len() >= QUEUE_MAX && crew.ended.is_none() {
            crew = self.changed.wait(crew).unpoisoned();
        }
        crew.queue.push_back(request);
    }

    fn next_queued(&self) -> Option<Vec<u8>> {
        let mut crew = self.crew.lock().unpoisoned();
        let next = crew.queue.pop_front();
        if crew.queue.len() + 1 == QUEUE_MAX {
            self.changed.notify_all();
        }
        next
    }

    /// Counts this thread as waiting again. Returns false if enough other threads wait; it must then end.
    fn wait_again(&self) -> bool {
        let mut crew = self.crew.lock().unpoisoned();
        if crew.waiting >= IDLE_WORKERS_MAX {
            crew.threads -= 1;
            return false;
        }
        crew.waiting += 1;
        true
    }

    /// Executes a request and sends its reply.
    fn serve(&self, bytes: &[u8], data: &mut Vec<u8>) {
        let Some((header, operation)) = decode(bytes) else {
            // Length, opcode and number of a request are always complete.
            tracing::error!("the kernel sent a request that cannot be read");
            return refuse_unread(&self.device, bytes);
        };
        if !self.pending.waits(header.unique) {
            return; // its caller was killed while it waited for a thread
        }
        let performed = catch_unwind(AssertUnwindSafe(|| self.operations.perform(&header, &operation, data)));
        let performed = performed.unwrap_or_else(|_| {
            tracing::error!(request = ?header, "a request failed by a fault of this program");
            Err(Errno::IO)
        });
        self.answer(&header, performed, data);
    }

    fn answer(&self, header: &Header, performed: Result<Outcome, Errno>, data: &[u8]) {
        match performed {
            Ok(Outcome::Later) => {}
            Ok(Outcome::Answered(answer)) => {
                let data = data.get(..answer.data_bytes).unwrap_or_default();
                let arrived = self.pending.take(header.unique) && self.device.send(header.unique, &answer.result, data);
                if !arrived {
                    self.operations.undo(&answer);
                }
            }
            Err(error) => self.refuse(header.unique, error),
        }
    }

    fn refuse(&self, unique: Unique, error: Errno) {
        if self.pending.take(unique) {
            self.device.refuse(unique, error);
        }
    }

    /// Replies to killed callers that got no reply in time. Their requests continue, and the results are dropped.
    fn answer_killed(&self) -> ! {
        loop {
            for (unique, thread, since) in self.pending.await_interrupted() {
                if since >= Duration::from_millis(KILL_WAIT_MS) && self.operations.callers().is_killed(thread) {
                    self.refuse(unique, Errno::INTR);
                }
            }
            std::thread::sleep(Duration::from_millis(KILL_LOOK_MS));
        }
    }

    /// Replies to requests that waited for locks.
    fn answer_locked(&self) -> ! {
        loop {
            for (wait, look) in self.operations.locks().look(|unique| self.pending.is_interrupted(unique)) {
                match look {
                    Look::Waits => {}
                    Look::Failed(error) => self.refuse(wait.unique, error),
                    Look::Granted => {
                        if !(self.pending.take(wait.unique) && self.device.send(wait.unique, &[], &[])) {
                            self.operations.locks().undo(&wait);
                        }
                    }
                }
            }
        }
    }
}

/// Replies to a request that could not be decoded.
fn refuse_unread(device: &Device, bytes: &[u8]) {
    if let Some(unique) = bytes.get(8..).and_then(|rest| rest.first_chunk()).map(|word| u64::from_ne_bytes(*word)) {
        device.refuse(Unique(unique), Errno::IO);
    }
}
