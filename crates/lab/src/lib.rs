//! The laboratory: plans, storage paths, database lifecycle, measuring, comparison, report.
