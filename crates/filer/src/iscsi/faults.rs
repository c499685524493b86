//! Injected faults of commands and their responses, as for NFS calls ([`crate::nfs::faults`]): the same kinds, from the same
//! list of the volume. A response cannot be duplicated: TCP delivers it once, and the initiator would notice the repeated
//! number.

use std::time::Instant;

use volume::faults::{FaultKind, Faults, Kinds, Probe};

use crate::luns::Operation;

/// The faults that the filer itself executes.
pub(super) const WIRE: Kinds = crate::nfs::faults::WIRE;
const SLOW: Kinds = Kinds::of(&[FaultKind::Slow]);
const BEFORE: Kinds = Kinds::of(&[FaultKind::DropCall, FaultKind::ResetCall]);
const AFTER: Kinds = Kinds::of(&[FaultKind::DropReply, FaultKind::DelayReply, FaultKind::ResetReply]);

/// The fate of a command, or of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Goes,
    /// The filer drops it.
    Lost,
    /// The connection is reset.
    Reset,
    /// It leaves at this time.
    Late(Instant),
}

/// The names of commands in faults.
pub(crate) const fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "SCSI-READ",
        Operation::Write => "SCSI-WRITE",
        Operation::Flush => "SCSI-FLUSH",
        Operation::Unmap => "SCSI-UNMAP",
        Operation::Other => "SCSI-OTHER",
    }
}

/// The fate of a command before it is executed. Waits if a fault requires it.
pub(super) fn before(faults: &Faults, operation: Operation) -> Fate {
    let probe = Probe { on: name(operation), files: &[], range: None };
    if let Some(injection) = faults.inject(SLOW, &probe) {
        faults.wait(&injection);
    }
    match faults.inject(BEFORE, &probe).map(|injection| injection.kind) {
        None => Fate::Goes,
        Some(FaultKind::ResetCall) => Fate::Reset,
        Some(_) => Fate::Lost,
    }
}

/// The fate of the response, before it is sent. `due`: when it would leave, if a modelled medium sets that time.
pub(super) fn after(faults: &Faults, operation: Operation, due: Option<Instant>) -> Fate {
    let probe = Probe { on: name(operation), files: &[], range: None };
    let otherwise = due.map_or(Fate::Goes, Fate::Late);
    let Some(injection) = faults.inject(AFTER, &probe) else { return otherwise };
    match injection.kind {
        FaultKind::DelayReply => Fate::Late(due.unwrap_or_else(Instant::now) + injection.delay),
        FaultKind::ResetReply => Fate::Reset,
        _ => Fate::Lost,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use volume::faults::FaultSpec;

    use super::*;

    fn fates(fault: &str) -> (Fate, Fate) {
        let faults = Faults::default();
        faults.set(FaultSpec::parse(fault).unwrap()).unwrap();
        (before(&faults, Operation::Read), after(&faults, Operation::Read, None))
    }

    #[test]
    fn each_fault_of_the_wire_does_what_it_is_called() {
        assert_eq!(fates("drop-call"), (Fate::Lost, Fate::Goes));
        assert_eq!(fates("reset-call"), (Fate::Reset, Fate::Goes));
        assert_eq!(fates("drop-reply"), (Fate::Goes, Fate::Lost));
        assert_eq!(fates("reset-reply,on=SCSI-READ"), (Fate::Goes, Fate::Reset));
        assert_eq!(fates("drop-reply,on=SCSI-WRITE"), (Fate::Goes, Fate::Goes));
        let begun = Instant::now();
        let (Fate::Goes, Fate::Late(at)) = fates("delay-reply,delay_ms=5000") else { panic!("not late") };
        assert!(at >= begun + Duration::from_secs(5));
    }
}
