//! An arm that is measured, with the place of its files.

use crate::paths::placement::Placement;
use crate::plan::Arm;

/// An arm and where its files are put; the place is the same in every regime.
pub(super) struct MeasuredArm<'a> {
    pub(super) arm: &'a Arm,
    pub(super) placement: &'a mut dyn Placement,
}

/// Arms with the places of their files, one for each in the same order.
pub(super) fn placed<'a>(arms: &'a [Arm], places: &'a mut [Box<dyn Placement>]) -> Vec<MeasuredArm<'a>> {
    arms.iter().zip(places).map(|(arm, place)| MeasuredArm { arm, placement: &mut **place }).collect()
}
