//! The results of each second of the measured interval, collected from all threads of a driver.
//!
//! A thread keeps only its current second and passes it on when the next one begins. A second is
//! closed when every thread has passed it. So a run of any length needs only a few histograms, and the
//! percentiles of a second are exact over all threads.

use std::collections::VecDeque;
use std::sync::Mutex;

use host::Unpoisoned;
use results::histogram::ResponseTimes;
use results::orders_run::SeriesSecond;

/// The transactions that ended in one second.
#[derive(Debug, Default, Clone)]
pub struct Second {
    /// New orders committed.
    pub orders: u64,
    /// Transactions that ended by an error.
    pub errors: u64,
    /// Response times of all the others.
    pub response: ResponseTimes,
}

impl Second {
    /// Resets all values and keeps the memory.
    pub fn clear(&mut self) {
        (self.orders, self.errors) = (0, 0);
        self.response.clear();
    }

    fn add(&mut self, more: &Self) {
        self.orders += more.orders;
        self.errors += more.errors;
        self.response.merge(&more.response);
    }

    fn closed(&self, second: usize) -> SeriesSecond {
        let response = self.response.summary();
        SeriesSecond {
            second: u32::try_from(second).unwrap_or(u32::MAX),
            orders: self.orders,
            transactions: self.response.count(),
            errors: self.errors,
            response_p50_us: Some(response.p50),
            response_p90_us: Some(response.p90),
            response_max_us: response.max,
        }
    }
}

/// The seconds of a run.
#[derive(Debug)]
pub struct Series {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    seconds: usize,
    /// For each thread: the first second that it may still add to.
    through: Vec<usize>,
    closed: Vec<SeriesSecond>,
    /// The seconds after the closed ones.
    open: VecDeque<Second>,
}

impl Series {
    /// A series of `seconds` seconds, fed by `threads` threads.
    #[must_use]
    pub fn new(seconds: usize, threads: u32) -> Self {
        let through = vec![0; threads as usize];
        Self { state: Mutex::new(State { seconds, through, closed: Vec::new(), open: VecDeque::new() }) }
    }

    /// Adds the transactions of thread `thread` that ended in second `index`. The thread adds nothing to earlier seconds afterwards.
    pub fn add(&self, thread: u32, index: usize, second: &Second) {
        let mut state = self.state.lock().unpoisoned();
        let Some(offset) = index.checked_sub(state.closed.len()).filter(|_| index < state.seconds) else {
            debug_assert!(index >= state.seconds, "second {index} is closed already");
            return;
        };
        while state.open.len() <= offset {
            state.open.push_back(Second::default());
        }
        state.open[offset].add(second);
        state.pass(thread, index);
    }

    /// Notes that thread `thread` will add nothing to seconds before `index`.
    pub fn pass(&self, thread: u32, index: usize) {
        self.state.lock().unpoisoned().pass(thread, index);
    }

    /// The last closed second.
    #[must_use]
    pub fn last_closed(&self) -> Option<SeriesSecond> {
        self.state.lock().unpoisoned().closed.last().copied()
    }

    /// All seconds, once no thread adds any more.
    #[must_use]
    pub fn finish(&self) -> Vec<SeriesSecond> {
        let mut state = self.state.lock().unpoisoned();
        let seconds = state.seconds;
        state.close_before(seconds);
        state.closed.clone()
    }
}

impl State {
    fn pass(&mut self, thread: u32, index: usize) {
        if let Some(through) = self.through.get_mut(thread as usize) {
            *through = index.max(*through);
        }
        let all = self.through.iter().copied().min().unwrap_or(0);
        self.close_before(all.min(self.seconds));
    }

    fn close_before(&mut self, upto: usize) {
        while self.closed.len() < upto {
            let second = self.open.pop_front().unwrap_or_default();
            self.closed.push(second.closed(self.closed.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(responses_us: &[u64]) -> Second {
        let mut second = Second { orders: responses_us.len() as u64, ..Second::default() };
        responses_us.iter().for_each(|us| second.response.record(*us));
        second
    }

    #[test]
    fn a_second_closes_when_every_thread_is_past_it_and_merges_them() {
        let series = Series::new(3, 2);
        series.add(0, 0, &second(&[100; 9]));
        series.pass(0, 2);
        assert_eq!(series.last_closed(), None);
        series.add(1, 0, &second(&[900]));
        series.pass(1, 1);
        let closed = series.last_closed().unwrap();
        assert_eq!((closed.second, closed.orders, closed.transactions), (0, 10, 10));
        assert_eq!((closed.response_p50_us, closed.response_p90_us, closed.response_max_us), (Some(100), Some(100), 900));
    }

    #[test]
    fn a_second_in_which_nothing_ended_is_there_with_zeros() {
        let series = Series::new(3, 1);
        series.add(0, 2, &second(&[5]));
        let all = series.finish();
        assert_eq!(all.iter().map(|second| (second.second, second.orders)).collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 1)]);
        assert_eq!(all[0].response_max_us, 0);
    }

    #[test]
    fn what_ends_after_the_interval_is_not_in_it() {
        let series = Series::new(1, 1);
        series.add(0, 0, &second(&[5]));
        series.add(0, 1, &second(&[7]));
        assert_eq!(series.finish().len(), 1);
    }
}
