//! One modelled medium for a filer and for local files. The same operations take the same time on
//! both, processes share it, and a killed process leaves no work in it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::filer::Filer;
use crate::support::{Scratch, await_until, find_program, millrace, preload_library, skip, succeed, text};
use media::{Counters, Profile, state_file_name};

/// Seeded work on a file, one operation after the other: reads, writes followed by an fsync, and
/// writes that are stable by themselves. Prints the mean time of a read and of a stable write in
/// milliseconds.
const WORK: &str = r"
import os, random, sys, time
path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
place = lambda: chance.randrange(512) * 8192
def mean(call):
    begin = time.monotonic()
    for _ in range(count): call()
    return (time.monotonic() - begin) / count * 1e3
plain = os.open(path, os.O_RDWR)
reads = mean(lambda: os.pread(plain, 8192, place()))
for _ in range(count): os.pwrite(plain, b'x' * 8192, place())
os.fsync(plain)
stable = os.open(path, os.O_RDWR | os.O_DSYNC)
writes = mean(lambda: os.pwrite(stable, b'y' * 8192, place()))
os.fsync(plain)
print(reads, writes)
";

/// A local directory on a medium, with its own state.
struct Local {
    scratch: Scratch,
    folder: PathBuf,
    medium: &'static str,
}

impl Local {
    fn new(label: &str, medium: &'static str) -> Self {
        let scratch = Scratch::new(label);
        let folder = scratch.folder("files").canonicalize().unwrap();
        std::fs::write(folder.join("f"), vec![7; 4 << 20]).unwrap();
        Self { scratch, folder, medium }
    }

    fn exec(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "90"]).arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).env("LC_ALL", "C").current_dir(&self.folder);
        command.env("MILLRACE_RUNTIME_DIR", self.scratch.path().join("run"));
        command.arg("exec").arg(format!("--local-medium={}={}", self.folder.display(), self.medium)).args(["--", program]);
        command
    }

    fn counters(&self) -> Counters {
        self.counters_if_any().unwrap()
    }

    fn counters_if_any(&self) -> Option<Counters> {
        let name = state_file_name(self.folder.as_os_str().as_encoded_bytes(), &Profile::parse(self.medium).unwrap().to_string());
        Counters::of_bytes(&std::fs::read(self.scratch.path().join("run").join(name)).ok()?)
    }
}

/// The two numbers that [`WORK`] prints.
fn means(printed: &str) -> [f64; 2] {
    let numbers: Vec<f64> = printed.split_whitespace().map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn the_filer_and_local_files_agree_on_one_medium() {
    const MEDIUM: &str = "fc15k,spindles=4,seed=7";
    const COUNT: u64 = 100;
    let Some(python) = find_program("python3") else { return skip("no python3 for programs") };
    let python = python.to_str().unwrap();
    let work = |command: &mut Command, path: &str| {
        means(&succeed(command.args(["-c", WORK, path, "42", &COUNT.to_string()]))) // seed 42
    };

    let local = Local::new("medium-local", MEDIUM);
    let on_local = work(&mut local.exec(python), local.folder.join("f").to_str().unwrap());
    let local_counted = local.counters();

    let scratch = Scratch::new("medium-filer");
    let filer = Filer::start(&scratch, &["--medium", MEDIUM]);
    std::fs::write(filer.export().join("f"), vec![7; 4 << 20]).unwrap();
    let mut exec = millrace();
    exec.env("MILLRACE_PRELOAD", preload_library()).args(["exec", "--mount", &format!("/db={}", filer.url), "--", python]);
    let on_filer = work(&mut exec, "/db/f");
    let medium = &filer.admin(r#"{"op":"stats"}"#)["medium"];
    let counted = |name: &str| medium[name].as_u64().unwrap();

    assert_eq!((counted("reads"), counted("writes")), (COUNT, 2 * COUNT));
    assert_eq!((local_counted.reads, local_counted.writes), (COUNT, 2 * COUNT));
    assert_eq!(counted("busy_ns"), local_counted.busy_ns, "the same chance: the same work of the spindles");
    assert_eq!(counted("read_ns"), local_counted.read_ns, "and of each read, one after the other");
    assert_eq!(counted("cache_hits"), 0);
    // The last fsync has nothing to do, so dnfs sends no call, and the model counts nothing.
    assert_eq!((counted("flushes"), local_counted.flushes), (1, 2));
    let modelled_read_ms = local_counted.read_ns as f64 / 1e6 / COUNT as f64;
    for (path, [read_ms, write_ms]) in [("local", on_local), ("filer", on_filer)] {
        println!("{path}: read {read_ms:.3} ms (modelled {modelled_read_ms:.3}), stable write {write_ms:.3} ms");
        assert!(read_ms >= modelled_read_ms * 0.99, "{path}: answers came before the medium was done");
        // A busy host adds time of its own. The counters above prove that nothing is counted twice.
        assert!(read_ms <= modelled_read_ms * 4.0 + 50.0, "{path}: {read_ms} ms for {modelled_read_ms}");
        assert!(write_ms >= 4.0, "{path}: a seek and half a turn are {write_ms} ms");
    }
}

#[test]
fn descriptors_are_known_over_dup_fork_and_exec() {
    let local = Local::new("medium-descriptors", "service_ms=1");
    let script = "exec 5<f 6>>g; dd bs=8k count=3 <&5 2>/dev/null >&6; (dd bs=8k count=2 <&5 2>/dev/null) | cat >&6
        cat /dev/null - </dev/null; dd if=/dev/zero bs=8k count=4 2>/dev/null | dd of=/dev/null bs=8k 2>/dev/null
        dd if=/dev/zero of=h bs=8k count=4 oflag=dsync 2>/dev/null; sync h; mv h i; ln -s i j; dd if=j of=/dev/null bs=8k 2>/dev/null";
    succeed(local.exec("/bin/sh").args(["-euc", script]));
    let counted = local.counters();
    // 3 + 2 blocks of f, and 4 of i through its link. Blocks outside the directory and beyond the
    // end of a file do not count.
    assert_eq!(counted.reads, 9);
    // 3 blocks to g by dd, 2 blocks by cat in one or two writes, and 4 stable blocks to h.
    assert!((3 + 1 + 4..=3 + 2 + 4).contains(&counted.writes), "{counted:?}");
    assert_eq!(counted.flushes, 1);
}

#[test]
fn a_killed_process_leaves_the_medium_to_the_others() {
    let Some(python) = find_program("python3") else { return skip("no python3 for programs") };
    let python = python.to_str().unwrap();
    let local = Local::new("medium-killed", "service_ms=2,placement=any,spindles=2");
    let crowd = "import os, threading\nfd = os.open('f', os.O_RDONLY)\ndef work():\n    while True: os.pread(fd, 8192, 0)\n\
                 for _ in range(8): threading.Thread(target=work).start()";
    let under_timeout = local.exec(python);
    // Without the timeout around it, because SIGKILL must hit the readers.
    let mut child = Command::new(millrace().get_program())
        .args(under_timeout.get_args().skip(4)) // timeout's own, and its program
        .args(["-c", crowd])
        .envs(under_timeout.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(&local.folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    await_until("the crowd to read", Duration::from_secs(20), || {
        local.counters_if_any().filter(|counted| counted.reads > 100).map(drop)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let before = local.counters();
    let took = std::time::Instant::now();
    succeed(local.exec("/bin/dd").args(["if=f", "of=/dev/null", "bs=8k", "count=50", "status=none"]));
    let after = local.counters();
    assert_eq!(after.reads - before.reads, 50);
    // At most the eight operations of the killed readers are still ahead of the first one.
    assert!(after.queued_ns - before.queued_ns <= 8 * 2_000_000, "{before:?} {after:?}");
    assert!(took.elapsed() >= Duration::from_millis(100), "50 reads of 2 ms");
}

#[test]
fn hundreds_wait_on_one_connection_at_little_cost() {
    const DEPTH: u32 = 200;
    let scratch = Scratch::new("medium-depth");
    let filer = Filer::start(&scratch, &["--medium", "spindles=400,service_ms=250,placement=any"]);
    std::fs::write(filer.export().join("f.bench"), vec![1; 8 << 20]).unwrap();
    let url = filer.url.replace("/vol?", "/vol/f.bench?");
    let bench = ["nfs", "bench", &url, "--depth", &DEPTH.to_string(), "--seconds", "2", "--json"];
    let printed: serde_json::Value = serde_json::from_str(&succeed(millrace().args(bench))).unwrap();
    let iops = printed["iops"].as_f64().unwrap();
    let most = f64::from(DEPTH) / 0.250;
    println!("depth {DEPTH} at 250 ms: {iops:.0} of {most:.0} IOPS, p50 {} us", printed["p50_us"]);
    assert!(iops <= most * 1.01, "{iops} reads a second are more than {DEPTH} at once can be");
    // One after the other, the reads would reach 1/200 of the maximum. bench/medium.py measures how
    // close they come to all of it.
    assert!(iops >= most * 0.1, "{iops} reads a second: they did not wait side by side");
    assert!(printed["p50_us"].as_f64().unwrap() >= 249_000.0);
    // A listing of threads may omit one while others end, as the threads of the connections do now.
    let cpu_ms = await_until("one thread that delays replies", Duration::from_secs(20), || {
        let (cpu_ms, threads) = cpu_of_threads(filer.pid(), "medium");
        (threads == 1).then_some(cpu_ms)
    });
    let replies = filer.calls("READ") as f64;
    println!("{replies} replies delayed by one thread for {cpu_ms} ms of CPU");
    // A thread that spins would use both seconds. bench/medium.py measures its cost on an idle host.
    assert!(cpu_ms <= 1000.0, "{cpu_ms} ms of CPU for {replies} replies: does it spin?");
    assert_eq!(filer.admin(r#"{"op":"stats"}"#)["medium"]["reads"].as_f64().unwrap(), replies);
}

/// Processor time in milliseconds of a process' threads with this name, and their number (proc(5):
/// fields 14 and 15 of stat, in ticks of 10 ms).
fn cpu_of_threads(pid: u32, name: &str) -> (f64, usize) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let named = stats.filter(|stat| stat.contains(&format!("({name})")));
    let ticks = named.map(|stat| {
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        fields[11] + fields[12]
    });
    ticks.fold((0.0, 0), |(sum, count), ticks| (sum + ticks as f64 * 10.0, count + 1))
}

#[test]
fn without_a_medium_no_reply_is_held_and_none_is_counted() {
    let scratch = Scratch::new("medium-none");
    let filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("f"), b"here").unwrap();
    assert_eq!(succeed(millrace().args(["nfs", "cat", &filer.url.replace("/vol?", "/vol/f?")])), "here");
    assert_eq!(filer.admin(r#"{"op":"stats"}"#)["medium"], serde_json::Value::Null);
    assert_eq!(cpu_of_threads(filer.pid(), "medium").1, 0, "the thread that delays replies");
}

#[test]
fn a_filer_that_is_stopped_sends_what_it_holds_first() {
    let scratch = Scratch::new("medium-stop");
    let mut filer = Filer::start(&scratch, &["--medium", "service_ms=1500"]);
    std::fs::write(filer.export().join("f"), b"late").unwrap();
    let reader = millrace().args(["nfs", "cat", &filer.url.replace("/vol?", "/vol/f?")]).stdout(Stdio::piped()).spawn().unwrap();
    await_until("the read to be delayed", Duration::from_secs(20), || (filer.calls("READ") > 0).then_some(()));
    assert_eq!(filer.stop(), Some(0));
    assert_eq!(String::from_utf8_lossy(&reader.wait_with_output().unwrap().stdout), "late");
}

#[test]
fn a_medium_that_makes_no_sense_is_refused_before_anything_starts() {
    let local = Local::new("medium-refused", "fc15k,spindels=8");
    for mut command in [local.exec("true"), {
        let mut serve = millrace();
        serve.arg("serve").arg(&local.folder).args(["--medium", local.medium, "--listen", "127.0.0.1:0"]);
        serve
    }] {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("did you mean spindles?"), "{}", text(&output));
    }
}
