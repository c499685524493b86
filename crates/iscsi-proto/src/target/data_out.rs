//! Commands whose data is still coming: unsolicited data, and R2Ts for the rest (RFC 7143 4.2.5.2, 11.7, 11.8).
//!
//! DataPDUInOrder and DataSequenceInOrder are always Yes, so a command's data only ever grows at its end.

use super::Fault;
use super::event::Command;
use super::replies::{Mark, Replies};
use super::tasks::Task;
use crate::limits::{ABORTED_TAGS_KEPT, OUTSTANDING_R2T_MAX, SOLICITED_BYTES_MAX};
use crate::login::Parameters;
use crate::pdu::{Cdb, DataOut, Itt, R2t, Ttt};
use crate::serial::{CmdSn, DataSn};
use std::borrow::Cow;
use std::collections::VecDeque;

/// The commands of a connection that wait for data, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Collector {
    waiting: Vec<Collecting>,
    passed_over: VecDeque<Itt>, // tasks that ended before their data came
    solicited_bytes: usize,
    next_ttt: u32,
}

#[derive(Debug)]
struct Collecting {
    task: Task,
    cdb: Cdb,
    data: Vec<u8>,
    wanted: u32,         // bytes that the command takes
    received: u32,       // more than `data` has, where the initiator sends more than is wanted
    unsolicited: bool,   // more of that is to come
    next_sn: DataSn,     // of the sequence under way
    admitted: bool,      // counted in `solicited_bytes`
    requested: u32,      // asked for up to here
    is_broken: bool,     // a PDU was out of order: the data is void
    r2ts: VecDeque<Due>, // answered in this order
}

/// What data made of its command.
#[derive(Debug)]
pub(super) enum Taken {
    /// More is to come, or it is passed over.
    More,
    /// It was the last.
    Whole(Command<'static>),
    /// It was the last of a command whose data came out of order: to be ended (RFC 7143 7.8: at error recovery level 0 such a task is
    /// terminated, once its data has come).
    Broken(Task),
}

#[derive(Clone, Copy, Debug)]
struct Due {
    ttt: Ttt,
    end: u32,
}

impl Collector {
    /// A command whose data did not come whole with it. `data` is what did.
    pub(super) fn begin(&mut self, task: Task, cdb: Cdb, data: &[u8], wanted: u32, unsolicited: bool, first_burst: u32) {
        self.passed_over.retain(|itt| *itt != task.itt);
        let received = data.len() as u32;
        let mut kept = Vec::with_capacity(if unsolicited { wanted.min(first_burst) } else { 0 } as usize);
        kept.extend_from_slice(data.get(..wanted as usize).unwrap_or(data));
        self.waiting.push(Collecting {
            task,
            cdb,
            data: kept,
            wanted,
            received,
            unsolicited,
            next_sn: DataSn(0),
            admitted: false,
            requested: received,
            is_broken: false,
            r2ts: VecDeque::new(),
        });
    }

    /// Whether a command of this tag waits for data.
    pub(super) fn has(&self, itt: Itt) -> bool {
        self.waiting.iter().any(|one| one.task.itt == itt)
    }

    /// Data that comes for this tag is passed over from now on.
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
        self.solicited_bytes = 0;
    }

    fn end(&mut self, one: &Collecting) {
        if one.admitted {
            self.solicited_bytes -= one.wanted as usize;
        }
    }

    /// Takes data.
    pub(super) fn take(&mut self, header: &DataOut, data: &[u8], parameters: &Parameters) -> Result<Taken, Fault> {
        let Some(at) = self.waiting.iter().position(|one| one.task.itt == header.itt) else {
            if self.passed_over.contains(&header.itt) {
                return Ok(Taken::More);
            }
            return Err(Fault::Protocol("data for a task that expects none"));
        };
        let Some(one) = self.waiting.get_mut(at) else { return Ok(Taken::More) };
        one.take(header, data, parameters)?;
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

    /// Asks for data where it is due and memory allows.
    pub(super) fn solicit(&mut self, parameters: &Parameters, replies: &Replies, out: &mut Vec<u8>) {
        if self.waiting.is_empty() {
            return;
        }
        self.drop_aborted();
        let outstanding_max = (parameters.outstanding_r2t_max as usize).min(OUTSTANDING_R2T_MAX);
        for one in self.waiting.iter_mut().filter(|one| !one.unsolicited && !one.is_broken) {
            if !one.admitted {
                let bytes = self.solicited_bytes + one.wanted as usize;
                if bytes > SOLICITED_BYTES_MAX {
                    break; // In order: a large one is not passed by small ones for ever.
                }
                self.solicited_bytes = bytes;
                one.admitted = true;
                one.data.reserve_exact((one.wanted as usize).saturating_sub(one.data.len()));
                one.next_sn = DataSn(0);
                one.requested = one.received;
            }
            while one.requested < one.wanted && one.r2ts.len() < outstanding_max {
                let r2t = one.request(parameters.max_burst_bytes, Ttt(self.next_ttt));
                self.next_ttt = self.next_ttt.wrapping_add(1) % u32::MAX; // Ttt::NONE is left out.
                replies.put(out, r2t.to_bhs(), &[]);
            }
        }
    }
}

impl Collecting {
    fn take(&mut self, header: &DataOut, data: &[u8], parameters: &Parameters) -> Result<(), Fault> {
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
                return Err(Fault::Protocol("unsolicited data behind its end"));
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
        if self.is_broken {
            return Ok(());
        }
        let missing = (self.wanted as usize).saturating_sub(self.data.len());
        self.data.extend_from_slice(data.get(..missing).unwrap_or(data));
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
