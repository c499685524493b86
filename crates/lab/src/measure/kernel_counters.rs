//! Counters of the kernel besides processor time: soft interrupts, context switches, waiting for a processor, bytes on the wire.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use results::judgement::Wire;

use crate::host::procfs;
use crate::sys;

/// Name for the context switches of the complete host: a client in the kernel works in threads that belong to no process.
const HOST: &str = "host";

/// Network interfaces of a path's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interfaces {
    /// Both sides are on this host.
    Loopback,
    /// The server is another host.
    Network,
    /// Both sides are on this host, on pairs of interfaces: each end counts every frame.
    Pairs,
}

/// Counters at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KernelCounters {
    /// Seconds of all processors in soft interrupts since boot.
    pub(crate) softirq_s: f64,
    /// Context switches of all processors since boot, including those of the kernel's own threads.
    host_switches: Option<u64>,
    /// Counters of each living thread by owner.
    threads: BTreeMap<String, HashMap<u32, Thread>>,
    /// Received bytes and packets of each network interface.
    interfaces: BTreeMap<String, (u64, u64)>,
}

/// Counters of one thread since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Thread {
    switches: u64,
    /// Nanoseconds in which it was ready to run and had no processor; `None` if the kernel does not report them.
    queued_ns: Option<u64>,
}

/// Differences between two moments.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KernelDelta {
    pub(crate) softirq_s: f64,
    pub(crate) switches: BTreeMap<String, u64>,
    /// Seconds in which threads of each owner were ready to run and had no processor, without owners for which the kernel does not
    /// report them.
    pub(crate) queued_s: BTreeMap<String, f64>,
    loopback: (u64, u64),
    network: (u64, u64),
}

impl KernelCounters {
    /// Reads the counters of each owner's process trees.
    pub(crate) fn read(owners: &[(&str, Vec<u32>)]) -> Self {
        let mut threads: BTreeMap<String, HashMap<u32, Thread>> = BTreeMap::new();
        for (owner, roots) in owners {
            let own = threads.entry((*owner).to_owned()).or_default();
            roots.iter().flat_map(|root| procfs::tree(*root)).for_each(|pid| own.extend(threads_of(pid)));
        }
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            softirq_s: softirq_ticks(&stat) as f64 / sys::ticks_per_second(),
            host_switches: host_switches(&stat),
            threads,
            interfaces: parse_interfaces(&fs::read_to_string("/proc/net/dev").unwrap_or_default()),
        }
    }

    /// The difference from `earlier` to `self`. Threads that started or ended in between are left out: their counters are incomplete.
    pub(crate) fn since(&self, earlier: &Self) -> KernelDelta {
        let mut delta = KernelDelta { softirq_s: (self.softirq_s - earlier.softirq_s).max(0.0), ..KernelDelta::default() };
        for (owner, now) in &self.threads {
            let before = earlier.threads.get(owner);
            let lived = || now.iter().filter_map(|(thread, turns)| Some((before?.get(thread)?, turns)));
            delta.switches.insert(owner.clone(), lived().map(|(then, now)| now.switches.saturating_sub(then.switches)).sum());
            let queued: Option<u64> = lived().map(|(then, now)| Some(now.queued_ns?.saturating_sub(then.queued_ns?))).sum();
            if let Some(ns) = queued {
                delta.queued_s.insert(owner.clone(), ns as f64 / 1e9);
            }
        }
        if let Some((now, before)) = self.host_switches.zip(earlier.host_switches) {
            delta.switches.insert(HOST.to_owned(), now.saturating_sub(before));
        }
        for (name, (bytes, packets)) in &self.interfaces {
            let (bytes_before, packets_before) = earlier.interfaces.get(name).copied().unwrap_or((*bytes, *packets));
            let sum = if name == "lo" { &mut delta.loopback } else { &mut delta.network };
            sum.0 += bytes.saturating_sub(bytes_before);
            sum.1 += packets.saturating_sub(packets_before);
        }
        delta
    }
}

impl KernelDelta {
    /// Bytes on the wire of a path. On loopback, one side receives what the other
    /// sends, so the received bytes are those of both directions. On other interfaces, another host receives the sent bytes, and
    /// `interfaces` contains both.
    pub(crate) fn wire(&self, interfaces: Interfaces) -> Wire {
        let (source, (bytes, packets)) = match interfaces {
            Interfaces::Loopback => ("loopback interface", self.loopback),
            Interfaces::Network => ("network interfaces", self.network),
            Interfaces::Pairs => ("pairs of virtual interfaces", (self.network.0 / 2, self.network.1 / 2)),
        };
        Wire { source: source.to_owned(), bytes, packets }
    }
}

fn host_switches(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

fn softirq_ticks(stat: &str) -> u64 {
    // user nice system idle iowait irq softirq
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    line.and_then(|line| line.split_whitespace().nth(6)?.parse().ok()).unwrap_or(0)
}

/// Maximum number of times that the threads of a process are listed.
const LISTINGS_MAX: u32 = 5;

/// The counters of each thread of a process.
fn threads_of(pid: u32) -> Vec<(u32, Thread)> {
    let counters_of = |thread: u32| {
        let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{thread}/{file}"));
        let switches = parse_switches(&of("status").ok()?);
        let queued_ns = of("schedstat").ok().and_then(|text| parse_queued(&text));
        Some((thread, Thread { switches, queued_ns }))
    };
    thread_ids(pid).into_iter().filter_map(counters_of).collect()
}

/// The threads of a process. A listing may miss one while others end (2 of 18,000 in a test), so a short listing is repeated.
fn thread_ids(pid: u32) -> Vec<u32> {
    let mut most = Vec::new();
    for _ in 0..LISTINGS_MAX {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { break };
        let listed: Vec<u32> = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        if listed.len() > most.len() {
            most = listed;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if parse_threads(&status).is_none_or(|threads| most.len() >= threads) {
            break;
        }
    }
    most
}

/// Number of threads of a process.
fn parse_threads(status: &str) -> Option<usize> {
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

/// Context switches, voluntary and involuntary.
fn parse_switches(status: &str) -> u64 {
    let count = |line: &str| line.rsplit_once('\t').and_then(|(_, number)| number.trim().parse::<u64>().ok());
    status.lines().filter(|line| line.contains("voluntary_ctxt_switches")).filter_map(count).sum()
}

/// Nanoseconds on a run queue: the second of three numbers (on a processor, on a run queue, time slices).
fn parse_queued(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// Interface to bytes and packets: for the loopback interface the received ones (the same as sent), for others both.
fn parse_interfaces(text: &str) -> BTreeMap<String, (u64, u64)> {
    let mut interfaces = BTreeMap::new();
    for line in text.lines() {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
        // Received: bytes packets errs drop fifo frame compressed multicast; then sent: bytes packets …
        let name = name.trim();
        let counts = if name == "lo" { (at(0), at(1)) } else { (at(0) + at(8), at(1) + at(9)) };
        interfaces.insert(name.to_owned(), counts);
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_read_by_their_fields() {
        assert_eq!(softirq_ticks("cpu  100 0 50 800 40 5 7 0 0 0\ncpu0 1 2\n"), 7);
        assert_eq!(softirq_ticks("rubbish"), 0);
        assert_eq!((host_switches("cpu 1\nctxt 4711\n"), host_switches("cpu 1\n")), (Some(4711), None));
        assert_eq!(parse_switches("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t30\n"), 42);
        assert_eq!(parse_queued("8123456 42000 17\n"), Some(42_000));
        assert_eq!(parse_queued(""), None);
        assert_eq!((parse_threads("Name:\tx\nThreads:\t17\n"), parse_threads("Name:\tx\n")), (Some(17), None));
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n    lo: 10 2 0 0 0 0 0 0 10 2 0 0\n  eth0: 5 1 0 0 0 0 0 0 7 3 0 0\n";
        let found = parse_interfaces(text);
        assert_eq!((found["lo"], found["eth0"]), ((10, 2), (12, 4)));
    }

    #[test]
    fn only_threads_that_live_at_both_moments_count_and_silence_of_the_kernel_is_no_zero() {
        let turns = |switches, queued_ns| Thread { switches, queued_ns };
        let counters = |threads: &[(u32, Thread)]| KernelCounters {
            threads: BTreeMap::from([("database".to_owned(), threads.iter().copied().collect())]),
            ..KernelCounters::default()
        };
        let before = counters(&[(1, turns(10, Some(500))), (2, turns(7, Some(9)))]);
        let delta = counters(&[(1, turns(30, Some(2_500_000_500))), (3, turns(9, Some(8)))]).since(&before);
        assert_eq!((delta.switches["database"], delta.queued_s["database"]), (20, 2.5));
        let silent = counters(&[(1, turns(30, None))]).since(&before);
        assert_eq!((silent.switches["database"], silent.queued_s.get("database")), (20, None));
    }

    #[test]
    fn loopback_traffic_and_own_switches_are_seen_between_two_moments() {
        use std::io::{Read, Write};
        let own = [("self", vec![std::process::id()])];
        let before = KernelCounters::read(&own);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 100_000]).unwrap();
        far.read_exact(&mut vec![0; 100_000]).unwrap();
        for _ in 0..5 {
            std::process::Command::new("true").status().unwrap(); // this thread waits for it
        }
        let delta = KernelCounters::read(&own).since(&before);
        let wire = delta.wire(Interfaces::Loopback);
        assert!(wire.bytes >= 100_000 && wire.packets > 0, "{wire:?}");
        // Threads and host are not read at the same instant, so neither count is a limit for the other.
        assert!(delta.switches["self"] > 0 && delta.switches[HOST] > 0, "{delta:?}");
    }
}
