//! A closed network of queues: a number of customers cycles through stations for ever. Solved exactly for one class of
//! customers by convolution (Buzen 1973), with rates that may depend on the queue, in logarithms so that a thousand
//! customers cause neither overflow nor cancellation.

/// Most customers: the computing time grows with their square.
pub const CUSTOMERS_MAX: usize = 4_000;

/// A station of the network.
#[derive(Debug, Clone, PartialEq)]
pub enum Station {
    /// A delay without a queue, seconds per cycle.
    Delay(f64),
    /// Equal servers with one queue: seconds of work per cycle, number of servers (may be fractional).
    Servers(f64, f64),
    /// One queue for each spindle, cycles spread evenly over them: seconds of work per cycle, number of spindles.
    Spread(f64, usize),
    /// Cycles per second that the station completes with 1, 2, … customers; the last rate applies to larger numbers.
    Rates(Vec<f64>),
}

/// Solution of the network for a number of customers.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Cycles per second of all customers together; infinite if no station takes any time.
    pub throughput: f64,
    /// Mean number of customers at each station, in the order given.
    pub customers: Vec<f64>,
}

impl Station {
    /// Cycles per second with `count` customers at the station; infinite if it takes no time.
    #[must_use]
    pub fn rate(&self, count: usize) -> f64 {
        let n = count as f64;
        let over = |work: f64, parallel: f64| if work > 0.0 { parallel / work } else { f64::INFINITY };
        match self {
            Self::Delay(seconds) => over(*seconds, n),
            Self::Servers(work, servers) => over(*work, n.min(*servers)),
            // A balanced closed network of c single queues: n customers keep n c / (n + c - 1) of them busy.
            Self::Spread(work, spindles) => {
                let c = (*spindles).max(1) as f64;
                over(*work, n * c / (n + c - 1.0))
            }
            Self::Rates(rates) => {
                count.checked_sub(1).and_then(|place| rates.get(place).or(rates.last())).copied().unwrap_or(f64::INFINITY)
            }
        }
    }

    /// Logarithms of the station's factor for 0 to `most` customers.
    fn factors(&self, most: usize) -> Vec<f64> {
        let mut factors = Vec::with_capacity(most + 1);
        let mut sum = 0.0;
        factors.push(0.0);
        for count in 1..=most {
            sum -= self.rate(count).ln();
            factors.push(sum);
        }
        factors
    }
}

/// Solves the network for `customers` (at least 1, at most [`CUSTOMERS_MAX`]).
#[must_use]
pub fn solve(stations: &[Station], customers: usize) -> Solution {
    let customers = customers.clamp(1, CUSTOMERS_MAX);
    let factors: Vec<Vec<f64>> = stations.iter().map(|station| station.factors(customers)).collect();
    let whole = factors.iter().fold(empty(customers), |sums, factor| convolve(&sums, factor));
    let at = |sums: &[f64], place: usize| sums.get(place).copied().unwrap_or(f64::NEG_INFINITY);
    if at(&whole, customers) == f64::NEG_INFINITY {
        return Solution { throughput: f64::INFINITY, customers: vec![0.0; stations.len()] };
    }
    let throughput = (at(&whole, customers - 1) - at(&whole, customers)).exp();
    let present = |station: usize| {
        let others = factors.iter().enumerate().filter(|(place, _)| *place != station);
        let without = others.fold(empty(customers), |sums, (_, factor)| convolve(&sums, factor));
        let factor = factors.get(station).map_or(&[][..], Vec::as_slice);
        let share = |here: usize| (at(factor, here) + at(&without, customers - here) - at(&whole, customers)).exp();
        (1..=customers).map(|here| here as f64 * share(here)).sum()
    };
    Solution { throughput, customers: (0..stations.len()).map(present).collect() }
}

/// Throughput for 0 to `most` customers: entry n is for n customers.
#[must_use]
pub fn throughputs(stations: &[Station], most: usize) -> Vec<f64> {
    let most = most.clamp(1, CUSTOMERS_MAX);
    let whole = stations.iter().fold(empty(most), |sums, station| convolve(&sums, &station.factors(most)));
    let mut rates = vec![0.0];
    rates.extend(whole.windows(2).map(|pair| match pair {
        // Stations that take no time complete at once.
        [_, now] if *now == f64::NEG_INFINITY => f64::INFINITY,
        [before, now] => (before - now).exp(),
        _ => 0.0,
    }));
    rates
}

/// Sums of a network without stations.
fn empty(most: usize) -> Vec<f64> {
    let mut sums = vec![f64::NEG_INFINITY; most + 1];
    if let Some(none) = sums.first_mut() {
        *none = 0.0;
    }
    sums
}

/// Adds a station: sums of products, all as logarithms.
fn convolve(sums: &[f64], factor: &[f64]) -> Vec<f64> {
    let mut terms = Vec::with_capacity(sums.len());
    (0..sums.len())
        .map(|count| {
            terms.clear();
            terms.extend(sums.iter().take(count + 1).zip(factor.iter().take(count + 1).rev()).map(|(sum, part)| sum + part));
            let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if largest == f64::NEG_INFINITY {
                return largest;
            }
            largest + terms.iter().map(|term| (term - largest).exp()).sum::<f64>().ln()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{found} instead of {wanted}");
    }

    /// M/M/1//N: N machines that run for `z` and one repairman who takes `s` (a form of Erlang's loss formula).
    fn repairman(machines: u32, z: f64, s: f64) -> f64 {
        let mut terms = vec![1.0];
        for broken in 1..=machines {
            let last = terms.last().copied().unwrap();
            terms.push(last * f64::from(machines - broken + 1) * s / z);
        }
        let idle = terms[0] / terms.iter().sum::<f64>();
        (1.0 - idle) / s
    }

    #[test]
    fn machine_repairman_is_met_exactly() {
        for (machines, z, s) in [(1, 10.0, 1.0), (5, 10.0, 1.0), (20, 10.0, 1.0), (80, 3.0, 0.2)] {
            let found = solve(&[Station::Delay(z), Station::Servers(s, 1.0)], machines as usize);
            near(found.throughput, repairman(machines, z, s));
            near(found.customers.iter().sum(), f64::from(machines));
            near(found.customers[0], found.throughput * z);
        }
    }

    #[test]
    fn many_customers_with_much_thinking_approach_an_open_queue() {
        // M/M/1 at load 0.8: 4 customers at the server.
        let found = solve(&[Station::Delay(1000.0), Station::Servers(0.8, 1.0)], 1000);
        assert!((found.customers[1] - 4.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn stations_that_take_no_time_are_no_bound_and_hold_nobody() {
        let timeless = [Station::Delay(0.0), Station::Rates(vec![f64::INFINITY; 4])];
        let found = solve(&timeless, 4);
        assert!(found.throughput.is_infinite() && found.customers == [0.0, 0.0], "{found:?}");
        let one = [Station::Delay(0.0), Station::Delay(0.5), Station::Rates(vec![f64::INFINITY; 4])];
        near(solve(&one, 4).throughput, 8.0);
        near(solve(&one, 4).customers[1], 4.0);
    }

    #[test]
    fn two_servers_and_balanced_queues_follow_their_formulas() {
        // Three customers, two servers of 1 s, nothing else: always both busy.
        near(solve(&[Station::Servers(1.0, 2.0)], 3).throughput, 2.0);
        near(solve(&[Station::Servers(1.0, 2.0)], 1).throughput, 1.0);
        // n customers on c balanced queues of total work 1: n / (n + c - 1) x c.
        let separate: Vec<Station> = (0..4).map(|_| Station::Servers(0.25, 1.0)).collect();
        near(solve(&[Station::Spread(1.0, 4)], 7).throughput, solve(&separate, 7).throughput);
    }

    #[test]
    fn a_subnetwork_can_stand_as_one_station() {
        // Chandy, Herzog and Woo: replacing a part by its throughputs does not change the rest.
        let (think, cpu, disk) = (Station::Delay(2.0), Station::Servers(0.3, 2.0), Station::Servers(0.4, 1.0));
        let whole = solve(&[think.clone(), cpu.clone(), disk.clone()], 12);
        let part = throughputs(&[cpu, disk], 12);
        let folded = solve(&[think, Station::Rates(part[1..].to_vec())], 12);
        near(folded.throughput, whole.throughput);
        near(folded.customers[1], whole.customers[1] + whole.customers[2]);
    }

    #[test]
    fn thousands_of_customers_neither_overflow_nor_cancel() {
        let stations = [Station::Delay(1.0), Station::Servers(1e-3, 2.0), Station::Spread(8e-3, 80)];
        let found = solve(&stations, 2_000);
        assert!((found.throughput - 1976.0).abs() < 30.0, "{}", found.throughput);
        let most = throughputs(&stations, 2_000);
        near(most[2_000], found.throughput);
        assert!(most.windows(2).all(|pair| pair[1] >= pair[0]));
    }
}
