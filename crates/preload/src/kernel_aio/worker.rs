//! The thread of a context. It keeps requests in flight, and creates events from replies.

use super::context::{Context, Submitted};
use super::pin::Pin;
use super::request::{Work, result_of};
use crate::data;
use crate::open_file::Open;
use crate::outcome::Out;
use crate::raw;
use dnfs::mount::{AsyncIo, Finished, IoRequest, IoWork, Mount, Offered};
use libc::{c_int, pollfd};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Milliseconds without a reply after which the thread checks a server.
const SILENCE_MS: u64 = 1000;

/// A request in flight. Its buffers are in `AsyncIo`.
struct Flying {
    answer: Submitted,
    open: Open,
    pin: Arc<Pin>,
}

struct Worker {
    context: &'static Context,
    /// One for each mount and credentials in use.
    mounts: Vec<AsyncIo<'static>>,
    /// Requests that are not begun.
    waiting: VecDeque<Submitted>,
    /// Requests for the blocking calls, which run while nothing is in flight.
    alone: VecDeque<Submitted>,
    flying: Vec<Option<Flying>>,
    free: Vec<usize>,
    finished: Vec<Finished<'static>>,
}

/// Serves a context until it is closed and all requests are done.
pub(super) fn run(context: &'static Context) {
    let mut worker = Worker {
        context,
        mounts: Vec::new(),
        waiting: VecDeque::new(),
        alone: VecDeque::new(),
        flying: Vec::new(),
        free: Vec::new(),
        finished: Vec::new(),
    };
    while worker.turn() {}
    context.collect_passed_on();
}

impl Worker {
    /// One turn: begins, sends, waits and receives. Returns false at the end.
    fn turn(&mut self) -> bool {
        self.context.take_inbox(&mut self.waiting);
        self.begin();
        for mount in &mut self.mounts {
            mount.send(&mut self.finished);
        }
        self.complete();
        let flying = self.flying.len() - self.free.len();
        if flying == 0 {
            if let Some(one) = self.alone.pop_front() {
                let done = alone(one);
                self.context.complete(vec![done]);
                return true;
            }
            if !self.waiting.is_empty() {
                return true;
            }
            if self.context.is_closing() {
                return false;
            }
        }
        self.wait(flying > 0);
        self.complete();
        true
    }

    /// Begins requests. A request for the blocking calls waits until nothing is in flight, and so
    /// do all later ones.
    fn begin(&mut self) {
        while self.alone.is_empty()
            && let Some(mut one) = self.waiting.pop_front()
        {
            let Some((open, pin, work)) = one.work.take() else { continue };
            let cursor = (open.flags & libc::O_ACCMODE != libc::O_RDONLY).then_some(open.cursor);
            let (offset, work) = match work {
                Work::Read(offset, bufs) => (offset, IoWork::Read(bufs)),
                Work::Write(offset, bufs, how) => (offset, IoWork::Write(bufs, how)),
                Work::Sync => {
                    one.work = Some((open, pin, Work::Sync));
                    self.alone.push_back(one);
                    break;
                }
            };
            let token = self.free.pop().unwrap_or_else(|| {
                self.flying.push(None);
                self.flying.len() - 1
            });
            let request = IoRequest { token: token as u64, file: open.file, cursor, offset, work };
            let mount = open.mount;
            self.flying[token] = Some(Flying { answer: one, open, pin });
            match self.on(mount).offer(request) {
                Offered::Taken => {}
                Offered::Alone(request) => self.put_alone(request),
                Offered::Full(request) => {
                    if let Some(one) = self.landed(request) {
                        self.waiting.push_front(one);
                    }
                    break;
                }
            }
        }
    }

    fn on(&mut self, mount: &'static Mount) -> &mut AsyncIo<'static> {
        let known = self.mounts.iter().position(|known| std::ptr::eq(known.mount(), mount));
        let at = known.unwrap_or_else(|| {
            self.mounts.push(AsyncIo::new(mount));
            self.mounts.len() - 1
        });
        &mut self.mounts[at]
    }

    /// Removes from those in flight a request that came back with its buffers.
    fn landed(&mut self, request: IoRequest<'static>) -> Option<Submitted> {
        let token = request.token as usize;
        let Flying { mut answer, open, pin } = self.flying.get_mut(token)?.take()?;
        self.free.push(token);
        let work = match request.work {
            IoWork::Read(bufs) => Work::Read(request.offset, bufs),
            IoWork::Write(bufs, how) => Work::Write(request.offset, bufs, how),
        };
        answer.work = Some((open, pin, work));
        Some(answer)
    }

    fn put_alone(&mut self, request: IoRequest<'static>) {
        if let Some(one) = self.landed(request) {
            self.alone.push_back(one);
        }
    }

    /// Creates events for finished requests.
    fn complete(&mut self) {
        let mut done = Vec::new();
        for finished in std::mem::take(&mut self.finished) {
            match finished {
                Finished::Alone(request) => self.put_alone(request),
                Finished::Done(token, outcome) => {
                    let Some(flying) = self.flying.get_mut(token as usize).and_then(Option::take) else { continue };
                    self.free.push(token as usize);
                    let mut answer = flying.answer;
                    answer.result = result_of(outcome.map_err(Out::from));
                    drop(flying.pin);
                    done.push(answer);
                }
            }
        }
        if !done.is_empty() {
            self.context.complete(done);
        }
    }

    /// Waits for replies, events of the kernel and new requests, and receives them.
    fn wait(&mut self, flying: bool) {
        let mut polled: Vec<pollfd> = self.context.descriptors().into_iter().map(readable).collect();
        let own = polled.len();
        let socket =
            |mount: &AsyncIo<'static>| mount.sockets().map(|socket| readable(socket.map_or(-1, |socket| socket.as_raw_fd())));
        polled.extend(self.mounts.iter().flat_map(socket));
        self.context.note_sockets(polled[own..].iter().map(|polled| polled.fd));
        if !self.context.falls_asleep() {
            return; // new requests have come
        }
        let ready = raw::poll::poll(&mut polled, flying.then_some(SILENCE_MS), None);
        self.context.woke_up();
        if ready == Ok(0) {
            self.mounts.iter_mut().for_each(|mount| mount.silent(&mut self.finished));
        }
        if polled[0].revents != 0 {
            raw::poll::reset(polled[0].fd);
        }
        if polled[1].revents != 0 {
            self.context.collect_passed_on();
        }
        for (mount, sockets) in self.mounts.iter_mut().zip(polled[own..].chunks(2)) {
            let ready = [0, 1].map(|side| sockets.get(side).is_some_and(|socket| socket.revents != 0));
            mount.receive(ready, &mut self.finished);
        }
    }
}

const fn readable(fd: c_int) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Executes a request by the blocking calls.
fn alone(mut one: Submitted) -> Submitted {
    if let Some((open, pin, work)) = one.work.take() {
        one.result = match work {
            Work::Read(offset, bufs) => {
                result_of(data::read_vector_at(&open, offset, bufs.into_iter()).map(|bytes| bytes as i64))
            }
            Work::Write(offset, bufs, how) => {
                result_of(data::write_vector_at(&open, offset, &bufs, how).map(|bytes| bytes as i64))
            }
            Work::Sync => result_of(open.mount.sync(open.file, open.cursor).map(|()| 0i64).map_err(Out::from)),
        };
        drop(pin);
    }
    one
}
