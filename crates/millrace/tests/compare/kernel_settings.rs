//! Settings of the kernel in a plan: set during a run, restored at its end, and after SIGKILL
//! restored by the next comparison.

use crate::support::compare::{Place, postgres_is_here};
use crate::support::{await_until, is_root, skip_unsupported, text};
use std::process::Stdio;
use std::time::Duration;

/// A higher value only permits more than programs ask for, so that no other program on the host notices it.
const SETTING: &str = "/proc/sys/net/core/rmem_max";
const PLAN: &str = r#"
schema = 1
paths = ["local"]
tunings = ["buffers"]
[tuning.buffers.kernel]
"net.core.rmem_max" = 67108864
[load]
warehouses = 1
users = 2
threads = 1
seconds = 4
warmup_seconds = 1
seed = 1
[runs]
repeats = 1
budget = "10m"
[database]
buffers_share = 0.25
"#;

fn now() -> String {
    std::fs::read_to_string(SETTING).unwrap().trim().to_owned()
}

#[test]
#[ignore = "nightly: a minute, and it changes a setting of this host for that time"]
fn a_buffer_of_the_network_is_changed_for_a_run_and_put_back_also_after_a_kill() {
    if !postgres_is_here() {
        return;
    }
    if !is_root() || std::fs::OpenOptions::new().write(true).open(SETTING).is_err() {
        return skip_unsupported("only root of a host that may change net.core.rmem_max");
    }
    let before = now();
    let place = Place::new();
    let plan = place.work().with_file_name("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let mut command = place.compare(&[plan.to_str().unwrap()]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    await_until("the setting of the plan", Duration::from_secs(120), || {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before its run began");
        (now() == "67108864").then_some(())
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(now(), "67108864");
    std::fs::remove_dir_all(place.out()).unwrap();

    let output = place.compare(&[plan.to_str().unwrap()]).output().unwrap();
    assert_eq!((output.status.code(), now()), (Some(0), before), "{}", text(&output));
    assert_eq!(place.record().paths[0].tuning, "buffers");
}
