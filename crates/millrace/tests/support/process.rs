//! What the kernel reports about a process.

/// Ticks of the processor clock in a second, as in `/proc`.
pub const TICKS: u64 = 100;

/// The memory in a row of `/proc/PID/status` (`VmRSS:`), in bytes.
pub fn memory(pid: u32, row: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(row)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Processor time of a process, in ticks.
pub fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.split_whitespace().skip(13).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}
