//! Classifies errors of the server or of the connection for a transaction.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Whether a transaction may be repeated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Class {
    Retry,
    Lost,
    Error,
}

/// The class of an error; `closed` is true if the connection is closed.
pub(super) fn classify(error: &Error, closed: bool) -> Class {
    let Some(code) = error.code() else {
        let broken = std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>());
        return if closed || broken || error.is_closed() { Class::Lost } else { Class::Error };
    };
    if closed { Class::Lost } else { class_of(code) }
}

fn class_of(code: &SqlState) -> Class {
    if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
        return Class::Retry;
    }
    let ended = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_SESSION_TIMEOUT,
        // The server itself does not know whether the transaction was committed: like after a lost connection, it is not repeated.
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
    ];
    // Class 08: connection exceptions.
    if ended.contains(code) || code.code().starts_with("08") { Class::Lost } else { Class::Error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_surely_did_not_happen_is_sent_again() {
        for (code, class) in [
            ("40001", Class::Retry),
            ("40P01", Class::Retry),
            ("40003", Class::Lost),
            ("57P01", Class::Lost),
            ("08006", Class::Lost),
            ("23505", Class::Error),
        ] {
            assert_eq!(class_of(&SqlState::from_code(code)), class, "{code}");
        }
    }
}
