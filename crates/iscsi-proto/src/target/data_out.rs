//! Commands whose data has not arrived completely: unsolicited data, and R2Ts for the rest (RFC 7143 4.2.5.2, 11.7, 11.8).
//!
//! DataPDUInOrder and DataSequenceInOrder are always Yes, so the data of a command grows only at its end.
//!
//! Memory is reserved from the host ([`Host::reserve`]) before it is allocated: for unsolicited data when it arrives, and for all data of a
//! command before its first R2T. A command without memory for its R2T waits. A command without memory for unsolicited data ends with TASK
//! SET FULL, and the session continues.

use super::Fault;
use super::event::Command;
use super::host::{Host, Purpose};
use super::mark::Mark;
use super::replies::Replies;
use super::tasks::Task;
use crate::limits::{
    ABORTED_TAGS_KEPT, DATA_TIMEOUT, DATA_TIMEOUT_PER_MIB, DATA_TIMEOUT_SHORT, OUTSTANDING_R2T_MAX, SOLICITED_BYTES_MAX,
};
use crate::login::Parameters;
use crate::pdu::{Cdb, DataOut, Itt, R2t, Ttt};
use crate::serial::{CmdSn, DataSn};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

/// The commands of a connection that wait for data, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Collector {
    waiting: Vec<Collecting>,
    passed_over: VecDeque<Itt>, // tasks that ended before their data arrived, which is ignored
    solicited_bytes: usize,
    held_bytes: usize, // memory that the host granted for `waiting`
    next_ttt: u32,
}

#[derive(Debug)]
struct Collecting {
    task: Task,
    cdb: Cdb,
    data: Vec<u8>,
    granted: u32, // bytes of memory that the host has granted for `data`
    clock: Option<Clock>,
    wanted: u32,         // bytes that the command takes
    received: u32,       // more than `data` has, if the initiator sends more than the command takes
    unsolicited: bool,   // more of it will arrive
    next_sn: DataSn,     // of the current sequence
    admitted: bool,      // counted in `solicited_bytes`
    requested: u32,      // end of the data that R2Ts have requested
    is_broken: bool,     // a PDU was out of order: the data is void
    r2ts: VecDeque<Due>, // answered in this order
}

/// How long a command has waited for data from its initiator.
#[derive(Clone, Copy, Debug)]
struct Clock {
    begun: Duration,
    received: u32, // bytes that had been received at `moved`
    moved: Duration,
}

/// The effect of received data on its command.
#[derive(Debug)]
pub(super) enum Taken {
    /// More data will arrive, or this data is ignored.
    More,
    /// The command has all its data.
    Whole(Command<'static>),
    /// The last data of a command whose data arrived out of order. The caller ends the task (RFC 7143 7.8: at error recovery level 0 such a
    /// task is terminated after its data has arrived).
    Broken(Task),
    /// There is no memory for the data: the task must end with TASK SET FULL. Its later data is ignored.
    NoMemory(Task),
}

#[derive(Clone, Copy, Debug)]
struct Due {
    ttt: Ttt,
    end: u32,
}

impl Collector {
    /// Adds a command that waits for more data. `data` arrived with the command.
    ///
    /// # Errors
    /// The task, if the host has no memory for `data`.
    pub(super) fn begin(
        &mut self,
        task: Task,
        cdb: Cdb,
        data: &[u8],
        (wanted, unsolicited): (u32, bool),
        host: &dyn Host,
    ) -> Result<(), Task> {
        self.passed_over.retain(|itt| *itt != task.itt);
        let received = data.len() as u32;
        let kept = data.get(..wanted as usize).unwrap_or(data);
        let granted = kept.len() as u32;
        if !host.reserve(kept.len(), Purpose::Unsolicited) {
            if unsolicited {
                self.pass_over(task.itt);
            }
            return Err(task);
        }
        self.held_bytes += kept.len();
        self.waiting.push(Collecting {
            task,
            cdb,
            data: kept.to_vec(),
            granted,
            clock: None,
            wanted,
            received,
            unsolicited,
            next_sn: DataSn(0),
            admitted: false,
            requested: received,
            is_broken: false,
            r2ts: VecDeque::new(),
        });
        Ok(())
    }

    /// Whether commands wait for data.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Memory that the host granted for the waiting commands, in bytes.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Removes and returns the commands whose initiator sent no data, or too little, for too long. The limit is lower while memory is
    /// `short`.
    pub(super) fn expire(&mut self, now: Duration, short: bool) -> Vec<Task> {
        let is_late = |one: &mut Collecting| one.waits_for_initiator() && one.is_late(now, short);
        let mut late = Vec::new();
        while let Some(at) = self.waiting.iter_mut().position(is_late) {
            let one = self.waiting.remove(at);
            self.end(&one);
            self.pass_over(one.task.itt);
            late.push(one.task);
        }
        late
    }

    /// Whether a command with this tag waits for data.
    pub(super) fn has(&self, itt: Itt) -> bool {
        self.waiting.iter().any(|one| one.task.itt == itt)
    }

    /// Ignores data for this tag from now on.
    pub(super) fn pass_over(&mut self, itt: Itt) {
        if self.passed_over.len() == ABORTED_TAGS_KEPT {
            self.passed_over.pop_front();
        }
        self.passed_over.push_back(itt);
    }

    /// Drops the commands that were aborted.
    pub(super) fn drop_aborted(&mut self) {
        while let Some(at) = self.waiting.iter().position(|one| one.task.is_aborted()) {
            let one = self.waiting.remove(at);
            self.end(&one);
            self.pass_over(one.task.itt);
        }
    }

    /// Drops all commands.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        (self.solicited_bytes, self.held_bytes) = (0, 0);
    }

    fn end(&mut self, one: &Collecting) {
        self.held_bytes -= one.granted as usize;
        if one.admitted {
            self.solicited_bytes -= one.wanted as usize;
        }
    }

    /// Processes received data.
    pub(super) fn take(
        &mut self,
        header: &DataOut,
        data: &[u8],
        parameters: &Parameters,
        host: &dyn Host,
    ) -> Result<Taken, Fault> {
        let Some(at) = self.waiting.iter().position(|one| one.task.itt == header.itt) else {
            if self.passed_over.contains(&header.itt) {
                return Ok(Taken::More);
            }
            return Err(Fault::Protocol("data for a task that expects none"));
        };
        let Some(one) = self.waiting.get_mut(at) else { return Ok(Taken::More) };
        one.check(header, data, parameters)?;
        let granted = one.granted as usize;
        let is_kept = one.is_broken || one.keep(data, parameters, host);
        self.held_bytes += one.granted as usize - granted;
        if !is_kept {
            let one = self.waiting.remove(at);
            self.end(&one);
            if one.unsolicited {
                self.pass_over(one.task.itt);
            }
            return Ok(Taken::NoMemory(one.task));
        }
        if one.unsolicited || !one.r2ts.is_empty() || one.received < one.wanted && !one.is_broken {
            return Ok(Taken::More);
        }
        let one = self.waiting.remove(at);
        self.end(&one);
        if one.is_broken {
            return Ok(Taken::Broken(one.task));
        }
        Ok(Taken::Whole(Command { task: one.task, cdb: one.cdb, data: Cow::Owned(one.data) }))
    }

    /// Sends R2Ts for commands that need data, if memory is available.
    pub(super) fn solicit(&mut self, parameters: &Parameters, replies: &Replies, host: &dyn Host, out: &mut Vec<u8>) {
        if self.waiting.is_empty() {
            return;
        }
        self.drop_aborted();
        let outstanding_max = (parameters.outstanding_r2t_max as usize).min(OUTSTANDING_R2T_MAX);
        for one in self.waiting.iter_mut().filter(|one| !one.unsolicited && !one.is_broken) {
            if !one.admitted {
                let bytes = self.solicited_bytes + one.wanted as usize;
                let missing = one.wanted.saturating_sub(one.granted);
                if bytes > SOLICITED_BYTES_MAX || !host.reserve(missing as usize, Purpose::Solicited) {
                    break; // In order, so that small commands do not delay a large one forever.
                }
                self.solicited_bytes = bytes;
                self.held_bytes += missing as usize;
                one.granted += missing;
                one.admitted = true;
                one.next_sn = DataSn(0);
                one.requested = one.received;
            }
            while one.requested < one.wanted && one.r2ts.len() < outstanding_max {
                let r2t = one.request(parameters.max_burst_bytes, Ttt(self.next_ttt));
                self.next_ttt = self.next_ttt.wrapping_add(1) % u32::MAX; // skips Ttt::NONE
                replies.put(out, r2t.to_bhs(), &[]);
            }
        }
    }
}

impl Collecting {
    /// Whether the initiator must send data now.
    fn waits_for_initiator(&self) -> bool {
        self.unsolicited || !self.r2ts.is_empty()
    }

    /// Whether the data of the command takes too long.
    fn is_late(&mut self, now: Duration, short: bool) -> bool {
        let clock = self.clock.get_or_insert(Clock { begun: now, received: self.received, moved: now });
        if clock.received != self.received {
            (clock.received, clock.moved) = (self.received, now);
        }
        let mib = self.wanted.div_ceil(1 << 20).max(1);
        let silence_max = if short { DATA_TIMEOUT_SHORT } else { DATA_TIMEOUT };
        now.saturating_sub(clock.moved) >= silence_max || now.saturating_sub(clock.begun) >= DATA_TIMEOUT_PER_MIB * mib
    }

    /// Stores checked data. Returns false if the host has no memory for it.
    fn keep(&mut self, data: &[u8], parameters: &Parameters, host: &dyn Host) -> bool {
        let missing = (self.wanted as usize).saturating_sub(self.data.len());
        let data = data.get(..missing).unwrap_or(data);
        let needed = (self.data.len() + data.len()) as u32;
        if needed > self.granted {
            // For unsolicited data the memory doubles, so that many small PDUs do not each copy the data.
            let generous = (2 * self.granted).clamp(needed, self.wanted.min(parameters.first_burst_bytes).max(needed));
            let Some(granted) =
                [generous, needed].into_iter().find(|bytes| host.reserve((bytes - self.granted) as usize, Purpose::Unsolicited))
            else {
                return false;
            };
            self.granted = granted;
        }
        if needed as usize > self.data.capacity() {
            // Allocated as data arrives, because an initiator may never send what an R2T requested.
            let generous = needed.saturating_add(parameters.max_burst_bytes).min(self.granted);
            self.data.reserve_exact(generous as usize - self.data.len());
        }
        self.data.extend_from_slice(data);
        true
    }

    /// Checks that the data continues the data of the command, and counts it.
    fn check(&mut self, header: &DataOut, data: &[u8], parameters: &Parameters) -> Result<(), Fault> {
        let number = |what, got, expected| if got == expected { Ok(()) } else { Err(Fault::Number { what, got, expected }) };
        let limit = |what, got, limit| if got <= limit { Ok(()) } else { Err(Fault::Limit { what, got, limit }) };
        if header.data_sn != self.next_sn {
            self.is_broken = true;
            self.data = Vec::new();
        }
        if !self.is_broken {
            number("buffer offset", header.buffer_offset, self.received)?;
        }
        let end = self.received.saturating_add(data.len() as u32);
        if header.ttt == Ttt::NONE {
            if !self.unsolicited {
                return Err(Fault::Protocol("unsolicited data beyond its end"));
            }
            limit("unsolicited data", end, parameters.first_burst_bytes.min(self.task.expected_bytes))?;
            self.unsolicited = !header.is_final;
        } else {
            let due = self.r2ts.front().copied().ok_or(Fault::Protocol("data that was not asked for"))?;
            number("target transfer tag", header.ttt.0, due.ttt.0)?;
            limit("data of an R2T", end, due.end)?;
            if !self.is_broken && header.is_final != (end == due.end) {
                return Err(Fault::Protocol("a sequence of data does not end with its R2T"));
            }
        }
        self.next_sn = self.next_sn.next();
        if header.is_final {
            self.next_sn = DataSn(0);
            if header.ttt != Ttt::NONE {
                self.r2ts.pop_front();
            }
        }
        self.received = end;
        Ok(())
    }

    fn request(&mut self, burst_bytes: u32, ttt: Ttt) -> R2t {
        let desired_bytes = burst_bytes.min(self.wanted - self.requested);
        let r2t = R2t {
            lun: self.task.lun,
            itt: self.task.itt,
            ttt,
            stat_sn: Mark::request(self.task.slot).as_stat_sn(),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
            r2t_sn: DataSn(self.task.r2t_count),
            buffer_offset: self.requested,
            desired_bytes,
        };
        self.requested += desired_bytes;
        self.task.r2t_count += 1;
        self.r2ts.push_back(Due { ttt, end: self.requested });
        r2t
    }
}
