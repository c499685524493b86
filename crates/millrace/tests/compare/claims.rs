//! The claims of the lab about itself, checked by measurement: three hours on an idle host (`make claims`).

use crate::support::compare::{Place, may_keep_awake, postgres_is_here};
use crate::support::{Scratch, millrace, skip};
use results::compare::Comparison;
use results::statistics::Difference;
use std::collections::BTreeMap;
use std::iter;

/// Number of comparisons of two equal paths.
const EQUALS: usize = 20;

/// Runs a comparison. `None` if PostgreSQL is missing here.
fn compare(arguments: &[&str]) -> Option<Comparison> {
    let scratch = Scratch::new("lab-claims");
    scratch.folder("work");
    let mut command = millrace();
    command.arg("compare").args(arguments).args(["--json", "--no-gates"]);
    if may_keep_awake() {
        command.arg("--keep-awake");
    }
    command.arg("--work").arg(scratch.path().join("work")).arg("--out").arg(scratch.path().join("out"));
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && errors.contains("PostgreSQL") {
        skip("no PostgreSQL server programs, compare can't be measured");
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}")))
}

#[test]
#[ignore = "claims: 45 minutes on a quiet host"]
fn equal_paths_show_no_difference_in_nineteen_of_twenty_comparisons() {
    let mut claims = Vec::new();
    for trial in 0..EQUALS {
        let seed = (1000 * (trial + 1)).to_string();
        let load = ["--warehouses", "2", "--seconds", "10", "--warmup", "4", "--repeats", "3", "--budget", "20m"];
        let paths = ["--path", "local:a", "--path", "local:b", "--seed", &seed];
        let Some(found) = compare(&[&paths[..], &load[..]].concat()) else { return };
        let line = &found.against_first[0];
        println!("{}", line.text);
        if line.difference != Difference::NotShown {
            claims.push(line.text.clone());
        }
    }
    assert!(claims.len() <= EQUALS / 20, "{} of {EQUALS} comparisons of equals claim a difference: {claims:#?}", claims.len());
}

#[test]
#[ignore = "claims: 20 minutes on a quiet host"]
fn a_path_five_percent_slower_is_found_at_constant_load() {
    // The load consists mostly of reads, and those of the second configuration take 5 % longer.
    let plan = Scratch::new("slower");
    let file = plan.path().join("slower.toml");
    let medium = |ms: &str| format!("spindles=64,service_ms={ms},placement=any,nvram=on");
    let text = format!(
        "schema = 1\n[[arm]]\npath = \"local\"\nmedium = \"{}\"\n[[arm]]\npath = \"local\"\nmedium = \"{}\"\n[load]\nwarehouses = 2\n\
         users = 4\nthreads = 2\nseconds = 20\nwarmup_seconds = 5\nseed = 1\n[runs]\nrepeats = 8\nbudget = \"40m\"\n[database]\n\
         buffers_share = 0.05\n",
        medium("4"),
        medium("4.2")
    );
    std::fs::write(&file, text).unwrap();
    let Some(found) = compare(&[file.to_str().unwrap()]) else { return };
    let line = &found.against_first[0];
    println!("{}", line.text);
    assert_eq!(line.difference, Difference::Shown, "{}", line.text);
    assert!(line.oets_ratio < 1.0, "{}", line.text);
}

#[test]
#[ignore = "claims: 15 minutes on a quiet host"]
fn a_planted_loss_of_ten_percent_fails_against_the_last_record_and_no_loss_passes() {
    if !postgres_is_here() {
        return;
    }
    // The load consists mostly of reads. A medium whose reads take a tenth longer is a real loss of
    // nearly a tenth.
    let medium = |ms: &str| format!("spindles=64,service_ms={ms},placement=any,nvram=on");
    let scratch = Scratch::new("planted");
    let plan = scratch.path().join("planted.toml");
    let text = "schema = 1\npaths = [\"local\"]\n[load]\nwarehouses = 2\nusers = 4\nthreads = 2\nseconds = 20\nwarmup_seconds = 5\n\
                seed = 1\n[runs]\nrepeats = 5\nbudget = \"40m\"\n[database]\nsystem = \"postgresql\"\nbuffers_share = 0.05\n";
    std::fs::write(&plan, text).unwrap();
    let plan = plan.to_str().unwrap();
    let records = scratch.folder("records");
    let measured = |ms: &str| {
        let place = Place::new();
        let history = records.to_str().unwrap();
        let mut command = place.compare(&[plan, "--medium", &medium(ms), "--against", "last", "--history", history]);
        let output = command.args(may_keep_awake().then_some("--keep-awake")).output().unwrap();
        println!("{}", String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default());
        (output.status.code(), place.record())
    };
    // The medium is a condition of the series, and on a host that became slower all records would
    // name the same medium. So the first record gets the second medium's name.
    let (code, mut first) = measured("4");
    assert_eq!(code, Some(0));
    let keep =
        |record: &Comparison| std::fs::write(records.join("results.json"), serde_json::to_string(record).unwrap()).unwrap();
    keep(&first);
    let (code, equal) = measured("4");
    assert_eq!(code, Some(0), "{:?}", equal.against_last);
    first.paths[0].medium.clone_from(&Some(medium("4.4")));
    keep(&first);
    let (code, slower) = measured("4.4");
    assert_eq!(code, Some(1), "{:?}", slower.against_last);
}

#[test]
#[ignore = "claims: 20 minutes on a quiet host"]
fn nine_of_ten_runs_of_one_load_have_one_bottleneck_at_busy_processors_and_at_busy_disks() {
    // Some users wait for the log or for a read at any time: two processors were 78 to 88 % busy
    // with six users, 87 to 96 % with sixteen.
    let users = |each: usize| (each * std::thread::available_parallelism().map_or(2, usize::from)).to_string();
    let (busy, busier) = (users(3), users(8));
    for load in [vec!["--users", &busy], vec!["--users", &busier], vec!["--users", "8", "--medium", "cloud"]] {
        let arms: Vec<String> = (0..10).flat_map(|run| ["--path".to_owned(), format!("dnfs:run-{run}")]).collect();
        let size = ["--warehouses", "4", "--seconds", "18", "--warmup", "8", "--repeats", "1", "--budget", "40m"];
        let arguments: Vec<&str> = arms.iter().map(String::as_str).chain(size).chain(load.iter().copied()).collect();
        let Some(found) = compare(&arguments) else { return };
        let mut names: BTreeMap<Vec<&str>, u32> = BTreeMap::new();
        for path in &found.paths {
            let bottleneck = path.bottleneck.as_ref().unwrap_or_else(|| panic!("{path:?}"));
            let second = bottleneck.runner_up.as_ref().filter(|second| second.close);
            let mut name: Vec<&str> =
                iter::once(&bottleneck.kind).chain(second.map(|second| &second.kind)).map(|kind| kind.as_str()).collect();
            name.sort_unstable();
            println!("{}: {name:?}, {}", path.arm, bottleneck.evidence);
            *names.entry(name).or_default() += 1;
        }
        assert!(found.paths.len() == 10 && names.values().any(|count| *count >= 9), "{load:?}: {names:?}");
    }
}

#[test]
#[ignore = "claims: 25 minutes on a quiet host"]
fn predictions_over_a_ladder_of_users_and_slots_are_within_ten_percent_in_the_median() {
    let Some(sizes) = errors_of_predictions("predict-ladder.toml") else { return };
    let median = sizes[sizes.len() / 2];
    assert!(median <= 10.0, "median error {median:.1} %");
}

#[test]
#[ignore = "claims: an hour on a quiet host"]
fn predictions_where_disks_are_the_limit_are_within_fifteen_percent_in_the_median_and_thirty_at_worst() {
    let Some(sizes) = errors_of_predictions("predict-disks.toml") else { return };
    let (median, worst) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    assert!(median <= 15.0 && worst <= 30.0, "median error {median:.1} %, worst {worst:.1} %");
}

/// Errors of a plan's predictions in percent without their sign, in ascending order. Predictions
/// with a doubt are left out.
fn errors_of_predictions(plan: &str) -> Option<Vec<f64>> {
    let found = compare(&[&format!("{}/../../plans/{plan}", env!("CARGO_MANIFEST_DIR"))])?;
    let sound = found.predictions.iter().filter(|point| point.doubt.is_none());
    let mut sizes: Vec<f64> = sound.map(|point| point.error_percent.abs()).collect();
    for point in &found.predictions {
        println!(
            "{}: {:.0} predicted from {}, {:.0} measured ({:+.1} %){}",
            point.held_out,
            point.predicted,
            point.fitted_on,
            point.measured,
            point.error_percent,
            point.doubt.as_ref().map_or_else(String::new, |doubt| format!(", not counted: {doubt}"))
        );
    }
    let all = found.predictions.len();
    assert!(all >= 10 && sizes.len() * 2 > all, "only {} of {all} points can be counted: measure on a quiet host", sizes.len());
    sizes.sort_by(f64::total_cmp);
    println!("median error {:.1} %, worst {:.1} %", sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    Some(sizes)
}
