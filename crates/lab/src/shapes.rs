//! Checks comparisons for relations between the figures of five vendor reports ("shapes"): shown, not shown, or could not
//! be shown, with the reason.
//!
//! Today's hosts, databases and caches differ from the reports' (their host had 2 to 8 cores and disks of 2003), so ratios
//! are printed beside the reports' but never asserted. A shape is checked in comparisons whose plan assigns its roles to configurations.

mod checks;
mod seen;

use std::fmt;

use results::compare::Comparison;

use checks::SHAPES;
use seen::Seen;

/// Calls for one write of 64 KiB with the limits of the three generations in TR-3322 section 4, oldest first.
pub type GenerationCalls = [u64; 3];

/// Result of checking a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The figures have the relation.
    Shown,
    /// The figures do not have it.
    NotShown,
    /// There are no figures.
    CouldNot,
}

/// One shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// `SC1` to `SC13`.
    pub id: &'static str,
    /// The expected relation.
    pub expectation: &'static str,
    /// The report's finding, with its place in the report.
    pub theirs: &'static str,
    /// Result of the check.
    pub outcome: Outcome,
    /// The figures of this check, or why there are none.
    pub ours: String,
    /// Date of the measurement and report that it reproduces; empty if there is no measurement.
    pub source: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Shown => "shown",
            Self::NotShown => "not shown",
            Self::CouldNot => "not tested",
        })
    }
}

/// Checks every shape. Of several comparisons that could show one, the last with figures counts.
#[must_use]
pub fn look(comparisons: &[Comparison], generations: Option<GenerationCalls>) -> Vec<Shape> {
    SHAPES.iter().map(|check| look_for(check, comparisons, generations)).collect()
}

fn look_for(check: &checks::Check, comparisons: &[Comparison], generations: Option<GenerationCalls>) -> Shape {
    let mut shape = Shape {
        id: check.id,
        expectation: check.expectation,
        theirs: check.theirs,
        outcome: Outcome::CouldNot,
        ours: "no record with the paths that it needs was given".to_owned(),
        source: String::new(),
    };
    if check.id == "SC11" {
        let Some(calls) = generations else {
            "its calls were not counted".clone_into(&mut shape.ours);
            return shape;
        };
        shape.outcome = outcome(calls == [8, 2, 1]);
        shape.ours = format!("{}, {} and {} calls, counted by the client", calls[0], calls[1], calls[2]);
        return shape;
    }
    for comparison in comparisons {
        let Some(roles) = comparison.roles.get(check.id) else { continue };
        match (check.look)(&Seen { comparison, roles }) {
            Ok((shown, figures)) => {
                let report = comparison.stands_for.as_ref().map_or("a plan of its own", |stands| stands.report.as_str());
                shape.outcome = outcome(shown);
                shape.ours = figures;
                shape.source = format!("{report}, {}", comparison.started_utc);
            }
            Err(why) if shape.outcome == Outcome::CouldNot => shape.ours = why,
            Err(_) => {}
        }
    }
    shape
}

const fn outcome(shown: bool) -> Outcome {
    if shown { Outcome::Shown } else { Outcome::NotShown }
}

/// The shapes as lines for a terminal.
#[must_use]
pub fn table(shapes: &[Shape]) -> String {
    let mut text = String::new();
    for shape in shapes {
        text += &format!("{:<5} {}: {}\n", shape.id, shape.outcome, shape.expectation);
        text += &format!("      reported: {}\n      measured: {}\n", shape.theirs, shape.ours);
    }
    let count = |wanted| shapes.iter().filter(|shape| shape.outcome == wanted).count();
    let (shown, not, none) = (count(Outcome::Shown), count(Outcome::NotShown), count(Outcome::CouldNot));
    text + &format!("{shown} shown, {not} not shown, {none} not tested\n")
}

/// The shapes as a table in Markdown.
#[must_use]
pub fn markdown(shapes: &[Shape]) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let mut text = "| | Expected | Reported | Measured | |\n|---|---|---|---|---|\n".to_owned();
    for shape in shapes {
        let source = if shape.source.is_empty() { String::new() } else { format!(" ({})", shape.source) };
        text += &format!(
            "| {} | {} | {} | {}{} | {} |\n",
            shape.id,
            cell(shape.expectation),
            cell(shape.theirs),
            cell(&shape.ours),
            cell(&source),
            shape.outcome
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::compare::{PathResult, PathStatus};
    use results::curves::LadderStep;
    use results::statistics::MeanInterval;
    use std::collections::BTreeMap;

    pub(super) fn arm(id: &str, oets: f64) -> PathResult {
        PathResult {
            name: "dnfs".to_owned(),
            arm: id.to_owned(),
            status: PathStatus::Measured,
            oets_per_minute: MeanInterval::of(&[oets]),
            ..PathResult::default()
        }
    }

    pub(super) fn comparison(shape: &str, roles: &[(&str, &str)], paths: Vec<PathResult>) -> Comparison {
        let roles = roles.iter().map(|(role, arm)| ((*role).to_owned(), (*arm).to_owned())).collect();
        Comparison { roles: BTreeMap::from([(shape.to_owned(), roles)]), paths, ..Comparison::default() }
    }

    fn find(shapes: &[Shape], id: &str) -> Shape {
        shapes.iter().find(|shape| shape.id == id).unwrap().clone()
    }

    #[test]
    fn the_reports_own_figures_have_their_shapes() {
        let generations = [("first", "a"), ("second", "b"), ("third", "c"), ("local", "l")];
        let paths = vec![arm("a", 40.0), arm("b", 60.0), arm("c", 80.0), arm("l", 100.0)];
        let releases = [("bound-slow", "k1"), ("bound-fast", "k2"), ("unbound-slow", "d1"), ("unbound-fast", "d2")];
        let seven = [("k1", 48_209.8), ("k2", 48_299.5), ("d1", 60_924.1), ("d2", 67_286.8)];
        let depth = [("shallow", "s"), ("deep", "t")];
        let given = [
            comparison("SC10", &generations, paths),
            comparison("SC5", &releases, seven.iter().map(|(id, oets)| arm(id, *oets)).collect()),
            comparison("SC2", &depth, vec![arm("s", 100.0), arm("t", 225.0)]),
        ];
        let shapes = look(&given, Some([8, 2, 1]));
        assert_eq!(shapes.len(), 13);
        for id in ["SC2", "SC5", "SC10", "SC11"] {
            assert_eq!(find(&shapes, id).outcome, Outcome::Shown, "{:?}", find(&shapes, id));
        }
        assert!(find(&shapes, "SC5").ours.contains("+10.4 %"), "{}", find(&shapes, "SC5").ours);
        assert_eq!(find(&look(&[], Some([4, 2, 1])), "SC11").outcome, Outcome::NotShown);
        assert!(table(&shapes).contains("4 shown, 0 not shown, 9 not tested"));
        assert_eq!(markdown(&shapes).lines().count(), 15);
    }

    #[test]
    fn a_skipped_arm_is_named_with_its_reason() {
        let mut missing = arm("fc", 1.0);
        missing.status = PathStatus::Skipped;
        missing.reason = Some("not built yet: Fibre Channel".to_owned());
        let roles = [("knfs", "knfs"), ("iscsi", "iscsi"), ("fc", "fc")];
        let given = comparison("SC3", &roles, vec![arm("knfs", 1.0), arm("iscsi", 1.0), missing]);
        let shape = find(&look(&[given], None), "SC3");
        assert_eq!(shape.outcome, Outcome::CouldNot);
        assert!(shape.ours.contains("fc") && shape.ours.contains("not built yet: Fibre Channel"), "{}", shape.ours);
    }

    #[test]
    fn fibre_channel_over_an_emulated_wire_is_not_held_against_iscsi_and_what_else_can_be_said_is() {
        let of = |path: &str, client: Option<&str>, oets| PathResult {
            name: path.to_owned(),
            client: client.map(str::to_owned),
            ..arm(path, oets)
        };
        let roles = [("knfs", "knfs"), ("iscsi", "iscsi"), ("fc", "fc")];
        let paths =
            |maker: Option<&str>| vec![of("knfs", None, 100.0), of("iscsi", Some("open-iscsi"), 104.0), of("fc", maker, 115.0)];
        let shape = |maker| find(&look(&[comparison("SC3", &roles, paths(maker))], None), "SC3");
        assert_eq!(shape(None).outcome, Outcome::Shown);
        let emulated = shape(Some("software-fcoe"));
        assert_eq!(emulated.outcome, Outcome::CouldNot);
        let words = "iSCSI +4.0 % of kernel NFS; Fibre Channel over an emulated wire is never ranked against iSCSI";
        assert!(emulated.ours.contains(words), "{}", emulated.ours);
    }

    #[test]
    fn slots_in_use_are_the_evidence_and_kernel_nfs_has_its_own_plateau_beside() {
        use results::compare::{CpuTime, Run};
        let of = |id: &str, oets: f64, (slots, mean): (u32, f64)| {
            let cpu = BTreeMap::from([("database".to_owned(), CpuTime { user_s: 10.0, sys_s: 2.0 })]);
            PathResult {
                slot_use: Some(results::judgement::SlotUse { slots, mean, max: slots, ..Default::default() }),
                runs: vec![Run { orders: 10, measured_s: 60.0, cpu, ..Run::default() }],
                ..arm(id, oets)
            }
        };
        let own = [("capped", "a"), ("capped-more-users", "b"), ("raised", "c")];
        let kernel = [("kernel-capped", "k"), ("kernel-capped-more-users", "l"), ("kernel-raised", "m")];
        let mut paths = vec![of("a", 100.0, (16, 15.5)), of("b", 101.0, (16, 15.9)), of("c", 260.0, (128, 62.0))];
        let shape = |roles: &[(&str, &str)], paths: &[PathResult]| {
            let mut given = comparison("SC1", roles, paths.to_vec());
            given.environment.cpu_count = 2;
            find(&look(&[given], None), "SC1")
        };
        let found = shape(&own, &paths);
        let words = "few slots: 10 % processor at 0 users (15.5 of 16 slots in use on average, 16 at most), orders +1.0 % at 0 (15.9 of 16 \
                     slots in use on average, 16 at most); many slots: 2.60 times (62.0 of 128 slots in use on average, 128 at most)";
        assert_eq!((found.outcome, found.ours.as_str()), (Outcome::Shown, words));
        paths.extend([of("k", 100.0, (16, 15.5)), of("l", 101.0, (16, 15.9)), of("m", 150.0, (128, 62.0))]);
        let found = shape(&[own, kernel].concat(), &paths);
        assert_eq!(found.outcome, Outcome::NotShown, "kernel NFS gains half: {}", found.ours);
        assert!(found.ours.contains("Kernel NFS: few slots") && found.ours.contains("many slots: 1.50 times"), "{}", found.ours);
    }

    #[test]
    fn a_gain_from_more_users_is_judged_by_what_the_seconds_of_the_runs_can_tell() {
        use results::compare::{CpuTime, Run};
        // Ten parts of 24 seconds, which are the batches of the error, each with a given number of orders per second.
        let of = |id: &str, parts: [u64; 10]| {
            let cpu = BTreeMap::from([("database".to_owned(), CpuTime { user_s: 1.0, sys_s: 1.0 })]);
            let per_second: Vec<u64> = parts.iter().flat_map(|orders| [*orders; 24]).collect();
            let orders: u64 = per_second.iter().sum();
            let oets_per_minute = orders as f64 / 4.0;
            let run = Run { round: 1, orders, measured_s: 240.0, cpu, per_second, oets_per_minute, ..Run::default() };
            PathResult { runs: vec![run], ..arm(id, oets_per_minute) }
        };
        let found = |more: [u64; 10]| {
            let roles = [("capped", "a"), ("capped-more-users", "b"), ("raised", "c")];
            let paths = vec![of("a", [7, 9, 8, 9, 7, 8, 9, 7, 8, 8]), of("b", more), of("c", [24; 10])];
            let mut given = comparison("SC1", &roles, paths);
            given.environment.cpu_count = 2;
            find(&look(&[given], None), "SC1")
        };
        let untold = found([8, 9, 8, 10, 7, 9, 9, 8, 8, 9]);
        assert_eq!(untold.outcome, Outcome::Shown, "{}", untold.ours);
        assert!(untold.ours.contains("orders +6.2 % (95 %: -3.4 to +16.8) at"), "{}", untold.ours);
        let gained = found([9; 10]);
        assert_eq!(gained.outcome, Outcome::NotShown, "{}", gained.ours);
        assert!(gained.ours.contains("orders +12.5 % (95 %: +5.1 to +20.4) at"), "{}", gained.ours);
        let too_uneven = found([7, 11, 9, 8, 10, 6, 11, 7, 10, 9]);
        assert_eq!(too_uneven.outcome, Outcome::NotShown, "{}", too_uneven.ours);
        assert!(too_uneven.ours.contains("orders +10.0 % (95 %: -5.2 to +27.6) at"), "{}", too_uneven.ours);
    }

    #[test]
    fn no_processor_time_of_a_guest_is_held_against_another() {
        use results::compare::{CpuTime, Run};
        let of = |id: &str, sys_s| {
            let cpu = BTreeMap::from([("database".to_owned(), CpuTime { user_s: 5.0, sys_s })]);
            PathResult { runs: vec![Run { orders: 1000, cpu, ..Run::default() }], ..arm(id, 100.0) }
        };
        let roles = [("dnfs", "d"), ("fc", "f"), ("knfs", "k")];
        let mut given = comparison("SC4", &roles, vec![of("d", 4.0), of("f", 4.0), of("k", 5.0)]);
        assert_eq!(find(&look(&[given.clone()], None), "SC4").outcome, Outcome::Shown);
        given.environment.guest = Some("emulated".to_owned());
        let found = find(&look(&[given], None), "SC4");
        let words = "Direct NFS +0.0 % of FC, processor per order -10.0 % of kernel NFS; measured in a guest (emulated): no processor time";
        assert_eq!(found.outcome, Outcome::CouldNot);
        assert!(found.ours.starts_with(words), "{}", found.ours);
    }

    #[test]
    fn the_largest_step_of_a_ladder_is_found_whatever_its_place() {
        let step = |place, name: &str, alone: f64, sum: f64| LadderStep {
            arm: "dnfs".to_owned(),
            place,
            name: name.to_owned(),
            alone: MeanInterval::of(&[alone]).filter(|_| place > 0),
            added_up: MeanInterval::of(&[sum]),
            ..LadderStep::default()
        };
        let mut given = comparison("SC7", &[("start", "start")], vec![arm("start", 1423.0)]);
        given.ladder = vec![step(0, "start", 0.0, 1423.0), step(1, "direct", 8282.0, 8282.0), step(2, "rest", 1800.0, 10_531.0)];
        let shape = find(&look(&[given.clone()], None), "SC7");
        assert_eq!(shape.outcome, Outcome::Shown, "{}", shape.ours);
        assert!(shape.ours.contains("5.82") && shape.ours.contains("1.27"), "{}", shape.ours);
        given.ladder[2].alone = MeanInterval::of(&[9000.0]);
        assert_eq!(find(&look(&[given], None), "SC7").outcome, Outcome::NotShown);
    }
}
