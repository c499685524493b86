//! SIGINT (Ctrl-C) and SIGTERM: the first asks for an orderly end, the second ends the program at once.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A shell adds this to the number of the signal that ended a program.
const SIGNAL_CODE: u8 = 128;
const SIGINT: u8 = 2;
const SIGTERM: u8 = 15;

/// The signals that this process has received.
pub(crate) struct Interrupts {
    flag: Arc<AtomicBool>,
    /// Number of the first one; 0 until it comes.
    first: Arc<AtomicU8>,
    /// The first one ends the program at once: nothing has to be put in order.
    at_once: Arc<AtomicBool>,
}

impl Interrupts {
    /// Waits for signals in a task, and prints `message` on stderr at the first one. If this
    /// process cannot wait for signals, each signal ends the program.
    pub(crate) fn watch(message: &'static str) -> Self {
        let (flag, first) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU8::new(0)));
        let at_once = Arc::new(AtomicBool::new(false));
        let (raised, number, ends_at_once) = (Arc::clone(&flag), Arc::clone(&first), Arc::clone(&at_once));
        if let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            tokio::spawn(async move {
                let first = next(&mut interrupt, &mut terminate).await;
                number.store(first, Ordering::Relaxed);
                raised.store(true, Ordering::SeqCst);
                if ends_at_once.load(Ordering::SeqCst) {
                    std::process::exit(i32::from(SIGNAL_CODE + first));
                }
                eprintln!("{message}");
                let second = next(&mut interrupt, &mut terminate).await;
                std::process::exit(i32::from(SIGNAL_CODE + second));
            });
        }
        Self { flag, first, at_once }
    }

    /// As [`Self::watch`], for a command without a runtime: a thread waits for the signals.
    ///
    /// # Errors
    /// The thread cannot be started. Each signal then ends the program.
    pub(crate) fn watch_in_thread(message: &'static str) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let entered = runtime.enter();
        let interrupts = Self::watch(message);
        drop(entered);
        std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(interrupts)
    }

    /// From now on the first signal ends the program at once.
    ///
    /// # Errors
    /// [`Stopped`] if it came before.
    pub(crate) fn end_at_once(&self) -> Result<(), Stopped> {
        self.at_once.store(true, Ordering::SeqCst);
        self.check()
    }

    /// # Errors
    /// [`Stopped`] after the first signal.
    pub(crate) fn check(&self) -> Result<(), Stopped> {
        if self.flag.load(Ordering::SeqCst) { Err(Stopped(SIGNAL_CODE + self.first.load(Ordering::Relaxed))) } else { Ok(()) }
    }

    /// Set when the first signal comes.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// 130 after SIGINT, 143 after SIGTERM, as of a program that the signal ended.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(SIGNAL_CODE + self.first.load(Ordering::Relaxed))
    }
}

/// A signal stopped the command. The number is its exit code.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) u8);

impl std::fmt::Display for Stopped {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str(if self.0 == SIGNAL_CODE + SIGINT { "stopped by Ctrl-C" } else { "stopped by SIGTERM" })
    }
}

impl std::error::Error for Stopped {}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = interrupt.recv() => SIGINT,
        _ = terminate.recv() => SIGTERM,
    }
}
