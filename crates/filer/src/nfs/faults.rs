//! Injected faults of calls and replies. The volume has the list of set faults ([`volume::faults`]), so all faults of a
//! volume have one order, one record and one set of names.

use std::time::Instant;

use nfs_proto::nfs3::Procedure;
use volume::faults::{FaultKind, Faults, Kinds, Probe};

use crate::nfs::call::Served;
use crate::nfs::stats;

/// The faults that the filer itself executes.
pub(crate) const WIRE: Kinds = BEFORE.and(AFTER).and(SLOW);
const SLOW: Kinds = Kinds::of(&[FaultKind::Slow]);
const BEFORE: Kinds = Kinds::of(&[FaultKind::DropCall, FaultKind::ResetCall]);
const AFTER: Kinds = Kinds::of(&[FaultKind::DropReply, FaultKind::DelayReply, FaultKind::DuplicateReply, FaultKind::ResetReply]);

/// Serves a call with the faults that apply to it and to its reply.
pub(crate) fn around(
    faults: &Faults,
    procedure: Procedure,
    out: &mut Vec<u8>,
    serve: impl FnOnce(&mut Vec<u8>) -> Served,
) -> Served {
    let probe = Probe { on: stats::name(procedure), files: &[], range: None };
    if let Some(injection) = faults.inject(SLOW, &probe) {
        faults.wait(&injection);
    }
    match faults.inject(BEFORE, &probe).map(|injection| injection.kind) {
        Some(FaultKind::ResetCall) => return Served::Reset,
        Some(_) => return Served::Answered,
        None => {}
    }
    let mark = out.len();
    let served = serve(out);
    // Faults of replies need a reply.
    let answered = out.len() > mark && matches!(served, Served::Answered | Served::Due(_));
    let Some(injection) = answered.then(|| faults.inject(AFTER, &probe)).flatten() else { return served };
    match injection.kind {
        FaultKind::DuplicateReply => {
            out.extend_from_within(mark..);
            served
        }
        FaultKind::DelayReply => {
            let due = if let Served::Due(due) = served { due } else { Instant::now() };
            Served::Due(due + injection.delay)
        }
        kind => {
            out.truncate(mark);
            if kind == FaultKind::ResetReply { Served::Reset } else { Served::Answered }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use volume::faults::FaultSpec;

    use super::*;

    /// The result of a call with `reply` as its reply, and what is sent. The first value is `None` if the call was not
    /// executed.
    fn served(fault: &str) -> (Option<()>, Served, Vec<u8>) {
        let faults = Faults::default();
        faults.set(FaultSpec::parse(fault).unwrap()).unwrap();
        let (mut out, mut carried_out) = (b"before".to_vec(), None);
        let served = around(&faults, Procedure::Read, &mut out, |out| {
            carried_out = Some(());
            out.extend_from_slice(b"reply");
            Served::Answered
        });
        (carried_out, served, out.split_off(6))
    }

    #[test]
    fn each_fault_of_the_wire_does_what_it_is_called() {
        assert_eq!(served("drop-call"), (None, Served::Answered, vec![]));
        assert_eq!(served("reset-call"), (None, Served::Reset, vec![]));
        assert_eq!(served("drop-reply"), (Some(()), Served::Answered, vec![]));
        assert_eq!(served("reset-reply"), (Some(()), Served::Reset, vec![]));
        assert_eq!(served("duplicate-reply"), (Some(()), Served::Answered, b"replyreply".to_vec()));
        assert_eq!(served("drop-reply,on=WRITE+COMMIT"), (Some(()), Served::Answered, b"reply".to_vec()));
        assert_eq!(served("eio"), (Some(()), Served::Answered, b"reply".to_vec()));
    }

    #[test]
    fn a_slow_server_takes_its_time_and_a_delayed_reply_is_ready_but_delayed() {
        let begun = Instant::now();
        assert_eq!(served("slow,delay_ms=30").2, b"reply");
        assert!(begun.elapsed() >= Duration::from_millis(30));
        let begun = Instant::now();
        let (carried_out, Served::Due(due), reply) = served("delay-reply,delay_ms=60000") else { panic!("not delayed") };
        assert_eq!((carried_out, reply), (Some(()), b"reply".to_vec()));
        assert!(begun.elapsed() < Duration::from_secs(60) && due >= begun + Duration::from_secs(60));
    }
}
