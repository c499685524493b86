//! A filer with a thousand volumes starts in seconds and takes nearly no processor time while it is idle.

use std::time::{Duration, Instant};

use crate::support::Scratch;
use crate::support::configured::Configured;
use crate::support::process::{TICKS, ticks};
use crate::support::wire::Wire;

const VOLUMES: usize = 1000;

#[test]
#[ignore = "nightly: a thousand volumes, ten seconds"]
fn a_thousand_volumes_start_in_five_seconds_and_take_a_hundredth_of_a_processor_while_idle() {
    let scratch = Scratch::new("many-volumes");
    let mut volumes = String::new();
    for number in 0..VOLUMES {
        std::fs::write(scratch.folder(&format!("v{number}")).join("file"), number.to_string()).unwrap();
        volumes += &format!("[[volume]]\nname = \"v{number}\"\ndir = \"DIR/v{number}\"\nsquash = \"none\"\nclients = [\"*\"]\n");
    }
    let begun = Instant::now();
    let filer = Configured::start(&scratch, &volumes);
    let started = begun.elapsed();
    let mut wire = Wire::connect(filer.port(0));
    let mut slowest = Duration::ZERO;
    for number in 0..VOLUMES {
        let begun = Instant::now();
        let root = wire.mount(&format!("/v{number}")).unwrap();
        let found = wire.lookup(root, "file").unwrap();
        assert_eq!(found.attributes.unwrap().size, number.to_string().len() as u64);
        slowest = slowest.max(begun.elapsed());
    }
    let before = ticks(filer.pid());
    std::thread::sleep(Duration::from_secs(5)); // the duration of the measurement
    let idle = ticks(filer.pid()) - before;
    println!("{VOLUMES} volumes: start {started:?}, slowest MNT and LOOKUP {slowest:?}, {idle} ticks in 5 s of idling");
    assert!(started <= Duration::from_secs(5), "{started:?}");
    assert!(idle <= 5 * TICKS / 100, "{idle} ticks");
}
