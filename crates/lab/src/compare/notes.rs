//! Notes for the reader about how a comparison was carried out.

use results::compare::PlanRecord;

use crate::compare::prepare::Prepared;
use crate::plan::Plan;

/// Consequence of both sides on one host.
pub(crate) const REHEARSAL_NOTE: &str =
    "REHEARSAL: filer, database and driver share this host, so this compares mechanisms, not products";

/// Restriction on the use of the figures.
pub(crate) const DISCLAIMER: &str = "derived from the TPC-C specification; not comparable to published TPC-C results";

/// Change of this host's configuration during the runs.
const AWAKE_NOTE: &str = "this host's processors were kept awake (--keep-awake): idle ones polled instead of sleeping";

/// Restriction of a quick check.
pub(crate) const QUICK_NOTE: &str = "a quick check: a small database and short runs show that everything works, and its approximate speed; \
    there is no interval and hardly a checkpoint, so the figures are not to be cited";

/// Notes about how the comparison went: `before` runs were done by an earlier one, `left_out` do not count.
pub(super) fn notes(plan: &Plan, record: &PlanRecord, mut notes: Vec<String>, (before, left_out): (usize, u32)) -> Vec<String> {
    if before > 0 {
        notes.push(format!("resumed: {before} runs were done before, on a database loaded the same way"));
    }
    if plan.keep_awake {
        notes.push(AWAKE_NOTE.to_owned());
    }
    if plan.quick {
        notes.push(QUICK_NOTE.to_owned());
    }
    if let Some(other) = plan.gates_of_another {
        let (other, own) = (other.title(), plan.database.title());
        notes.push(format!("the plan's thresholds are promises about {other}: none was checked with {own}"));
    }
    notes.extend(of_runs(plan, record, left_out));
    notes
}

/// Notes about the runs of one scenario: `left_out` of them do not count.
pub(super) fn of_runs(plan: &Plan, record: &PlanRecord, left_out: u32) -> Vec<String> {
    let mut notes = Vec::new();
    if left_out > 0 {
        let hint = if plan.keep_awake { "" } else { "; --keep-awake may avoid that" };
        notes.push(format!(
            "{left_out} runs were repeated: the hypervisor gave more than a tenth of the processor time they wanted to other machines \
             (steal time); of each the one with the least steal time counts{hint}"
        ));
    }
    if record.repeats_done < record.repeats {
        notes.push(format!(
            "the budget of {} s ended after {} of {} rounds",
            record.budget_seconds, record.repeats_done, record.repeats
        ));
    }
    notes
}

/// Notes of the measured paths, each once.
pub(super) fn of_paths(prepared: &Prepared) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in prepared.measured.iter().filter_map(|arm| arm.path.kind.note()) {
        if !notes.iter().any(|known| known == note) {
            notes.push(note.to_owned());
        }
    }
    notes
}

/// Whether storage and database share this host in any configuration, and the consequence.
pub(super) fn rehearsal(prepared: &Prepared) -> (bool, String) {
    if prepared.measured.iter().any(|arm| arm.path.target.is_none()) {
        return (true, REHEARSAL_NOTE.to_owned());
    }
    match prepared.targets.iter().find(|target| target.this_host) {
        Some(target) => (true, format!("{REHEARSAL_NOTE} ({} is served by this host)", target.target)),
        None => (false, String::new()),
    }
}
