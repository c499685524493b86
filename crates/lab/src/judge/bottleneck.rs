//! The bottleneck of a configuration: the classes of TR-3322 section 3 (host CPU, disk, limited concurrency), refined by the
//! waits of the sessions, with the figures that show it and the next thing to try.

use std::sync::LazyLock;

use results::compare::{Bottleneck, BottleneckClass, BottleneckKind, LoadModel, PathResult, Run, SessionState};

use super::figures::{
    DRIVER_BUSY_LIMIT, Figures, HOST_BUSY_LIMIT, ONE_CONNECTION_BUSY, QUEUEING_BUSY, QUEUEING_RATIO, SLOTS_TAKEN_LIMIT,
    SLOTS_WAITED_LIMIT, WAIT_LIMIT,
};
use super::runner_up;
use super::{OTHERS_BUSY_MAX, STOLEN_MAX, share};
use crate::database::kind::DatabaseKind;
use crate::paths;

/// What to try if calls wait for a place in flight: the setting of each path that has one.
static MORE_SLOTS: LazyLock<String> = LazyLock::new(|| format!("more slots ({})", paths::each(|path| path.more_in_flight())));
/// What to try if one connection is busy.
static MORE_CONNECTIONS: LazyLock<String> =
    LazyLock::new(|| format!("more connections ({})", paths::each(|path| path.more_connections())));

/// A finding before its evidence is written.
pub(super) struct Finding {
    pub(super) kind: BottleneckKind,
    class: BottleneckClass,
    because: String,
    next: &'static str,
}

/// Determines the bottleneck of a configuration from its runs and figures.
pub(super) fn judge(path: &PathResult, database: DatabaseKind) -> Bottleneck {
    let figures = Figures::of(path);
    let finding = find(path, &figures, database);
    let (score, runner_up) = runner_up::rank(path, &figures, &|moved| find(path, moved, database).kind, &finding.kind);
    let cpu = path.cpu.clone().unwrap_or_default();
    let users = path.runs.first().and_then(|run| run.load.as_ref()).map(|load| load.users).or(path.users).unwrap_or(0);
    let in_flight = path.io.as_ref().map_or(0.0, |io| io.in_flight_mean);
    let mut shares: Vec<(SessionState, f64)> = figures.waits.by_state().into_iter().filter(|(_, part)| *part >= 0.005).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sampled: Vec<String> = shares.iter().map(|(state, part)| format!("{state} {:.0} %", part * 100.0)).collect();
    let queued = figures
        .queued
        .map_or_else(String::new, |part| format!("; sessions wait {:.0} % of their time for a processor", part * 100.0));
    let evidence = format!(
        "{}; host {:.0} % busy ({:.0} % by processes outside the comparison){queued}; {in_flight:.2} of {users} users in a \
         block read on average; sessions sampled: {}",
        finding.because,
        cpu.host_busy_share * 100.0,
        cpu.others_busy_share * 100.0,
        if sampled.is_empty() { "none".to_owned() } else { sampled.join(", ") },
    );
    Bottleneck { kind: finding.kind, class: finding.class, evidence, next: finding.next.to_owned(), shares, score, runner_up }
}

pub(super) fn find(path: &PathResult, figures: &Figures, database: DatabaseKind) -> Finding {
    if let Some(finding) = interference(figures) {
        return finding;
    }
    if let Some(busy) = figures.driver.filter(|busy| *busy >= DRIVER_BUSY_LIMIT) {
        return Finding {
            kind: BottleneckKind::Driver,
            class: BottleneckClass::HostCpu,
            because: format!("the driver's threads are {:.0} % busy", busy * 100.0),
            next: "give the driver more threads or a host of its own, or send transactions as stored functions",
        };
    }
    if figures.busy >= HOST_BUSY_LIMIT {
        return host_cpu(path, "the processors are used up".to_owned());
    }
    if figures.queueing_for_processors() >= 1.0 {
        return host_cpu(path, "sessions queue for the processors".to_owned());
    }
    let (largest, part) = figures.longest_wait();
    let percent = part * 100.0;
    match largest {
        _ if part < WAIT_LIMIT => no_wait(path, figures),
        SessionState::BlockReads => reads(path, figures, part),
        SessionState::Log => Finding {
            kind: BottleneckKind::LogFlush,
            class: BottleneckClass::Disk,
            because: format!(
                "sessions spend {percent:.0} % of their time until the log is on stable storage{}",
                log_words(&path.runs)
            ),
            next: database.system().advice().log_flush,
        },
        SessionState::Locks => Finding {
            kind: BottleneckKind::LockWait,
            class: BottleneckClass::Concurrency,
            because: format!("sessions spend {percent:.0} % of their time waiting for locks"),
            next: "spread the same users over more warehouses; storage is not what they wait for",
        },
        _ => Finding {
            kind: BottleneckKind::Disk,
            class: BottleneckClass::Disk,
            because: format!("sessions spend {percent:.0} % of their time writing data pages themselves"),
            next: database.system().advice().data_writes,
        },
    }
}

/// Other programs used processors that the comparison may have needed.
fn interference(figures: &Figures) -> Option<Finding> {
    if figures.others > OTHERS_BUSY_MAX {
        return Some(Finding {
            kind: BottleneckKind::Interference,
            class: BottleneckClass::None,
            because: "processes outside the comparison took processor time that may have been needed".to_owned(),
            next: "measure on a quiet host: millrace compare --repeats 5",
        });
    }
    if figures.stolen > STOLEN_MAX {
        return Some(Finding {
            kind: BottleneckKind::Interference,
            class: BottleneckClass::None,
            because: format!(
                "the hypervisor gave {:.0} % of the processor time wanted here to other machines (steal time)",
                figures.stolen * 100.0
            ),
            next: "measure with --keep-awake, when the hypervisor is less busy, or on a host of its own",
        });
    }
    None
}

fn host_cpu(path: &PathResult, because: String) -> Finding {
    let owners = path.cpu.as_ref().map(|cpu| &cpu.by_owner);
    let largest = owners.and_then(|all| all.iter().max_by(|a, b| a.1.s_per_1000_orders.total_cmp(&b.1.s_per_1000_orders)));
    let words = largest.map_or_else(String::new, |(owner, cost)| {
        let kernel = share(cost.sys_s, cost.user_s + cost.sys_s) * 100.0;
        format!("; {owner} takes the most ({:.2} s for 1,000 orders, {kernel:.0} % of it in the kernel)", cost.s_per_1000_orders)
    });
    Finding {
        kind: BottleneckKind::HostCpu,
        class: BottleneckClass::HostCpu,
        because: because + &words,
        next: "more or faster processors, or less of them for each order: stored functions, larger buffers, a path that costs \
               less; faster storage will not help",
    }
}

/// Sessions do not wait for a particular resource: there is unused capacity, and the load is too small.
fn no_wait(path: &PathResult, figures: &Figures) -> Finding {
    let closed = path.runs.iter().all(|run| run.load.as_ref().is_none_or(|load| load.model == LoadModel::Closed));
    if !closed {
        return Finding {
            kind: BottleneckKind::Concurrency,
            class: BottleneckClass::Concurrency,
            because: "the load is offered at its own pace and nothing is used up".to_owned(),
            next: "raise the rate or the number of terminals until something is",
        };
    }
    if figures.busy >= QUEUEING_BUSY {
        return host_cpu(path, "the processors are nearly used up and sessions wait for nothing else".to_owned());
    }
    Finding {
        kind: BottleneckKind::Concurrency,
        class: BottleneckClass::Concurrency,
        because: format!(
            "processors idle {:.0} % of the time and no wait stands out (running {:.0} %, client {:.0} %): the system could do \
             more than it is asked",
            (1.0 - figures.busy) * 100.0,
            figures.waits.running * 100.0,
            figures.waits.client * 100.0
        ),
        next: "more users (--load saturate finds how many)",
    }
}

/// Sessions wait for reads; the cause depends on where the reads wait.
fn reads(path: &PathResult, figures: &Figures, part: f64) -> Finding {
    let waiting = format!("sessions spend {:.0} % of their time in block reads", part * 100.0);
    if let Some(slots) = path.slot_use.as_ref().filter(|slots| slots.slots > 0) {
        let (taken, waited) = (figures.slots_taken.unwrap_or(0.0), figures.slots_waited.unwrap_or(0.0));
        if taken >= SLOTS_TAKEN_LIMIT || waited >= SLOTS_WAITED_LIMIT {
            return Finding {
                kind: BottleneckKind::Slots,
                class: BottleneckClass::Concurrency,
                because: format!(
                    "{waiting}, and {:.1} of {} slots are taken on average; {}",
                    slots.mean,
                    slots.slots,
                    // A client in the kernel counts how long calls waited, but not how many did.
                    match (slots.waits, slots.wait_s > 0.0) {
                        (0, true) => format!("a call waited {:.1} ms to be sent", slots.wait_s * 1e3 / slots.calls.max(1) as f64),
                        _ => format!("{:.0} % of the calls waited for one", waited * 100.0),
                    }
                ),
                next: &MORE_SLOTS,
            };
        }
    }
    if let Some(busy) = figures.connection.filter(|busy| *busy >= ONE_CONNECTION_BUSY) {
        return Finding {
            kind: BottleneckKind::OneConnection,
            class: BottleneckClass::Concurrency,
            because: format!("{waiting}, all over one connection whose server side is {:.0} % busy", busy * 100.0),
            next: &MORE_CONNECTIONS,
        };
    }
    if let Some(found) = figures.queueing.filter(|found| found.ratio >= QUEUEING_RATIO) {
        let queued = if found.by_medium {
            let waits = found.ratio - 1.0;
            format!("operations on the medium wait {waits:.1} x as long for their spindle as it works for them")
        } else {
            format!("a read takes {:.1} x what the quickest tenth takes: they queue at the storage", found.ratio)
        };
        return Finding {
            kind: BottleneckKind::Disk,
            class: BottleneckClass::Disk,
            because: format!("{waiting}, and {queued}"),
            next: "more spindles or a faster medium, or fewer reads: larger buffers",
        };
    }
    let mean = path.block_read_us.as_ref().map_or(0.0, |read| read.mean);
    let network = paths::of(path).is_some_and(|found| found.layers().network.is_some());
    Finding {
        kind: BottleneckKind::Concurrency,
        class: BottleneckClass::Concurrency,
        because: format!(
            "{waiting} of {mean:.0} us each, while the processors idle: each user has one read outstanding, and nothing says that \
             the storage could not serve more"
        ),
        next: if network {
            "more users; a read costs what the path's latency is, so a shorter path or larger buffers help each of them"
        } else {
            "more users; a faster medium or larger buffers help each of them"
        },
    }
}

fn log_words(runs: &[Run]) -> String {
    let syncs: u64 = runs.iter().map(|run| run.database.log_syncs).sum();
    let ms: f64 = runs.iter().map(|run| run.database.log_sync_ms).sum();
    if syncs == 0 || ms <= 0.0 {
        return String::new();
    }
    let commits: u64 = runs.iter().map(|run| run.database.commits).sum();
    format!(" ({:.2} ms for each flush, {:.1} commits share one)", ms / syncs as f64, commits as f64 / syncs as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use results::compare::{Cpu, CpuTime, MediumCounts, RunLoad};
    use results::judgement::{ReadLatency, SlotUse};

    use super::*;

    fn path(busy: f64, waits: &[(&str, f64)]) -> PathResult {
        let load = RunLoad { model: "closed".into(), users: 8, threads: 2, ..RunLoad::default() };
        let run = Run {
            measured_s: 30.0,
            waits: waits.iter().map(|(event, part)| ((*event).to_owned(), *part)).collect(),
            cpu: BTreeMap::from([("driver".to_owned(), CpuTime { user_s: 5.0, sys_s: 1.0 })]),
            load: Some(load),
            ..Run::default()
        };
        let cpu = Cpu { host_busy_share: busy, ..Cpu::default() };
        PathResult { name: "dnfs".into(), cpu: Some(cpu), runs: vec![run], ..PathResult::default() }
    }

    fn kind(path: &PathResult) -> (BottleneckKind, BottleneckClass) {
        let found = judge(path, DatabaseKind::default());
        assert!(!found.next.is_empty() && !found.evidence.is_empty(), "{found:?}");
        (found.kind, found.class)
    }

    fn named(kind: &str, class: &str) -> (BottleneckKind, BottleneckClass) {
        (kind.into(), class.into())
    }

    #[test]
    fn the_three_classes_of_the_report_are_told_apart() {
        assert_eq!(kind(&path(0.97, &[("running", 0.9)])), named("host_cpu", "host CPU"));
        let mut queueing = path(0.4, &[("IO:DataFileRead", 0.7)]);
        queueing.read_latency = Some(ReadLatency {
            count: 100,
            sum_us: 100.0 * 900.0,
            bounds_us: vec![100.0, 200.0, 2000.0],
            counts: vec![20, 0, 80, 0],
        });
        assert_eq!(kind(&queueing), named("disk", "disk"));
        // A medium with varying service times has fast reads without a queue; its own counter shows how long they wait.
        queueing.runs[0].medium = Some(MediumCounts { busy_s: 100.0, queued_s: 2.0, ..MediumCounts::default() });
        assert_eq!(kind(&queueing), named("concurrency", "concurrency"));
        queueing.runs[0].medium = Some(MediumCounts { busy_s: 100.0, queued_s: 150.0, ..MediumCounts::default() });
        assert_eq!(kind(&queueing), named("disk", "disk"));
        assert_eq!(kind(&path(0.4, &[("IO:DataFileRead", 0.7)])), named("concurrency", "concurrency"));
        assert_eq!(kind(&path(0.4, &[("running", 0.5), ("Client:ClientRead", 0.4)])), named("concurrency", "concurrency"));
    }

    #[test]
    fn refinements_name_what_is_waited_for() {
        let mut slots = path(0.4, &[("IO:DataFileRead", 0.7)]);
        slots.slot_use = Some(SlotUse { slots: 16, mean: 15.5, max: 16, waits: 900, wait_s: 1.0, calls: 1000 });
        assert_eq!(kind(&slots).0.as_str(), "slots");
        slots.slot_use = Some(SlotUse { slots: 128, mean: 7.0, max: 20, waits: 0, wait_s: 0.0, calls: 1000 });
        assert_eq!(kind(&slots).0.as_str(), "concurrency");
        assert_eq!(kind(&path(0.4, &[("IO:WALSync", 0.3), ("LWLock:WALWrite", 0.2)])).0.as_str(), "wal_fsync");
        assert_eq!(kind(&path(0.4, &[("Lock:transactionid", 0.5)])).0.as_str(), "lock_wait");
        let mut driver = path(0.8, &[("Client:ClientRead", 0.8)]);
        driver.runs[0].cpu.insert("driver".into(), CpuTime { user_s: 50.0, sys_s: 8.0 });
        assert_eq!(kind(&driver).0.as_str(), "driver");
        let mut disturbed = path(0.9, &[("running", 0.9)]);
        disturbed.cpu.as_mut().unwrap().others_busy_share = 0.5;
        assert_eq!(kind(&disturbed).0.as_str(), "interference");
        let mut disturbed = path(0.4, &[("running", 0.9)]);
        disturbed.cpu.as_mut().unwrap().stolen_share = 0.3;
        assert_eq!(kind(&disturbed).0.as_str(), "interference");
        assert!(
            judge(&disturbed, DatabaseKind::default()).evidence.starts_with("the hypervisor gave 30 %"),
            "{:?}",
            judge(&disturbed, DatabaseKind::default())
        );
        let mut single = path(0.5, &[("IO:DataFileRead", 0.7)]);
        single.runs[0].cpu.insert("filer".into(), CpuTime { user_s: 10.0, sys_s: 19.0 });
        assert_eq!(kind(&single).0.as_str(), "concurrency", "nobody counted the connections");
        single.runs[0].connections = Some(9);
        assert_eq!(kind(&single).0.as_str(), "concurrency", "each process has one of its own");
        single.runs[0].connections = Some(1);
        assert_eq!(kind(&single).0.as_str(), "one_connection");
    }

    #[test]
    fn sessions_that_queue_for_a_processor_name_it_before_it_is_always_busy() {
        let queueing = |queued_s: f64, reads: f64| {
            let mut path = path(0.78, &[("running", 0.6), ("IO:DataFileRead", reads)]);
            path.runs[0].load.as_mut().unwrap().connections = 8;
            path.runs[0].processor_queue_s.insert("database".into(), queued_s);
            path
        };
        // Of 8 sessions in 30 s.
        let found = judge(&queueing(72.0, 0.2), DatabaseKind::default());
        assert_eq!(found.kind.as_str(), "host_cpu");
        assert!(found.evidence.starts_with("sessions queue for the processors"), "{found:?}");
        assert_eq!(found.evidence.matches("wait 30 % of their time for a processor").count(), 1, "{found:?}");
        let reads = judge(&queueing(72.0, 0.4), DatabaseKind::default());
        assert_eq!(reads.kind.as_str(), "concurrency");
        assert!(reads.evidence.contains("; sessions wait 30 % of their time for a processor;"), "{reads:?}");
        assert_eq!(judge(&queueing(36.0, 0.2), DatabaseKind::default()).kind.as_str(), "concurrency");
        let mut busy = queueing(72.0, 0.4);
        busy.cpu.as_mut().unwrap().host_busy_share = 0.85;
        assert_eq!(
            judge(&busy, DatabaseKind::default()).kind.as_str(),
            "host_cpu",
            "a wait for reads that is in part one for a processor"
        );
    }

    #[test]
    fn a_paced_load_that_uses_nothing_up_is_not_called_slow() {
        let mut paced = path(0.3, &[("Client:ClientRead", 0.95)]);
        paced.runs[0].load.as_mut().unwrap().model = "paced".into();
        let found = judge(&paced, DatabaseKind::default());
        assert!(found.kind == BottleneckKind::Concurrency && found.next.contains("rate"), "{found:?}");
    }

    #[test]
    fn what_is_tried_next_names_the_setting_of_each_path() {
        let slots = "more slots (the mount option slots=N; kernel NFS: sunrpc.tcp_slot_table_entries; a LUN: its queue depth)";
        assert_eq!(*MORE_SLOTS, slots);
        assert_eq!(*MORE_CONNECTIONS, "more connections (channels=N; kernel NFS: nconnect=N)");
    }

    #[test]
    fn what_is_tried_next_is_of_the_database_that_ran() {
        let next = |event: &str, database| judge(&path(0.4, &[(event, 0.5)]), database).next;
        let (commit, writes) =
            (next("commit", DatabaseKind::named("mariadb")), next("innodb_data_file:write", DatabaseKind::named("mariadb")));
        assert!(commit.contains("layout split") && !commit.contains("commit_delay"), "{commit}");
        assert!(writes.contains("innodb_io_capacity") && !writes.contains("bgwriter"), "{writes}");
        assert!(next("IO:WALSync", DatabaseKind::default()).contains("commit_delay"));
    }
}
