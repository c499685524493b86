//! Shrinks a failing program: removes steps as long as it still fails.

use super::program::Step;

/// Removes spans of steps, each round half as long, while `fails` holds. Makes at most `tries` tries.
pub(crate) fn shrink(program: Vec<Step>, mut tries: u32, mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut smallest = program;
    let mut span = smallest.len().div_ceil(2);
    loop {
        let (mut from, mut shorter) = (0, false);
        while from < smallest.len() && tries > 0 {
            let mut without = smallest.clone();
            without.drain(from..(from + span).min(smallest.len()));
            tries -= 1;
            if fails(&without) {
                (smallest, shorter) = (without, true);
            } else {
                from += span;
            }
        }
        if tries == 0 || (span == 1 && !shorter) {
            return smallest;
        }
        span = if span == 1 { 1 } else { span.div_ceil(2) };
    }
}
