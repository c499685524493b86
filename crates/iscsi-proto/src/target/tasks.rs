//! The tasks of a session: their tags, and the command window.
//!
//! Slots are atomic words. The connection's thread takes one for each command. The thread that stamps the status of the command frees it.

use crate::limits::{COMMAND_WINDOW_MAX, IMMEDIATE_TASKS_MAX};
use crate::login::Parameters;
use crate::pdu::{Digests, Itt, Lun};
use crate::serial::CmdSn;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const ACTIVE: u64 = 1;
const ABORTED: u64 = 2;
const IMMEDIATE: u64 = 4;
/// The task may change data.
const BEGUN: u64 = 8;

/// The tasks of a session. Shared by all of its threads and by threads that reset logical units or end the session.
#[derive(Clone, Debug)]
pub struct Tasks(pub(super) Arc<Table>);

/// The state that the parts of a connection share.
#[derive(Debug)]
pub(super) struct Table {
    slots: Box<[Slot]>,
    window: u32,
    in_window: AtomicU32, // tasks that are not immediate
    active: AtomicU32,
    executing: AtomicU32, // active tasks that were begun and have no reply
    aborted: AtomicU32,   // active tasks that were begun and aborted
    exp_cmd_sn: AtomicU32,
    max_cmd_sn: AtomicU32, // as last sent
    send_segment_bytes_max: AtomicU32,
    parameters: OnceLock<Parameters>,
}

#[derive(Debug, Default)]
struct Slot {
    word: AtomicU64, // tag in the upper half, state in the lower; 0: free
    lun: AtomicU64,
}

/// A SCSI command from its receipt until its reply is written.
///
/// A task that is dropped without a reply gets no reply. In that case the caller must call [`super::Sender::stamp`], also with an empty
/// buffer, because responses may wait for the end of the task.
#[derive(Debug)]
pub struct Task {
    pub(super) table: Arc<Table>,
    pub(super) slot: u32,
    pub(super) itt: Itt,
    pub(super) lun: Lun,
    pub(super) expected_bytes: u32,
    pub(super) is_read: bool,
    pub(super) is_write: bool,
    pub(super) attribute: u8,
    pub(super) r2t_count: u32,
    pub(super) replied: bool,
    pub(super) begun: bool,
}

impl Task {
    /// The task's tag.
    #[must_use]
    pub const fn itt(&self) -> Itt {
        self.itt
    }

    /// The logical unit that the task is for.
    #[must_use]
    pub const fn lun(&self) -> Lun {
        self.lun
    }

    /// Bytes that the initiator expects to receive. 0 for other commands.
    #[must_use]
    pub const fn expected_read_bytes(&self) -> u32 {
        if self.is_read { self.expected_bytes } else { 0 }
    }

    /// Bytes that the initiator expects to send. 0 for other commands.
    #[must_use]
    pub const fn expected_write_bytes(&self) -> u32 {
        if self.is_write { self.expected_bytes } else { 0 }
    }

    /// Task attribute: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA (RFC 7143 11.3.1).
    #[must_use]
    pub const fn attribute(&self) -> u8 {
        self.attribute
    }

    /// Whether the task was aborted meanwhile. Its reply will not be sent, and it need not begin.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.table.is_aborted(self.slot)
    }

    /// Called before the execution changes data. Returns false if the command was aborted: then it must not be executed. A later abort
    /// waits for its end. An abort does not wait for a command that never called this, for example one that only reads.
    #[must_use]
    pub fn begin(&mut self) -> bool {
        self.begun = self.begun || self.table.begin_task(self.slot);
        self.begun
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.begun {
            self.table.end_task(self.slot);
        }
        if !self.replied {
            self.table.release(self.slot);
        }
    }
}

impl Tasks {
    /// Number of tasks that have no reply yet.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.0.active.load(Ordering::Acquire)
    }

    /// Number of tasks that may still change data: they were [begun](Task::begin) and have no reply. A reply that was lost with its
    /// connection counts as a reply.
    #[must_use]
    pub fn executing(&self) -> u32 {
        self.0.executing.load(Ordering::Acquire)
    }

    /// Aborts all tasks, or those of one logical unit, and returns their number. None of their replies is sent from now on.
    pub fn abort(&self, lun: Option<Lun>) -> usize {
        self.0.slots_of(lun).filter(|slot| self.0.abort_slot(slot, None)).count()
    }

    /// Whether aborted tasks of a logical unit may still change data.
    #[must_use]
    pub fn is_ending(&self, lun: Lun) -> bool {
        let is_ending = |slot: &Slot| slot.word.load(Ordering::Acquire) & (ABORTED | BEGUN) == ABORTED | BEGUN;
        self.0.slots_of(Some(lun)).any(is_ending)
    }
}

impl Table {
    pub(super) fn new(window: usize) -> Self {
        let window = window.clamp(1, COMMAND_WINDOW_MAX);
        Self {
            slots: (0..window + IMMEDIATE_TASKS_MAX).map(|_| Slot::default()).collect(),
            window: window as u32,
            in_window: AtomicU32::new(0),
            active: AtomicU32::new(0),
            executing: AtomicU32::new(0),
            aborted: AtomicU32::new(0),
            exp_cmd_sn: AtomicU32::new(0),
            max_cmd_sn: AtomicU32::new(0),
            send_segment_bytes_max: AtomicU32::new(Parameters::default().send_segment_bytes_max),
            parameters: OnceLock::new(),
        }
    }

    pub(super) fn parameters(&self) -> Parameters {
        self.parameters.get().copied().unwrap_or_default()
    }

    pub(super) fn digests(&self) -> Digests {
        self.parameters
            .get()
            .map_or_else(Digests::default, |settled| Digests { header: settled.header_digest, data: settled.data_digest })
    }

    /// Stores the parameters that the login has negotiated. Takes effect once.
    pub(super) fn settle(&self, parameters: Parameters) {
        self.send_segment_bytes_max.store(parameters.send_segment_bytes_max, Ordering::Release);
        let _ = self.parameters.set(parameters);
    }

    pub(super) fn send_segment_bytes_max(&self) -> u32 {
        self.send_segment_bytes_max.load(Ordering::Acquire)
    }

    pub(super) fn set_send_segment_bytes_max(&self, bytes: u32) {
        self.send_segment_bytes_max.store(bytes, Ordering::Release);
    }

    pub(super) fn exp_cmd_sn(&self) -> CmdSn {
        CmdSn(self.exp_cmd_sn.load(Ordering::Acquire))
    }

    pub(super) fn set_exp_cmd_sn(&self, number: CmdSn) {
        self.exp_cmd_sn.store(number.0, Ordering::Release);
    }

    pub(super) fn max_cmd_sn(&self) -> CmdSn {
        CmdSn(self.max_cmd_sn.load(Ordering::Acquire))
    }

    /// Sets the number of the first command.
    pub(super) fn begin(&self, first: CmdSn) {
        self.set_exp_cmd_sn(first);
        self.max_cmd_sn.store(first.0.wrapping_sub(1), Ordering::Release);
    }

    /// The command window that is sent now. Its end never moves backwards (RFC 7143 4.2.2.1).
    pub(super) fn window(&self) -> (CmdSn, CmdSn) {
        // The order matters: a command is counted before its number is passed.
        let expected = self.exp_cmd_sn();
        let free = self.window.saturating_sub(self.in_window.load(Ordering::Acquire));
        let end = CmdSn(expected.0.wrapping_add(free).wrapping_sub(1));
        let sent = self.max_cmd_sn();
        if sent.is_before(end) {
            self.max_cmd_sn.store(end.0, Ordering::Release);
            return (expected, end);
        }
        (expected, sent)
    }

    /// Takes a slot. `None` if the session has the largest number of tasks. `from` is the slot to try first. Only the connection's thread
    /// calls this.
    pub(super) fn claim(&self, itt: Itt, lun: Lun, immediate: bool, from: &mut usize) -> Option<u32> {
        let in_window = self.in_window.load(Ordering::Acquire);
        let others = self.active.load(Ordering::Acquire).saturating_sub(in_window);
        if if immediate { others >= IMMEDIATE_TASKS_MAX as u32 } else { in_window >= self.window } {
            return None;
        }
        let count = self.slots.len();
        let is_free = |at: &usize| self.slots.get(*at).is_some_and(|slot| slot.word.load(Ordering::Acquire) == 0);
        let at = (*from..count).chain(0..(*from).min(count)).find(is_free)?;
        let slot = self.slots.get(at)?;
        *from = at + 1;
        slot.lun.store(u64::from_be_bytes(lun.0), Ordering::Release);
        let state = if immediate { ACTIVE | IMMEDIATE } else { ACTIVE };
        self.active.fetch_add(1, Ordering::AcqRel);
        if !immediate {
            self.in_window.fetch_add(1, Ordering::AcqRel);
        }
        slot.word.store(u64::from(itt.0) << 32 | state, Ordering::Release);
        Some(at as u32)
    }

    /// Notes that a task begins. Returns false if it was aborted.
    fn begin_task(&self, slot: u32) -> bool {
        let Some(slot) = self.slots.get(slot as usize) else { return false };
        // Counted first, so that a later abort sees that the task is being executed.
        self.executing.fetch_add(1, Ordering::AcqRel);
        let begin = |word| (word & ABORTED == 0).then_some(word | BEGUN);
        let is_begun = slot.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_ok();
        if !is_begun {
            self.executing.fetch_sub(1, Ordering::AcqRel);
        }
        is_begun
    }

    /// Notes that a begun task has ended. Its reply may not have left yet.
    fn end_task(&self, slot: u32) {
        let word = self.slots.get(slot as usize).map_or(0, |slot| slot.word.fetch_and(!BEGUN, Ordering::AcqRel));
        if word & (ABORTED | BEGUN) == ABORTED | BEGUN {
            self.aborted.fetch_sub(1, Ordering::AcqRel);
        }
        self.executing.fetch_sub(1, Ordering::AcqRel);
    }

    /// All slots, or those of one logical unit.
    fn slots_of(&self, lun: Option<Lun>) -> impl Iterator<Item = &Slot> {
        let lun = lun.map(|lun| u64::from_be_bytes(lun.0));
        self.slots.iter().filter(move |slot| lun.is_none_or(|lun| slot.lun.load(Ordering::Acquire) == lun))
    }

    /// Frees a slot. Returns false if the task was aborted.
    pub(super) fn release(&self, slot: u32) -> bool {
        let word = self.slots.get(slot as usize).map_or(0, |slot| slot.word.swap(0, Ordering::AcqRel));
        if word & ACTIVE == 0 {
            return false;
        }
        self.active.fetch_sub(1, Ordering::AcqRel);
        if word & IMMEDIATE == 0 {
            self.in_window.fetch_sub(1, Ordering::AcqRel);
        }
        word & ABORTED == 0
    }

    /// Aborts the task with this tag, if it is in progress.
    pub(super) fn abort_one(&self, itt: Itt) -> bool {
        self.slots.iter().any(|slot| self.abort_slot(slot, Some(itt)))
    }

    fn abort_slot(&self, slot: &Slot, itt: Option<Itt>) -> bool {
        let mut word = slot.word.load(Ordering::Acquire);
        loop {
            if word & ACTIVE == 0 || word & ABORTED != 0 || itt.is_some_and(|itt| !is_tag(word, itt)) {
                return false;
            }
            // Counted first, because a thread that sees the mark may free the slot at once.
            let waited_for = u32::from(word & BEGUN != 0);
            self.aborted.fetch_add(waited_for, Ordering::AcqRel);
            match slot.word.compare_exchange(word, word | ABORTED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
            self.aborted.fetch_sub(waited_for, Ordering::AcqRel);
        }
    }

    pub(super) fn is_aborted(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_none_or(|slot| slot.word.load(Ordering::Acquire) & ABORTED != 0)
    }

    /// Whether aborted tasks that were begun have not ended yet.
    pub(super) fn has_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire) > 0
    }
}

fn is_tag(word: u64, itt: Itt) -> bool {
    word & ACTIVE != 0 && (word >> 32) as u32 == itt.0
}
