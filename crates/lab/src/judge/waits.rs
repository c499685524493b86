//! Activity of a database's sessions, from its wait events, which each database assigns to an activity.

use std::collections::BTreeMap;

use results::compare::{Run, SessionState};

use crate::database::kind::DatabaseKind;

/// Classes of waiting, as shares of the sessions' time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waits {
    pub(super) running: f64,
    reads: f64,
    log: f64,
    data_writes: f64,
    locks: f64,
    pub(super) client: f64,
    other: f64,
}

/// Share of the sessions' time by activity, 0 to 1: `running`, `block reads`, `log`, `data writes`, `locks`, `client`, `other`.
pub(crate) fn session_time(runs: &[Run]) -> Vec<(SessionState, f64)> {
    waits(runs).by_state()
}

/// The mean over the runs.
pub(super) fn waits(runs: &[Run]) -> Waits {
    let mut found = Waits::default();
    let mut events: BTreeMap<&str, f64> = BTreeMap::new();
    for run in runs {
        for (event, part) in &run.waits {
            *events.entry(event).or_default() += part / runs.len() as f64;
        }
    }
    for (event, part) in events {
        *found.of(&state_of(event)) += part;
    }
    found
}

/// The activity of a session with this event.
pub(super) fn state_of(event: &str) -> SessionState {
    if event == "running" {
        return SessionState::Running;
    }
    let of_any = DatabaseKind::all().find_map(|database| database.system().activity(event));
    of_any.unwrap_or(SessionState::OtherWaits)
}

impl Waits {
    pub(super) fn of(&mut self, state: &SessionState) -> &mut f64 {
        match state {
            SessionState::Running => &mut self.running,
            SessionState::BlockReads => &mut self.reads,
            SessionState::Log => &mut self.log,
            SessionState::DataWrites => &mut self.data_writes,
            SessionState::Locks => &mut self.locks,
            SessionState::Client => &mut self.client,
            SessionState::OtherWaits | SessionState::Unknown(_) => &mut self.other,
        }
    }

    pub(super) fn by_state(self) -> Vec<(SessionState, f64)> {
        [
            (SessionState::Running, self.running),
            (SessionState::BlockReads, self.reads),
            (SessionState::Log, self.log),
            (SessionState::DataWrites, self.data_writes),
            (SessionState::Locks, self.locks),
            (SessionState::Client, self.client),
            (SessionState::OtherWaits, self.other),
        ]
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_both_databases_name_the_same_states() {
        let pairs = [
            ("IO:DataFileRead", "innodb_data_file:read", "block reads"),
            ("IO:DataFileWrite", "innodb_data_file:write", "data writes"),
            ("IO:WALSync", "commit", "log"),
            ("Lock:transactionid", "row lock", "locks"),
            ("Client:ClientRead", "client", "client"),
            ("LWLock:BufferMapping", "innodb_temp_file:read", "other"),
        ];
        for (postgresql, mariadb, state) in pairs {
            assert_eq!((state_of(postgresql).as_str(), state_of(mariadb).as_str()), (state, state));
        }
    }
}
