//! Curves of a queue, of a sudden limit and of a collapse, with the noise of short probes.

use std::cell::RefCell;
use std::convert::Infallible;

use super::*;

/// Orders per minute of a closed loop: each user spends `alone_ms` outside the station, which serves at most `most` per minute.
fn queue(users: u32, alone_ms: f64, most: f64) -> f64 {
    // Exact for one station with exponential service and a delay (mean value analysis).
    let service_ms = 60_000.0 / most;
    let mut waiting = 0.0;
    let mut rate = 0.0;
    for n in 1..=users {
        let response = service_ms * (1.0 + waiting);
        rate = f64::from(n) / (alone_ms + response);
        waiting = rate * response;
    }
    rate * 60_000.0
}

/// Deterministic noise, uniform in -1 to 1 (an LCG with the test's seed).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

fn probe(rate: f64, half: f64, busy: f64) -> Probe {
    Probe { oets_per_minute: rate, ci95: Some(half), host_busy_share: busy, response_ms: [1.0, 2.0, 3.0] }
}

/// Saturation by its definition, on the curve without noise.
fn true_saturation(curve: impl Fn(f64) -> f64) -> f64 {
    let mut users = 1.0;
    while curve(users * 1.1) / curve(users) >= 1.02 {
        users *= 1.01;
    }
    users
}

fn knee(users: f64) -> f64 {
    // Smooth between whole numbers: X = most * N / (N + half).
    12_000.0 * users / (users + 3.0)
}

#[test]
fn saturation_is_found_where_the_definition_puts_it() {
    let exact = true_saturation(knee);
    let mut asked = Vec::new();
    let found = saturate(256, &mut |users| {
        asked.push(users);
        Ok::<_, Infallible>(probe(knee(f64::from(users)), 0.0, 0.5))
    })
    .unwrap();
    let ratio = f64::from(found.users) / exact;
    assert!((0.8..1.25).contains(&ratio), "{} users, exactly {exact}: {}", found.users, found.reason);
    assert!(found.reached && asked.len() <= 10, "{asked:?}");
    assert!(found.points.is_sorted_by_key(|point| point.users));
}

#[test]
fn noise_of_three_percent_moves_it_by_a_step_at_most() {
    let exact = true_saturation(knee);
    let mut probes = 0;
    for seed in 0..200 {
        let mut noise = Noise(seed);
        let found = saturate(256, &mut |users| {
            probes += 1;
            let rate = knee(f64::from(users));
            Ok::<_, Infallible>(probe(rate * (1.0 + 0.03 * noise.next()), rate * 0.035, 0.5))
        })
        .unwrap();
        let ratio = f64::from(found.users) / exact;
        assert!((0.5..2.0).contains(&ratio), "seed {seed}: {} users, exactly {exact}: {}", found.users, found.reason);
    }
    assert!(probes <= 200 * 18, "{probes} probes in 200 searches");
}

#[test]
fn a_queue_saturates_soon_after_its_bend() {
    // 20 ms alone, at most 6,000 a minute: the bend is at (20 + 10) / 10 = 3 users.
    let found = saturate(256, &mut |users| Ok::<_, Infallible>(probe(queue(users, 20.0, 6_000.0), 0.0, 0.5))).unwrap();
    assert!((3..=8).contains(&found.users), "{}", found.reason);
    let held = queue(found.users, 20.0, 6_000.0);
    assert!(held > 0.9 * 6_000.0, "{held}");
}

#[test]
fn a_collapse_beyond_the_peak_does_not_lead_beyond_it() {
    let curve = |users: u32| {
        let n = f64::from(users);
        2_000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.01 * n * (n - 1.0))
    };
    let found = saturate(256, &mut |users| Ok::<_, Infallible>(probe(curve(users), 0.0, 0.5))).unwrap();
    let best = (1..=256).max_by(|a, b| curve(*a).total_cmp(&curve(*b))).unwrap();
    assert!(found.users <= best && curve(found.users) > 0.8 * curve(best), "{} of {best}: {}", found.users, found.reason);
    assert!(found.points.iter().all(|point| point.users <= 4 * best));
}

#[test]
fn one_user_can_be_enough_and_the_limit_is_said() {
    let flat = saturate(256, &mut |_| Ok::<_, Infallible>(probe(100.0, 0.0, 0.5))).unwrap();
    assert!(flat.users <= 2, "{}", flat.reason);
    let line = saturate(20, &mut |users| Ok::<_, Infallible>(probe(f64::from(users) * 100.0, 0.0, 0.5))).unwrap();
    assert_eq!((line.users, line.reached), (20, false));
    assert!(line.reason.contains("20 users, the most tried"), "{}", line.reason);
}

#[test]
fn a_question_the_intervals_cannot_answer_is_asked_again_a_few_times_only() {
    let asked = RefCell::new(std::collections::BTreeMap::new());
    let found = saturate(64, &mut |users| {
        *asked.borrow_mut().entry(users).or_insert(0) += 1;
        Ok::<_, Infallible>(probe(knee(f64::from(users)), 5_000.0, 0.5))
    })
    .unwrap();
    assert!(!found.reached && found.reason.contains("noise"), "{}", found.reason);
    assert!(asked.borrow().values().all(|count| *count <= PROBE_REPEATS_MAX), "{asked:?}");
}

#[test]
fn a_share_of_the_processors_is_met_between_two_doublings() {
    for wanted in [0.3, 0.5, 0.7, 0.9] {
        let found =
            busy(wanted, 256, &mut |users| Ok::<_, Infallible>(probe(1.0, 0.0, 1.0 - (-f64::from(users) / 20.0).exp()))).unwrap();
        let held = 1.0 - (-f64::from(found.users) / 20.0).exp();
        assert!(found.reached && (held - wanted).abs() <= SHARE_TOLERANCE, "{wanted}: {held} at {}", found.users);
        assert!(found.points.len() <= 12, "{:?}", found.points.iter().map(|point| point.users).collect::<Vec<_>>());
    }
}

#[test]
fn a_share_out_of_reach_gives_the_nearest_and_says_so() {
    let low = busy(0.9, 64, &mut |_| Ok::<_, Infallible>(probe(1.0, 0.0, 0.4))).unwrap();
    assert_eq!((low.users, low.reached), (64, false));
    let high = busy(0.3, 64, &mut |_| Ok::<_, Infallible>(probe(1.0, 0.0, 0.8))).unwrap();
    assert_eq!((high.users, high.reached), (1, false));
    assert!(high.reason.contains("nearest"), "{}", high.reason);
}

#[test]
fn a_sweep_measures_beyond_the_bend_and_holds_it() {
    let found = sweep(256, &mut |users| Ok::<_, Infallible>(probe(queue(users, 20.0, 6_000.0), 0.0, 0.5))).unwrap();
    let users: Vec<u32> = found.points.iter().map(|point| point.users).collect();
    assert_eq!(users, [1, 2, 4, 8, 16]);
    assert_eq!((found.users, found.reached), (4, true), "{}", found.reason);
}

#[test]
fn an_error_of_a_probe_ends_the_search() {
    let outcome = saturate(64, &mut |users| if users < 4 { Ok(probe(f64::from(users), 0.0, 0.1)) } else { Err("gone") });
    assert_eq!(outcome, Err("gone"));
}

#[test]
fn points_measured_several_times_have_narrower_intervals_and_the_middle_percentile() {
    let mut of = [10.0, 30.0, 20.0].map(|p90| Probe { response_ms: [1.0, p90, 99.0], ..probe(100.0, 6.0, 0.5) }).to_vec();
    let point = Point { users: 4, probes: of.clone() };
    assert!((point.ci95().unwrap() - 6.0 / 3.0_f64.sqrt()).abs() < 1e-9);
    assert_eq!(point.response_ms()[1], 20.0);
    of.iter_mut().for_each(|probe| probe.ci95 = None);
    assert_eq!(Point { users: 4, probes: of }.ci95(), None);
}
