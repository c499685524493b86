//! The commands, one file or directory each: arguments, wiring, exit codes, and the text they print.

mod apart;
mod audit;
mod bench;
mod collect;
mod compare;
mod diff;
mod doctor;
mod exec;
mod generate;
mod guest;
mod history;
mod interrupts;
mod iscsi;
mod keeper;
mod lun;
mod mount;
mod nfs;
mod orders;
mod output_file;
mod predict;
mod report;
mod runtime;
mod serve;
mod shapes;
mod tune;
mod unmount;
mod values;
mod volume;

pub(crate) use mount::of_mount_program;

#[derive(clap::Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one value for the life of the program")]
pub(crate) enum Command {
    /// Serve directories over NFS version 3, and LUNs over iSCSI: the filer
    Serve(serve::Args),
    /// Administer a running filer: volumes, counters, injected faults, power cut, stop
    Volume(volume::Args),
    /// Create, list, resize, map and delete LUNs of a running filer
    Lun(lun::Args),
    /// Use files on an NFS server without a mount; show the counters of mounts, and end a mount
    Nfs(nfs::Args),
    /// Use LUNs of an iSCSI target: discover, bench, attach as block devices, list, detach
    Iscsi(iscsi::Args),
    /// Run a program, such as PostgreSQL, over Direct NFS: no mount, no root
    Exec(exec::Args),
    /// Mount an NFS export by FUSE, for programs that exec cannot reach: static, Go, set-uid
    Mount(mount::Args),
    /// Unmount a directory that `mount` mounted
    Unmount(unmount::Args),
    /// Load and run the order-entry workload on any PostgreSQL or MariaDB, and check it
    Orders(orders::Args),
    /// Measure a database (PostgreSQL or MariaDB) on several storage paths and compare them
    Compare(compare::Args),
    /// Show the differences between two comparisons
    Diff(diff::Args),
    /// Show the figures of many comparisons over commits or dates
    History(history::Args),
    /// Predict the effect of another load, more slots or another medium
    Predict(predict::Args),
    /// Write the report of a stored comparison, also as CSV, Markdown or SVG
    Report(report::Args),
    /// Check which findings of five published storage reports your comparisons reproduce (docs/reports.md)
    Shapes(shapes::Args),
    /// Audit the settings between database and disk: findings with reason, source and fix
    Audit(audit::Args),
    /// Collect the facts of this host in an archive, to audit it elsewhere
    Collect(collect::Args),
    /// Apply what an audit recommends, revert it, and measure its effect: plan, apply, revert, measure, explain
    Tune(tune::Args),
    /// Commit and remove for programs of a mount that have ended
    #[command(hide = true)]
    Keeper(keeper::Args),
    /// Write man pages and shell completions, as packages hold them
    #[command(hide = true)]
    Generate(generate::Args),
    /// Run a command in a guest whose stock kernel has NFS, iSCSI and Fibre Channel clients
    Guest(guest::Args),
    /// Check what this host can measure, what it cannot, and how to fix that
    Doctor(doctor::Args),
}

/// Runs a command.
///
/// # Errors
/// The cause that kept the command from running. The caller prints it, and the process ends with code 2.
pub(crate) fn run(command: Command) -> anyhow::Result<std::process::ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Volume(args) => volume::run(args),
        Command::Lun(args) => lun::run(args),
        Command::Nfs(args) => nfs::run(args),
        Command::Iscsi(args) => iscsi::run(args),
        Command::Exec(args) => exec::run(args),
        Command::Mount(args) => mount::run(args),
        Command::Unmount(args) => unmount::run(args),
        Command::Orders(args) => orders::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Diff(args) => diff::run(args),
        Command::History(args) => history::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Report(args) => report::run(args),
        Command::Shapes(args) => shapes::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Collect(args) => collect::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Keeper(args) => keeper::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Guest(args) => guest::run(args),
        Command::Doctor(args) => doctor::run(args),
    }
}
