//! What the kernel counts beside processor time: soft interrupts, context switches, bytes on the wire.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use results::judgement::Wire;

use crate::{procfs, sys};

/// Counters at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pulse {
    /// Seconds of all processors in soft interrupts since boot.
    pub(crate) softirq_s: f64,
    /// Context switches of each thread by owner, threads that live now only.
    switches: BTreeMap<String, HashMap<u32, u64>>,
    /// Received bytes and packets of each network interface.
    interfaces: BTreeMap<String, (u64, u64)>,
}

/// What happened between two moments.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Beat {
    pub(crate) softirq_s: f64,
    pub(crate) switches: BTreeMap<String, u64>,
    loopback: (u64, u64),
    network: (u64, u64),
}

impl Pulse {
    /// Counts now for the process trees of each owner.
    pub(crate) fn take(owners: &[(&str, Vec<u32>)]) -> Self {
        let mut switches: BTreeMap<String, HashMap<u32, u64>> = BTreeMap::new();
        for (owner, roots) in owners {
            let threads = switches.entry((*owner).to_owned()).or_default();
            roots.iter().flat_map(|root| procfs::tree(*root)).for_each(|pid| threads.extend(thread_switches(pid)));
        }
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            softirq_s: softirq_ticks(&stat) as f64 / sys::ticks_per_second(),
            switches,
            interfaces: parse_interfaces(&fs::read_to_string("/proc/net/dev").unwrap_or_default()),
        }
    }

    /// From `self` to `later`. Threads that began or ended between are left out: their counters are not whole.
    pub(crate) fn until(&self, later: &Self) -> Beat {
        let mut switches = BTreeMap::new();
        for (owner, now) in &later.switches {
            let before = self.switches.get(owner);
            let gained = now.iter().filter_map(|(thread, count)| Some(count.saturating_sub(*before?.get(thread)?)));
            switches.insert(owner.clone(), gained.sum());
        }
        let mut beat = Beat { softirq_s: (later.softirq_s - self.softirq_s).max(0.0), switches, ..Beat::default() };
        for (name, (bytes, packets)) in &later.interfaces {
            let (bytes_before, packets_before) = self.interfaces.get(name).copied().unwrap_or((*bytes, *packets));
            let sum = if name == "lo" { &mut beat.loopback } else { &mut beat.network };
            sum.0 += bytes.saturating_sub(bytes_before);
            sum.1 += packets.saturating_sub(packets_before);
        }
        beat
    }
}

impl Beat {
    /// Bytes on the wire of a path that goes over the loopback interface or over the others. On loopback what one side
    /// sends the other receives, so the received bytes are both directions; elsewhere sent bytes are received by
    /// another host and `interfaces` holds both.
    pub(crate) fn wire(&self, over_loopback: bool) -> Wire {
        let (source, (bytes, packets)) =
            if over_loopback { ("loopback interface", self.loopback) } else { ("network interfaces", self.network) };
        Wire { source: source.to_owned(), bytes, packets }
    }
}

fn softirq_ticks(stat: &str) -> u64 {
    // user nice system idle iowait irq softirq
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    line.and_then(|line| line.split_whitespace().nth(6)?.parse().ok()).unwrap_or(0)
}

/// Switches, wanted and unwanted, of each thread of a process.
fn thread_switches(pid: u32) -> Vec<(u32, u64)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| {
            let thread = task.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            Some((thread, parse_switches(&status)))
        })
        .collect()
}

fn parse_switches(status: &str) -> u64 {
    let count = |line: &str| line.rsplit_once('\t').and_then(|(_, number)| number.trim().parse::<u64>().ok());
    status.lines().filter(|line| line.contains("voluntary_ctxt_switches")).filter_map(count).sum()
}

/// Interface to bytes and packets: of the loopback interface those received (they are those sent), of others both.
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
        assert_eq!(parse_switches("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t30\n"), 42);
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n    lo: 10 2 0 0 0 0 0 0 10 2 0 0\n  eth0: 5 1 0 0 0 0 0 0 7 3 0 0\n";
        let found = parse_interfaces(text);
        assert_eq!((found["lo"], found["eth0"]), ((10, 2), (12, 4)));
    }

    #[test]
    fn loopback_traffic_and_own_switches_are_seen_between_two_moments() {
        use std::io::{Read, Write};
        let own = [("self", vec![std::process::id()])];
        let before = Pulse::take(&own);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 100_000]).unwrap();
        far.read_exact(&mut vec![0; 100_000]).unwrap();
        let beat = before.until(&Pulse::take(&own));
        let wire = beat.wire(true);
        assert!(wire.bytes >= 100_000 && wire.packets > 0, "{wire:?}");
        assert!(beat.switches.contains_key("self"));
    }
}
