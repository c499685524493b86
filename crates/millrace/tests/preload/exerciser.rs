//! Random programs on a mount and on a local directory. The test compares every result that they
//! see, step by step, and at the end the files on the server's disk. The steps of all processes run
//! one after the other, so that results are exact.
//!
//! The test shrinks a failing program and prints it. `MILLRACE_PROGRAM=FILE` runs the steps of a
//! file, `MILLRACE_SEED=N` the program of one seed. `exerciser/known.rs` has the intended
//! differences, and the steps that are left out until a fault is fixed.

mod compare;
mod generate;
mod known;
mod loss;
mod program;
mod shrink;
mod side;

use crate::support::any_server::AnyServer;
use crate::support::{Scratch, environment_number, find_program, fuse, is_root, seeds, skip, skip_unsupported, succeed};
use compare::{Difference, Exerciser};
use program::Step;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Maximum number of runs of a failing program while it is shrunk, and the time limit.
const TRIES_MAX: u32 = 400;
const SHRINK_MAX: Duration = Duration::from_secs(60);
/// Number of failing programs that are shrunk. The others are only counted.
const FAILURES_MAX: usize = 12;

/// The programs use these mounts in turn: one as for a database, one as a server with old limits needs it.
const MOUNTS: [&str; 2] = ["", "&slots=1&writers=one&channels=1&split=8k"];

/// The conditions of a run.
#[derive(Clone, Copy)]
struct How {
    /// The filer goes down while programs run.
    faults: bool,
    /// Every second process has the export through FUSE.
    beside_fuse: bool,
    /// The server is NFS-Ganesha.
    ganesha: bool,
}

const PLAIN: How = How { faults: false, beside_fuse: false, ganesha: false };
const FAULTS: How = How { faults: true, ..PLAIN };
const BESIDE_FUSE: How = How { beside_fuse: true, ..PLAIN };
const GANESHA: How = How { ganesha: true, ..PLAIN };

#[test]
fn random_programs_see_the_same_on_a_mount_as_on_local_disk() {
    exercise(&seeds(|count| count * 12), PLAIN);
}

#[test]
#[ignore = "nightly: 1,000 programs, some minutes"]
fn a_thousand_random_programs_see_the_same_on_a_mount_as_on_local_disk() {
    exercise(&seeds(|_| 1000), PLAIN);
}

#[test]
fn random_programs_see_nothing_of_a_filer_that_is_killed_restarted_or_cut_off() {
    exercise(&seeds(|count| count * 5), FAULTS);
}

#[test]
#[ignore = "nightly: 300 programs with a filer that goes down within them, some minutes"]
fn many_random_programs_see_nothing_of_a_filer_that_is_killed_restarted_or_cut_off() {
    exercise(&seeds(|_| 300), FAULTS);
}

#[test]
fn random_programs_under_exec_and_through_fuse_at_once_see_the_same_as_on_local_disk() {
    exercise(&seeds(|count| count * 6), BESIDE_FUSE);
}

#[test]
#[ignore = "nightly: 500 programs, some minutes"]
fn many_random_programs_under_exec_and_through_fuse_at_once_see_the_same_as_on_local_disk() {
    exercise(&seeds(|_| 500), BESIDE_FUSE);
}

#[test]
#[ignore = "nightly: 200 programs with a filer that goes down within them, some minutes"]
fn random_programs_under_exec_and_through_fuse_at_once_see_nothing_of_a_filer_that_goes_down() {
    exercise(&seeds(|_| 200), How { faults: true, ..BESIDE_FUSE });
}

#[test]
fn fsync_says_what_a_power_cut_took_and_nothing_else_is_gone() {
    lose(&seeds(|count| count * 5));
}

#[test]
#[ignore = "nightly: 200 programs and some 600 power cuts, a minute"]
fn fsync_says_what_many_power_cuts_took_and_nothing_else_is_gone() {
    lose(&seeds(|_| 200));
}

#[test]
fn random_programs_see_the_same_on_ganesha_as_on_local_disk() {
    exercise(&seeds(|count| count * 6), GANESHA);
}

#[test]
#[ignore = "nightly: 500 programs, some minutes"]
fn many_random_programs_see_the_same_on_ganesha_as_on_local_disk() {
    exercise(&seeds(|_| 500), GANESHA);
}

#[test]
#[ignore = "nightly: 300 programs, some minutes"]
fn random_programs_under_exec_and_through_fuse_on_ganesha_see_the_same_as_on_local_disk() {
    exercise(&seeds(|_| 300), How { beside_fuse: true, ..GANESHA });
}

/// Runs programs on a mount that retains no written data. The filer loses power while some data is
/// not durable.
fn lose(seeds: &[u64]) {
    let scratch = Scratch::new("exerciser-actor");
    let Some(actor) = build(&scratch) else { return skip("no C compiler") };
    let mut world = Exerciser::new(&actor, &["--loss-layer"], "&retain=0", false);
    let mut told = 0;
    for seed in seeds {
        println!("seed {seed}");
        told += loss::Loss::run(&mut world, *seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    println!("losses told: {told}");
    assert!(told > 0 || seeds.len() < 5, "no power cut took anything: the test shows nothing");
}

/// Shrunk programs that once differed: what each showed, and its steps.
const ONCE_DIFFERED: [(&str, &str); 5] = [
    (
        "each of two names of an open file is gone when it is unlinked, and nothing hidden stays",
        "0 start 0\n0 mkdir D 777\n0 open 0 D/b rw+creat 600\n0 link D/b b\n0 unlink b\n0 unlink D/b\n0 ls .\n0 fstat 0",
    ),
    (
        "the same in one directory",
        "0 start 0\n0 open 0 a rw+creat 600\n0 link a b\n0 link a c\n0 unlink a\n0 unlink b\n0 ls .\n0 fstat 0\n0 fopen 0 e w\n0 rename e c\n0 ls .",
    ),
    ("linkat follows a link where it is asked to", "0 start 0\n0 creat 0 a\n0 symlink a l\n0 linkfollow l b\n0 lstat b"),
    (
        "a copy looks at its descriptors before its data",
        "0 start 0\n0 creat 0 a\n0 open 1 a r\n0 sendfile 1 1 0\n0 sendfile 1 3 9",
    ),
    (
        "lockf looks at a directory's locks, and no bytes of one can be read",
        "0 start 0\n0 mkdir D 777\n0 open 0 D r+dir\n0 lockf 0 test 0\n0 lockf 0 lock 0\n0 preadv 0 0 100\n0 preadv 0 9 0\n0 read 0 9",
    ),
];

#[test]
fn programs_that_once_differed_do_not() {
    let scratch = Scratch::new("exerciser-actor");
    let Some(actor) = build(&scratch) else { return skip("no C compiler") };
    let mut world = Exerciser::new(&actor, &[], "", false);
    for (shown, steps) in ONCE_DIFFERED {
        if let Some(difference) = world.run(&program::parse(steps)) {
            panic!("not so: {shown}: {difference:?}");
        }
    }
    assert_eq!(world.hidden_names(), [""; 0], "left behind");
}

/// Runs the programs of these seeds. Panics with the differences and the shrunk programs.
fn exercise(seeds: &[u64], how: How) {
    if how.beside_fuse && !fuse::has_fuse() {
        return;
    }
    if !is_root() {
        skip_unsupported("only root can be several users: the programs are those of one");
    }
    let scratch = Scratch::new("exerciser-actor");
    let Some(actor) = build(&scratch) else { return skip("no C compiler") };
    let world = |options: &&str| match (how.ganesha, how.faults) {
        (true, _) => Some(Exerciser::on(AnyServer::ganesha("exerciser-ganesha")?, &actor, options, how.beside_fuse)),
        (false, true) => Some(Exerciser::new(&actor, &["--loss-layer"], options, how.beside_fuse)),
        (false, false) => Some(Exerciser::new(&actor, &[], options, how.beside_fuse)),
    };
    let Some(mut worlds) = MOUNTS.iter().map(world).collect::<Option<Vec<_>>>() else { return };
    let programs: Vec<(u64, Vec<Step>)> = match std::env::var("MILLRACE_PROGRAM") {
        Ok(file) => {
            vec![(environment_number("MILLRACE_SEED").unwrap_or(0), program::parse(&std::fs::read_to_string(file).unwrap()))]
        }
        Err(_) => seeds.iter().map(|seed| (*seed, generate::generate(*seed, how.faults, how.beside_fuse))).collect(),
    };
    let mut failures = Vec::new();
    let mut steps: BTreeMap<String, u32> = BTreeMap::new();
    for (seed, program) in programs {
        let world = &mut worlds[(seed % MOUNTS.len() as u64) as usize];
        for step in &program {
            *steps.entry(step.name().to_owned()).or_default() += 1;
        }
        if let Some(difference) = world.run(&program) {
            let small = failures.len() < FAILURES_MAX;
            let failure = if small { explained(world, seed, program, &difference) } else { format!("seed {seed}\n") };
            println!("{failure}");
            failures.push(failure);
        }
    }
    for world in &worlds {
        assert!(world.segments() <= 1, "processes of one export are in different mounts");
        failures.extend(world.hidden_names().into_iter().map(|name| format!("left behind: {name}")));
    }
    println!("steps: {steps:?}");
    assert!(failures.is_empty(), "{} programs differ:\n{}", failures.len(), failures.join("\n"));
}

/// Shrinks a program while it fails at the same kind of step, and returns it as text with its difference.
fn explained(world: &mut Exerciser, seed: u64, mut program: Vec<Step>, difference: &Difference) -> String {
    let failing = |program: &[Step], at: usize| program.get(at).map(|step| step.name().to_owned());
    let name = failing(&program, difference.at);
    program.truncate(difference.at + 1);
    let end = Instant::now() + SHRINK_MAX;
    let small = shrink::shrink(program, TRIES_MAX, |program| {
        Instant::now() < end && world.run(program).is_some_and(|difference| failing(program, difference.at) == name)
    });
    let again = world.run(&small);
    let shown = again.as_ref().unwrap_or(difference);
    let unsteady = if again.is_none() { " (not in a second run of the smallest program)" } else { "" };
    let (local, mount, at) = (&shown.local, &shown.mount, shown.at + 1);
    format!("seed {seed}: at step {at}{unsteady}\n  local: {local}\n  mount: {mount}\n{}", program::print(&small))
}

/// Compiles the actor. `None` without a compiler.
fn build(scratch: &Scratch) -> Option<PathBuf> {
    let compiler = find_program("cc")?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/exerciser");
    let program = scratch.path().join("actor");
    let mut command = Command::new(compiler);
    command.args(["-O1", "-o"]).arg(&program);
    for name in ["actor", "files", "names", "streams", "locks", "processes", "more", "maps", "refused"] {
        command.arg(sources.join(name).with_extension("c"));
    }
    succeed(&mut command);
    Some(program)
}
