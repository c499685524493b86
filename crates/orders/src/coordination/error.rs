//! Errors of runs with several drivers.

/// An error of the coordination of drivers. Texts complete "cannot run orders: …".
#[derive(Debug, thiserror::Error)]
pub enum CoordinationError {
    /// An option is outside its limits.
    #[error("{what}")]
    AgreedOptions {
        /// Which option, and its limits.
        what: String,
    },
    /// The drivers of one run were given different options.
    #[error("run {run} was begun with {term} {theirs}, this driver has {ours}")]
    Disagree {
        /// Name of the run.
        run: String,
        /// The option that differs.
        term: String,
        /// Value of the first driver.
        theirs: String,
        /// Value of this one.
        ours: String,
    },
    /// The run has already begun or ended.
    #[error("run {run} began {ago_s} s ago")]
    Begun {
        /// Name of the run.
        run: String,
        /// Seconds since it began, by the clock of the results database.
        ago_s: i64,
    },
    /// Another driver has this number, or all numbers are in use.
    #[error("{what} of run {run} is taken")]
    Taken {
        /// Name of the run.
        run: String,
        /// Which number.
        what: String,
    },
    /// Not all drivers were ready in time.
    #[error("after {seconds} s run {run} still lacks {missing}")]
    Barrier {
        /// Name of the run.
        run: String,
        /// Seconds this driver waited at the barrier.
        seconds: u64,
        /// The missing drivers, with their hosts if known.
        missing: String,
    },
    /// Another driver took this driver's number because its heartbeats were missing for too long.
    #[error("driver {driver} of run {run} was replaced: it had sent no heartbeat for too long")]
    Replaced {
        /// Name of the run.
        run: String,
        /// Number of this driver.
        driver: u32,
    },
    /// The results database has no run of this name.
    #[error("there is no run {run} in the results database")]
    NoRun {
        /// Name of the run.
        run: String,
    },
    /// No driver stored a record that can be merged.
    #[error("no driver of run {run} stored a record")]
    Nothing {
        /// Name of the run.
        run: String,
    },
    /// A stored record cannot be read.
    #[error("the record of driver {driver} of run {run} cannot be read: {detail}")]
    Record {
        /// Name of the run.
        run: String,
        /// Number of the driver.
        driver: u32,
        /// What is wrong with it.
        detail: String,
    },
    /// The results database has tables of another version.
    #[error("schema {schema} has version {found}; this program reads version {expected}")]
    Version {
        /// The schema's name.
        schema: &'static str,
        /// Version in the database.
        found: i32,
        /// Version of this program.
        expected: i32,
    },
}

impl CoordinationError {
    /// What the user can do about the error, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Disagree { .. } => "start all drivers of a run with the same options, or choose another --run NAME".into(),
            Self::Begun { run, .. } => format!(
                "every run needs a new --run NAME; `millrace orders merge --results-db DSN --run {run}` shows the records of \
                 this one"
            ),
            Self::Taken { .. } => "start no more drivers than --drivers says, each with its own --driver number".into(),
            Self::Barrier { .. } => "start the missing drivers, or raise --barrier-timeout".into(),
            Self::NoRun { .. } => "use the --run NAME that the drivers were started with".into(),
            Self::Version { schema, .. } => format!("if it is not needed, remove it: DROP SCHEMA {schema} CASCADE"),
            Self::AgreedOptions { .. } | Self::Replaced { .. } | Self::Nothing { .. } | Self::Record { .. } => return None,
        })
    }

    /// Whether the command did not run at all (exit code 2).
    #[must_use]
    pub const fn could_not_run(&self) -> bool {
        !matches!(self, Self::Replaced { .. } | Self::Nothing { .. } | Self::Record { .. })
    }
}
