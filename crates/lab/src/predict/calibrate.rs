//! Adjusts a system so that it reproduces the run that it was fitted to.

use super::model::{SpindleWrites, Storage, System};

/// Steps of each bisection.
const STEPS: u32 = 24;

/// Largest factor for waiting for processors, relative to processor sharing: C^2 = 5. Measured factors are 1.5 to 2, if the path
/// of a read is known at several loads; above the limit, the difference has another cause.
const QUEUEING_MAX: f64 = 3.0;

/// Largest part of the writes to spindles that may be done while no read waits there, and the part of the throughput that this must
/// explain to be considered.
const WRITES_BEHIND_MAX: f64 = 0.5;
const BEHIND_MATTERS: f64 = 0.10;

/// Adjusts the system. If the measured cycle is longer than the model's, the difference is waiting for processors by work of
/// varying length and, above a limit, a separate time. If the model's is longer, part of the counted time
/// did not delay the users: processor time of writers and filer outside them, or waiting for a processor that is included in the
/// times of reads and flushes and also in the processors' station. The order: if a medium or a page cache
/// shows the storage's own part of a read (`storage_known`), that part is trusted; otherwise, the processor time is. A remaining
/// difference is subtracted from the processor time. Returns a description of the adjustments.
pub(super) fn calibrate(system: &mut System, users: u32, measured: f64, storage_known: bool) -> String {
    let predicted = |system: &System| system.with_reads(users, system.reads, system.writes).oets_per_minute;
    if predicted(system) >= measured {
        let queueing = |queueing: f64| System { queueing, ..system.clone() };
        if predicted(&queueing(QUEUEING_MAX)) < measured {
            let found = bisect(1.0, QUEUEING_MAX, |times| predicted(&queueing(times)) < measured);
            *system = queueing(found);
            return format!("calls wait {found:.1} times as long for processors as if these were shared in turns");
        }
        *system = queueing(QUEUEING_MAX);
        let longest = f64::from(users) / (measured / 60.0);
        let found = bisect(0.0, longest, |other_s| predicted(&System { other_s, ..system.clone() }) < measured);
        system.other_s = found;
        return format!(
            "{:.3} ms per order are not explained by these; the model adds them to each order unchanged",
            found * 1e3
        );
    }
    let mut words = Vec::new();
    // Spindles that are nearly always busy: the difference is how writes and reads queue there, and other values are not adjusted for it.
    if predicted(&behind(system, WRITES_BEHIND_MAX)) > predicted(system) * (1.0 + BEHIND_MATTERS) {
        let enough = predicted(&behind(system, WRITES_BEHIND_MAX)) >= measured;
        let most = WRITES_BEHIND_MAX;
        let part = if enough { bisect(0.0, most, |part| predicted(&behind(system, part)) >= measured) } else { most };
        *system = behind(system, part);
        words.push(format!("{:.0} % of the spindles' writes are done while no read waits", part * 100.0));
        if enough {
            return words.join("; ");
        }
    }
    let steps: [fn(&System, f64) -> System; 2] = if storage_known { [aside, shrunk] } else { [shrunk, aside] };
    for step in steps {
        let enough = predicted(&step(system, 1.0)) >= measured;
        let part = if enough { bisect(0.0, 1.0, |part| predicted(&step(system, part)) >= measured) } else { 1.0 };
        *system = step(system, part);
        words.push(if std::ptr::fn_addr_eq(step, aside as fn(&System, f64) -> System) {
            format!("{:.0} % of the processor time is background work, which no user waits for", system.beside * 100.0)
        } else {
            format!("{:.0} % of the read and flush times are waiting for a processor, which is counted there", part * 100.0)
        });
        if enough {
            return words.join("; ");
        }
    }
    let part = bisect(0.0, 1.0, |part| predicted(&eased(system, part)) >= measured);
    *system = eased(system, part);
    words.push(format!(
        "{:.0} % of the processor time is left out, so that the model meets the measured cycle time",
        part * 100.0
    ));
    words.join("; ")
}

/// A system in which this part of the data's writes is done while the spindles have no read.
fn behind(system: &System, part: f64) -> System {
    let writes = system.spindle_writes;
    let left = 1.0 - part;
    let spindle_writes = SpindleWrites { extending_s: writes.extending_s * left, evicting_s: writes.evicting_s * left, ..writes };
    System { spindle_writes, ..system.clone() }
}

/// A system in which this part of the processor time for which users seem to wait is background work.
fn aside(system: &System, part: f64) -> System {
    System { beside: system.beside + (1.0 - system.beside) * part, ..system.clone() }
}

/// A system in which reads, writes and flushes take this part less time.
fn shrunk(system: &System, part: f64) -> System {
    let left = 1.0 - part;
    System {
        storage: scaled(system.storage, left),
        read_path_s: system.read_path_s * left,
        flush_s: system.flush_s * left,
        flush_path_s: system.flush_path_s * left,
        write_path_s: system.write_path_s * left,
        ..system.clone()
    }
}

fn eased(system: &System, part: f64) -> System {
    System { cpu_s: system.cpu_s * (1.0 - part), ..system.clone() }
}

/// The point between `low` and `high` at which `beyond` becomes true.
fn bisect(mut low: f64, mut high: f64, beyond: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if beyond(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

fn scaled(storage: Storage, part: f64) -> Storage {
    match storage {
        Storage::Latency { seconds } => Storage::Latency { seconds: seconds * part },
        Storage::Spindles { count, service_s, overhead_s, cache_hit } => {
            Storage::Spindles { count, service_s, overhead_s: overhead_s * part, cache_hit }
        }
    }
}
