//! What drives a connection: a blocking thread per connection, one epoll reactor per core, one io_uring per core, and the filer
//! as it is. All serve the same volume by the same code, so what differs is the driver alone (docs/design/007-reactor.md).
//!
//! `cargo bench -p filer --bench drivers [-- SECONDS ROUNDS]`: 8 KiB reads of cached pages, for each number of connections and
//! depth. The client is a process of its own, so that the processor time of this one is the server's. Rounds are interleaved;
//! the table shows medians.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run says why and ends")]

mod client;
mod epoll;
mod stage;
mod sys;
mod thread;
mod uring;

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;

use client::{Load, Measured};
use stage::Stage;

/// Connections and calls out on each.
const SHAPES: [(usize, usize); 6] = [(1, 1), (1, 32), (4, 1), (4, 32), (64, 1), (64, 8)];

/// Serves whoever comes until the process ends.
type Driver = fn(TcpListener, Arc<Stage>);

const DRIVERS: [(&str, Driver); 4] =
    [("filer", stage::filer), ("thread", thread::serve), ("epoll", epoll::serve), ("io_uring", uring::serve)];

struct Run {
    measured: Measured,
    server_us: f64, // of processor time for each call
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|first| first == "--client") {
        return client::main(&arguments[1..]);
    }
    let seconds = arguments.first().map_or(2, |text| text.parse().expect("seconds"));
    let rounds = arguments.get(1).map_or(5, |text| text.parse().expect("rounds"));
    let stage = Arc::new(Stage::new());
    let served = DRIVERS.map(|(name, driver)| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stage = Arc::clone(&stage);
        std::thread::spawn(move || driver(listener, stage));
        (name, address)
    });
    println!("connections  depth  driver      calls/s   p50 us   server us/call   client us/call");
    for (connections, depth) in SHAPES {
        let load = Load { connections, depth, seconds };
        let mut runs: [Vec<Run>; 4] = Default::default();
        for _ in 0..rounds {
            for (of, (_, address)) in runs.iter_mut().zip(&served) {
                of.push(run(*address, &stage, load));
            }
        }
        for ((name, _), of) in served.iter().zip(&runs) {
            let median = |value: fn(&Run) -> f64| median(of.iter().map(value).collect());
            println!(
                "{connections:>11} {depth:>6}  {name:<9} {:>9.0} {:>8.1} {:>16.2} {:>16.2}",
                median(|run| run.measured.calls_per_s),
                median(|run| run.measured.p50_us),
                median(|run| run.server_us),
                median(|run| run.measured.client_us)
            );
        }
    }
}

fn run(address: SocketAddr, stage: &Stage, load: Load) -> Run {
    let program = std::env::current_exe().unwrap();
    let mut client = Command::new(program);
    client.arg("--client").args(load.arguments(address)).arg(stage.handle_hex());
    let before = sys::cpu();
    let output = client.output().unwrap();
    assert!(output.status.success(), "the client: {}", String::from_utf8_lossy(&output.stderr));
    let used = sys::cpu() - before;
    let measured = Measured::parse(&String::from_utf8(output.stdout).unwrap());
    let server_us = used.as_secs_f64() * 1e6 / measured.calls as f64;
    Run { measured, server_us }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
