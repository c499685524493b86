//! An arm that is measured, with the place of its files.

use crate::paths::placement::Placement;
use crate::plan::Arm;

/// An arm and where its files are put.
pub(super) struct MeasuredArm<'a> {
    pub(super) arm: &'a Arm,
    pub(super) placement: Box<dyn Placement>,
}
