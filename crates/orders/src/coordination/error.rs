//! What can go wrong when several drivers carry out one run.

/// An error of the coordination of drivers. Texts complete "cannot run orders: …".
#[derive(Debug, thiserror::Error)]
pub enum CoordinationError {
    /// A name, number or share is outside its limits.
    #[error("{what}")]
    AgreedOptions {
        /// Which, and what is allowed.
        what: String,
    },
    /// The drivers of one run were given different options.
    #[error("run {run} was begun with {term} {theirs}, this driver has {ours}")]
    Disagree {
        /// Name of the run.
        run: String,
        /// What differs.
        term: String,
        /// Value of the first driver.
        theirs: String,
        /// Value of this one.
        ours: String,
    },
    /// The run has begun or ended.
    #[error("run {run} began {ago_s} s ago")]
    Begun {
        /// Name of the run.
        run: String,
        /// When, by the clock of the results database.
        ago_s: i64,
    },
    /// Another driver has the number, or all are taken.
    #[error("{what} of run {run} is taken")]
    Taken {
        /// Name of the run.
        run: String,
        /// Which number.
        what: String,
    },
    /// Not all drivers came in time.
    #[error("after {seconds} s run {run} still lacks {missing}")]
    Barrier {
        /// Name of the run.
        run: String,
        /// How long the barrier was waited for.
        seconds: u64,
        /// The drivers that are missing, with their hosts where known.
        missing: String,
    },
    /// This driver sent no heartbeat for so long that another took its number.
    #[error("driver {driver} of run {run} was replaced: it had sent no heartbeat for too long")]
    Replaced {
        /// Name of the run.
        run: String,
        /// Number of this driver.
        driver: u32,
    },
    /// No run of that name.
    #[error("there is no run {run} in the results database")]
    NoRun {
        /// Name of the run.
        run: String,
    },
    /// No driver left a record that could be merged.
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
    /// The results database holds tables of another version.
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
    /// What the user can do about it, where that is known.
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

    /// Whether nothing was run (exit code 2).
    #[must_use]
    pub const fn could_not_run(&self) -> bool {
        !matches!(self, Self::Replaced { .. } | Self::Nothing { .. } | Self::Record { .. })
    }
}
