//! SIGINT (Ctrl-C) and SIGTERM: the first asks for an orderly end, the second ends the program at once.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell adds to the number of the signal that ended a program.
const SIGNAL_CODE: u8 = 128;
const SIGINT: u8 = 2;
const SIGTERM: u8 = 15;

/// The signals that have come.
pub(super) struct Interrupts {
    flag: Arc<AtomicBool>,
    /// Number of the first one; 0 until it comes.
    first: Arc<AtomicU8>,
}

impl Interrupts {
    /// Waits for signals from now on, in a task; says `message` on stderr at the first. Where signals cannot be waited
    /// for, each ends the program, as it does without this.
    pub(super) fn watch(message: &'static str) -> Self {
        let (flag, first) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU8::new(0)));
        let (raised, number) = (Arc::clone(&flag), Arc::clone(&first));
        if let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            tokio::spawn(async move {
                number.store(next(&mut interrupt, &mut terminate).await, Ordering::Relaxed);
                raised.store(true, Ordering::Relaxed);
                eprintln!("{message}");
                let second = next(&mut interrupt, &mut terminate).await;
                std::process::exit(i32::from(SIGNAL_CODE + second));
            });
        }
        Self { flag, first }
    }

    /// Set when the first signal comes.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// 130 after SIGINT, 143 after SIGTERM, as of a program that the signal ended.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(SIGNAL_CODE + self.first.load(Ordering::Relaxed))
    }
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = interrupt.recv() => SIGINT,
        _ = terminate.recv() => SIGTERM,
    }
}
