//! The thirteen shapes, and the figures that each check uses.

use results::statistics::MeanInterval;

use crate::shapes::seen::{Lift, Seen, Why, gain};

/// Gain in percent below which more users had no effect.
const LIFT_NONE: f64 = 5.0;
/// Upper limit, in percent, for the interval of a larger gain that cannot be distinguished from zero: a fifth of
/// the gain that twice the users would give without a bottleneck.
const LIFT_UNTOLD_MOST: f64 = 20.0;

/// The check of a shape: whether the figures have it, and the figures in words.
pub(super) struct Check {
    pub(super) id: &'static str,
    pub(super) expectation: &'static str,
    pub(super) theirs: &'static str,
    pub(super) look: fn(&Seen<'_>) -> Result<(bool, String), Why>,
}

/// Sorted by number.
pub(super) const SHAPES: [Check; 13] = [
    Check {
        id: "SC1",
        expectation: "few slots: a plateau below 50 % processor use that more users do not raise; many slots give 2 to 3 times the orders",
        theirs: "16 slots: below 50 % with any number of users; 128 slots and the rest of the tuning: 2.6 times (TR-3495 §1, §9)",
        look: slot_plateau,
    },
    Check {
        id: "SC2",
        expectation: "iSCSI with a depth of 256 instead of 32 gives about twice as much when users exceed the depth",
        theirs: "2.25 times, tuned against default (TR-3495 §1)",
        look: queue_depth,
    },
    Check {
        id: "SC3",
        expectation: "tuned kernel NFS and iSCSI within 10 %, Fibre Channel 10 to 21 % above the slower",
        theirs: "comparable; FC +18 % (TR-3495 §9 Fig 1), +15 to 20 % (TR-3408 §8 Chart 1), +21 % (TR-3700 §1.2)",
        look: three_protocols,
    },
    Check {
        id: "SC4",
        expectation: "Direct NFS within 5 % of Fibre Channel at nearly kernel NFS' processor total, moved from kernel to user",
        theirs: "60,924 against 58,349 orders; processor +1.4 % of kernel NFS for +26 % orders (TR-3700 §3.2 Fig 9, 11, 12)",
        look: direct_against_fibre,
    },
    Check {
        id: "SC5",
        expectation: "faster storage: a client bound by its slots gains nothing, an unbound one 10 to 17 %",
        theirs: "kernel NFS +0.2 %, Direct NFS +10.4 %, FC +17.5 % with the next release (TR-3700 §3.3 Fig 13)",
        look: faster_storage,
    },
    Check {
        id: "SC6",
        expectation: "one writer to a file stops the processors near 50 % on 2 of them",
        theirs: "49 %, whatever the number of users (TR-3408 §8 Chart 2)",
        look: one_writer,
    },
    Check {
        id: "SC7",
        expectation: "direct I/O is the largest step of all tuning; everything else adds about a quarter",
        theirs: "1,423 to 10,531 orders: direct I/O alone 5.8 times, the rest 1.27 times on top (TR-3557 §3 Fig 2, §6.3)",
        look: ladder,
    },
    Check {
        id: "SC8",
        expectation: "processor time per transaction: NFS above iSCSI above FC; NFS at equal work about 20 % above local",
        theirs: "+20 % over UFS (TR-3322 §3 Fig 4); iSCSI 0.89 and FC 0.72 of NFS (TR-3408 §8 Chart 3)",
        look: cost_order,
    },
    Check {
        id: "SC9",
        expectation: "tuned paths differ in block read latency by at most about 1 ms at 8 ms",
        theirs: "8 / 8 / 8.76 / 9 ms (TR-3700 §3.2 Fig 10); 7.19 and 7.39 ms (TR-3322 §3 Table 1)",
        look: read_latency,
    },
    Check {
        id: "SC10",
        expectation: "generations of the client in their order, the last at least 0.8 of local",
        theirs: "Solaris 8 < 9 < 9 MU5 = about 80 % of UFS (TR-3322 §3 Fig 3)",
        look: generations,
    },
    Check {
        id: "SC11",
        expectation: "one write of 64 KiB costs 8, 2 and 1 calls with the limits of the three generations",
        theirs: "8 x 8 KB, 2 x 32 KB, 1 (TR-3322 §4)",
        look: |_| Err("it is counted, not measured".to_owned()),
    },
    Check {
        id: "SC12",
        expectation: "at a fixed load responses are equal, and NFS costs about 20 % more processor time",
        theirs: "response 0.304 against 0.328, I/O 7.39 against 7.19 ms, processor +20 % (TR-3322 §3 Table 1, Fig 4)",
        look: fixed_load,
    },
    Check {
        id: "SC13",
        expectation: "128 slots bind at 120 users",
        theirs: "named as kernel NFS' limit (TR-3700 §3.1, §3.3); 120 users without think time have at most 120 reads in flight",
        look: slots_bind,
    },
];

fn signed(percent: f64) -> String {
    format!("{percent:+.1} %")
}

fn total((user, sys): (f64, f64)) -> f64 {
    user + sys
}

fn slot_plateau(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let own = plateau(seen, "")?;
    if !seen.has("kernel-capped") {
        return Ok(own);
    }
    let (kernel_has_it, kernel) = plateau(seen, "kernel-")?;
    Ok((own.0 && kernel_has_it, format!("Direct NFS: {}. Kernel NFS: {kernel}", own.1)))
}

/// Checks the plateau of the client whose roles have this prefix.
fn plateau(seen: &Seen<'_>, prefix: &str) -> Result<(bool, String), Why> {
    let [few, more, many] = ["capped", "capped-more-users", "raised"].map(|role| format!("{prefix}{role}"));
    let (capped, raised) = (seen.oets(&few)?, seen.oets(&many)?);
    let busy = seen.busy_percent(&few)?;
    let lift = seen.lift(&few, &more)?;
    let times = raised / capped;
    let words = format!(
        "few slots: {busy:.0} % processor at {} users ({}), orders {} at {} ({}); many slots: {times:.2} times ({})",
        seen.users(&few)?,
        seen.occupancy(&few),
        lifted(lift),
        seen.users(&more)?,
        seen.occupancy(&more),
        seen.occupancy(&many)
    );
    Ok((busy < 50.0 && is_flat(lift) && times >= 2.0, words))
}

/// Whether more users had no effect: by the value itself, or within the precision of the runs.
fn is_flat(lift: Lift) -> bool {
    let untold = |(low, high): (f64, f64)| low <= 0.0 && high < LIFT_UNTOLD_MOST;
    lift.percent < LIFT_NONE || lift.interval.is_some_and(untold)
}

/// Formats `+3.1 % (95 %: -4.0 to +10.1)`.
fn lifted(lift: Lift) -> String {
    let interval = lift.interval.map_or_else(String::new, |(low, high)| format!(" (95 %: {low:+.1} to {high:+.1})"));
    signed(lift.percent) + &interval
}

fn queue_depth(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let times = seen.oets("deep")? / seen.oets("shallow")?;
    let users = seen.users("deep")?;
    let (shallow, deep) = (seen.occupancy("shallow"), seen.occupancy("deep"));
    Ok((times >= 1.8, format!("{times:.2} times at {users} users; shallow: {shallow}; deep: {deep}")))
}

fn three_protocols(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let (knfs, iscsi, fc) = (seen.oets("knfs")?, seen.oets("iscsi")?, seen.oets("fc")?);
    let (apart, above) = (gain(knfs, iscsi), gain(knfs.min(iscsi), fc));
    seen.ranked("iscsi", "fc").map_err(|why| format!("iSCSI {} of kernel NFS; {why}", signed(apart)))?;
    let words = format!("iSCSI {} of kernel NFS, FC {} of the slower", signed(apart), signed(above));
    Ok((apart.abs() <= 10.0 && (10.0..=21.0).contains(&above), words))
}

fn direct_against_fibre(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let apart = gain(seen.oets("fc")?, seen.oets("dnfs")?);
    let (direct, kernel) = (seen.cpu("dnfs")?, seen.cpu("knfs")?);
    let cost = gain(total(kernel), total(direct));
    let moved = direct.1 / total(direct) < kernel.1 / total(kernel);
    let words = format!("Direct NFS {} of FC, processor per order {} of kernel NFS", signed(apart), signed(cost));
    seen.real_processor().map_err(|why| format!("{words}; {why}"))?;
    Ok((apart.abs() <= 5.0 && cost <= 10.0 && moved, words))
}

fn faster_storage(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let bound = gain(seen.oets("bound-slow")?, seen.oets("bound-fast")?);
    let unbound = gain(seen.oets("unbound-slow")?, seen.oets("unbound-fast")?);
    let mut words = format!("bound by slots {} ({}), unbound {}", signed(bound), seen.occupancy("bound-slow"), signed(unbound));
    for (name, slow, fast) in [("kernel NFS", "kernel-slow", "kernel-fast"), ("FC", "fc-slow", "fc-fast")] {
        if !seen.has(slow) {
            continue;
        }
        match (seen.oets(slow), seen.oets(fast)) {
            (Ok(before), Ok(after)) => words += &format!("; {name} {} ({})", signed(gain(before, after)), seen.occupancy(slow)),
            (Err(why), _) | (_, Err(why)) => words += &format!("; {why}"),
        }
    }
    // More than a third of the unbound one's gain no longer counts as no effect.
    Ok((bound.abs() <= unbound / 3.0 && unbound >= 10.0, words))
}

fn one_writer(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let (locked, free) = (seen.busy_percent("locked")?, seen.busy_percent("free")?);
    let times = seen.oets("free")? / seen.oets("locked")?;
    let words = format!("{locked:.0} % with one writer to a file; without {free:.0} % and {times:.2} times the orders");
    Ok((locked <= 60.0 && free > locked + 10.0, words))
}

fn ladder(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    seen.arm("start")?;
    let steps = &seen.comparison.ladder;
    let mean = |oets: &Option<MeanInterval>| oets.as_ref().map(|oets| oets.mean);
    let missing = |name: &str| format!("the ladder has no figure for {name}");
    let start = steps.first().and_then(|step| mean(&step.added_up)).ok_or_else(|| missing("its start"))?;
    let mut alone = Vec::new();
    for step in steps.iter().skip(1) {
        alone.push((step.name.as_str(), mean(&step.alone).ok_or_else(|| missing(&step.name))? / start));
    }
    let direct = alone.iter().find(|(name, _)| *name == "direct").ok_or_else(|| missing("direct"))?.1;
    let largest = alone.iter().all(|(name, times)| *name == "direct" || *times <= direct);
    let after = steps.iter().find(|step| step.name == "direct").and_then(|step| mean(&step.added_up));
    let top = steps.last().and_then(|step| mean(&step.added_up)).ok_or_else(|| missing("its end"))?;
    let rest = top / after.ok_or_else(|| missing("direct"))?;
    let each: Vec<String> = alone.iter().map(|(name, times)| format!("{name} {times:.2}")).collect();
    let words = format!(
        "{start:.0} to {top:.0} orders, {:.2} times; alone: {}; everything after direct {rest:.2} times",
        top / start,
        each.join(", ")
    );
    Ok((largest && direct > rest, words))
}

fn cost_order(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let (nfs, local) = (total(seen.cpu("nfs")?), total(seen.cpu("local")?));
    let over = gain(local, nfs);
    let mut words = format!("Direct NFS {nfs:.2} s, local {local:.2} s for 1,000 orders: {}", signed(over));
    let mut order = vec![nfs];
    for role in ["iscsi", "fc"] {
        match seen.cpu(role) {
            Ok(times) => {
                words += &format!("; {role} {:.2} s", total(times));
                order.push(total(times));
            }
            Err(why) => words += &format!("; {why}"),
        }
    }
    if order.len() < 3 {
        return Err(words);
    }
    seen.real_processor().and_then(|()| seen.ranked("iscsi", "fc")).map_err(|why| format!("{words}; {why}"))?;
    let falling = order.windows(2).all(|pair| matches!(pair, [more, less] if more > less));
    Ok((falling && (10.0..=30.0).contains(&over), words))
}

fn read_latency(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let mut times = Vec::new();
    let mut words = Vec::new();
    for (role, id) in seen.roles {
        match seen.block_read_ms(role) {
            Ok(ms) => {
                times.push(ms);
                words.push(format!("{id} {ms:.2} ms"));
            }
            Err(why) => words.push(why),
        }
    }
    if times.len() < 2 {
        return Err(words.join("; "));
    }
    let (least, most) = times.iter().fold((f64::MAX, 0.0f64), |(least, most), ms| (least.min(*ms), most.max(*ms)));
    // One millisecond at eight; the same share for faster storage.
    Ok((most - least <= (most / 8.0).max(0.05), words.join("; ")))
}

fn generations(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let (first, second, third) = (seen.oets("first")?, seen.oets("second")?, seen.oets("third")?);
    let local = seen.oets("local")?;
    let share = |oets: f64| oets / local * 100.0;
    let mut words = format!("{:.0} %, {:.0} % and {:.0} % of local", share(first), share(second), share(third));
    if let Ok([first, second, third]) = carried_apart(seen) {
        words += &format!(
            "; by the processor time of database and driver alone, the filer on a host of its own as theirs: {first:.0} %, \
             {second:.0} % and {third:.0} %"
        );
    }
    Ok((first < second && second <= third && third >= 0.8 * local, words))
}

/// Throughput in percent of local that processors saturated by database and driver alone would allow with each generation.
fn carried_apart(seen: &Seen<'_>) -> Result<[f64; 3], Why> {
    let local = total(seen.cpu("local")?);
    let share = |role: &str| seen.cpu(role).map(|times| local / total(times) * 100.0);
    Ok([share("first")?, share("second")?, share("third")?])
}

fn fixed_load(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let work = gain(seen.oets("local")?, seen.oets("nfs")?);
    if work.abs() > 5.0 {
        return Err(format!("the load was not the same: orders over NFS {}", signed(work)));
    }
    let reads = gain(seen.block_read_ms("local")?, seen.block_read_ms("nfs")?);
    let response = gain(seen.response_ms("local")?, seen.response_ms("nfs")?);
    let cost = gain(total(seen.cpu("local")?), total(seen.cpu("nfs")?));
    let whole = gain(total(seen.cpu_with_filer("local")?), total(seen.cpu_with_filer("nfs")?));
    let words = format!(
        "response {}, block reads {}, processor {} (with the filer, which shares this host, {})",
        signed(response),
        signed(reads),
        signed(cost),
        signed(whole)
    );
    seen.real_processor().map_err(|why| format!("{words}; {why}"))?;
    if reads.abs() > 5.0 {
        let rule = "I/O latencies differ by more than 5 %, so the cost may not be compared (TR-3322 §3)";
        return Err(format!("{rule}: {words}"));
    }
    Ok((response.abs() <= 10.0 && (10.0..=30.0).contains(&cost), words))
}

fn slots_bind(seen: &Seen<'_>) -> Result<(bool, String), Why> {
    let (slots, users) = (seen.slots("slots")?, seen.users("slots")?);
    let waited = slots.waits as f64 / slots.calls.max(1) as f64 * 100.0;
    let binds = waited >= 1.0;
    let word = if binds { "confirmed" } else { "doubted" };
    let mut words = format!(
        "{word}: {} slots at {users} users, {:.1} in use on average, {} at most, {waited:.1} % of calls waited",
        slots.slots, slots.mean, slots.max
    );
    if seen.has("kernel") {
        words += &match seen.slots("kernel") {
            // The kernel does not count how many calls waited, but how long.
            Ok(kernel) => {
                let queued_ms = kernel.wait_s * 1e3 / kernel.calls.max(1) as f64;
                format!("; kernel NFS: {}, a call waited {queued_ms:.1} ms to be sent", seen.occupancy("kernel"))
            }
            Err(why) => format!("; {why}"),
        };
    }
    Ok((binds, words))
}
