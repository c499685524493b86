//! The commands, one file or directory each: arguments, wiring, exit codes, and the text they print.

mod apart;
mod bench;
mod runtime;

pub(crate) use mount::of_mount_program;

/// Declares the commands: module, variant and the line `--help` shows.
macro_rules! commands {
    ($($(#[$about:meta])+ $module:ident => $variant:ident,)*) => {
        $(mod $module;)*

        #[derive(clap::Subcommand)]
        #[allow(clippy::large_enum_variant, reason = "one value for the life of the program")]
        pub(crate) enum Command {
            $($(#[$about])+ $variant($module::Args),)*
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
    /// Serve a directory over NFS version 3: the filer
    serve => Serve,
    /// Administer a running filer: volumes, counters, injected faults, power cut, stop
    volume => Volume,
    /// Make, list, resize, map and delete LUNs of a running filer
    lun => Lun,
    /// Use files on an NFS server without a mount: ls, cat, cp, stat, bench
    nfs => Nfs,
    /// Use LUNs of an iSCSI target without the kernel's initiator: discover, bench, attach
    iscsi => Iscsi,
    /// Run a program, such as PostgreSQL, over Direct NFS: no mount, no root
    exec => Exec,
    /// Mount an NFS export by FUSE, for programs that exec cannot reach: static, Go, set-uid
    mount => Mount,
    /// Unmount a directory that `mount` mounted
    unmount => Unmount,
    /// Load and run the order-entry workload on any PostgreSQL or MariaDB, and check it
    orders => Orders,
    /// Measure a database (PostgreSQL or MariaDB) on several storage paths and compare them
    compare => Compare,
    /// Show the differences between two comparisons
    diff => Diff,
    /// Show the figures of many comparisons over commits or dates
    history => History,
    /// Predict what another load, more slots or another medium would give
    predict => Predict,
    /// Write the report of a stored comparison, also as CSV, Markdown or SVG
    report => Report,
    /// Check which findings of five published storage reports your comparisons reproduce (docs/reports.md)
    shapes => Shapes,
    /// Audit the settings between database and disk: findings with reason, source and fix
    audit => Audit,
    /// Collect the facts of this host in an archive, to audit it elsewhere
    collect => Collect,
    /// Apply what an audit recommends, revert it, and measure its effect: plan, apply, revert, measure, explain
    tune => Tune,
    /// Commit and remove for programs of a mount that have ended
    #[command(hide = true)]
    keeper => Keeper,
    /// Write man pages and shell completions, as packages hold them
    #[command(hide = true)]
    generate => Generate,
    /// Run a command in a guest whose stock kernel has NFS, iSCSI and Fibre Channel clients
    guest => Guest,
    /// Check what this host can measure, what it cannot, and how to fix that
    doctor => Doctor,
}
