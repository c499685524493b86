//! An apply or a revert may end at any step. Another revert then restores every byte.

use crate::change::{World, YesToAll, tree};
use tune::change::{ChangeError, JournalStatus, Root, State, Steps, apply, plan, revert};

const NOW: &str = "2026-11-21T20:00:00Z";

#[test]
fn whenever_an_apply_ends_a_revert_brings_back_every_byte() {
    sim::sweep(20, |_, mut rng| {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("root");
        let world = World::random(&place, &mut rng);
        let (root, state) = (Root::new(&place), State::new(folder.path().join("state")));
        let before = tree(&place);
        let planned = || plan(&world.rules, &world.facts, &world.findings, &root);

        // Applies everything once, to count the steps.
        let mut steps = Steps::new();
        let applied = apply(&planned(), &state, NOW, &mut YesToAll, &mut steps).unwrap();
        let steps_whole = steps.done();
        assert_eq!(
            applied.journal.is_some(),
            tree(&place) != before,
            "a journal is kept when something has changed, and only then"
        );
        let again = planned();
        let still: Vec<_> = again.groups.iter().flat_map(|group| &group.files).collect();
        assert!(still.is_empty(), "what is applied is what was planned: {still:?}");
        revert(&state, Some(&root), false, &mut Steps::new()).unwrap();
        assert_eq!(tree(&place), before);
        if steps_whole == 0 {
            return;
        }

        // The apply ends at a random step, then reverts end at random steps, then one revert runs
        // to its end.
        let (step, torn) = (rng.below(steps_whole), rng.chance(1, 2));
        let ended = apply(&planned(), &state, NOW, &mut YesToAll, &mut Steps::ending_at(step, torn));
        let is_interrupted = |error: &ChangeError| match error {
            ChangeError::Unchanged(cause) => matches!(**cause, ChangeError::Interrupted { .. }),
            error => matches!(error, ChangeError::Interrupted { .. }),
        };
        assert!(ended.as_ref().is_err_and(is_interrupted), "{ended:?} at step {step}");
        // If the apply ended between writing and syncing the last line, the journal may already be
        // complete.
        let open = state.journals().unwrap().iter().any(|(_, status, _)| *status == JournalStatus::Open);
        if open && !planned().is_empty() {
            let second = apply(&planned(), &state, NOW, &mut YesToAll, &mut Steps::new());
            assert!(matches!(second, Err(ChangeError::OpenJournal { .. })), "{second:?}");
        }
        for _ in 0..rng.below(4) {
            let mut steps = Steps::ending_at(rng.below(steps_whole), rng.chance(1, 2));
            match revert(&state, None, false, &mut steps) {
                Ok(_) => break,
                Err(error) => assert!(matches!(error, ChangeError::Interrupted { .. }), "{error:?}"),
            }
        }
        let reverted = revert(&state, None, false, &mut Steps::new()).unwrap();
        assert!(reverted.left.is_empty(), "{reverted:?}");
        assert_eq!(tree(&place), before, "after the end at step {step} of {steps_whole}, torn: {torn}");
        assert!(state.journals().unwrap().is_empty());

        // The next apply and revert work on the tree as on a new one.
        apply(&planned(), &state, NOW, &mut YesToAll, &mut Steps::new()).unwrap();
        revert(&state, None, false, &mut Steps::new()).unwrap();
        assert_eq!(tree(&place), before);
    });
}
