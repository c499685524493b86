//! The commands, one file each: arguments in, wiring, exit code out. No logic that a room could hold.

/// Declares the commands: module, variant and the line `--help` shows.
macro_rules! commands {
    ($($(#[doc = $about:literal])+ $module:ident => $variant:ident,)*) => {
        $(mod $module;)*

        #[derive(clap::Subcommand)]
        #[allow(clippy::large_enum_variant, reason = "one value for the life of the program")]
        pub(crate) enum Command {
            $($(#[doc = $about])+ $variant($module::Args),)*
        }

        /// Runs a command.
        ///
        /// # Errors
        /// What kept it from running, to be printed as one line; the process then ends with code 2.
        pub(crate) fn run(command: Command) -> anyhow::Result<std::process::ExitCode> {
            match command {
                $(Command::$variant(args) => $module::run(args),)*
            }
        }
    };
}

commands! {
    /// The filer: serve a directory over NFS version 3
    serve => Serve,
    /// Ask or order a running filer: counters, power cut, stop
    volume => Volume,
    /// Files on an NFS server without a mount: ls, cat, cp, stat, bench
    nfs => Nfs,
    /// Run a program over Direct NFS: no mount, no root
    exec => Exec,
    /// Order-entry load: load, run, check on any PostgreSQL
    orders => Orders,
    /// The main job: one database on several storage paths, compared
    compare => Compare,
    /// What differs between two comparisons
    diff => Diff,
    /// What another load, more slots or another medium would give
    predict => Predict,
    /// Draw the report of a comparison again, or give it as CSV or Markdown
    report => Report,
    /// The shapes of the reports' figures, looked for in records of comparisons
    shapes => Shapes,
    /// The settings between database and disk, held against the rules: findings with reason, source and fix
    audit => Audit,
    /// What an audit needs of this host, as a capture that can be taken elsewhere
    collect => Collect,
    /// What the audit found, changed, measured and changed back: plan, apply, revert, measure, explain
    tune => Tune,
    /// What this host can measure, what not, and what fixes it
    doctor => Doctor,
}
