//! A measured configuration, with the place of its files.

use crate::paths::placement::Placement;
use crate::plan::Arm;

/// A configuration and the place of its files; the place is the same in every scenario.
pub(super) struct MeasuredArm<'a> {
    pub(super) arm: &'a Arm,
    pub(super) placement: &'a mut dyn Placement,
}

/// Configurations with the places of their files, in the same order.
pub(super) fn placed<'a>(arms: &'a [Arm], places: &'a mut [Box<dyn Placement>]) -> Vec<MeasuredArm<'a>> {
    arms.iter().zip(places).map(|(arm, place)| MeasuredArm { arm, placement: &mut **place }).collect()
}
