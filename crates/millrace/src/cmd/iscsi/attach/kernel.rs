//! Attaches a LUN by the kernel's initiator.
//!
//! Millrace's own initiator first logs in and out again. It reports a refusal of the target, and a
//! portal that does not answer, at once and in the words of the other client. It also identifies
//! the LUN, so that only the right disk of the kernel is used.

use super::start::{Order, Ready};
use crate::cmd::iscsi::attached::{self, Attached};
use crate::cmd::iscsi::kernel_record::{Kernel, KernelSession};
use crate::cmd::iscsi::kernel_sessions;
use crate::cmd::iscsi::url_and_options;
use anyhow::Context as _;
use initiator::kernel::{self, KernelDevice, KernelError, LunOrder, Portal, Settings, Waiting};
use initiator::{Device, IscsiUrl, Options, PathReport, PathState};
use std::time::{Duration, Instant};

/// Time without a connection after which commands use another path; with a single path, after which
/// they fail, as with Millrace's own client.
const REPLACEMENT: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(120));
/// The longest wait of one iteration while paths come up.
const LOOK: Duration = Duration::from_millis(50);

/// Prints on stderr what the command waits for.
struct Told;

impl Waiting for Told {
    fn note(&self, what: &str) {
        eprintln!("waiting for {what}");
    }
}

/// A LUN to attach: what Millrace's own initiator found at its portals.
struct Found {
    ready: Ready,
    designator: String,
    portals: Vec<Portal>,
}

/// Makes a LUN a block device, and records each step before doing it. `check` gets the record once
/// the record identifies the LUN.
pub(super) fn serve(
    order: &Order,
    attached: &mut Attached,
    check: impl FnOnce(&Attached) -> anyhow::Result<()>,
) -> anyhow::Result<(KernelDevice, Vec<String>)> {
    let (url, options) = url_and_options(&order.url, order.initiator.as_deref())?;
    let (target, lun) = url.target.clone().context("find the target in the URL")?;
    let target = target.as_str();
    // Under the lock, the second of two LUNs of one target finds the sessions of the first.
    let _lock = attached::lock_all()?;
    let shared = kernel_sessions::of_target(target, attached, &attached::all()?);
    let own: Vec<u32> = shared.iter().filter_map(|session| session.number).collect();
    kernel::check_unused(target, &own)?;
    let found = find(&url, Options { of_use: Order::of_use(&url), ..options })?;
    found.ready.write_to(&mut attached.record);
    attached.save()?;
    check(attached)?;

    attached.record.kernel = Some(Kernel { target: target.to_owned(), lun, sessions: Vec::new(), map: None });
    let settings = settings(&url, order.depth);
    for portal in &found.portals {
        let known = shared.iter().find(|session| session.portal == portal.address).and_then(|session| session.number);
        let known = known.filter(|number| kernel::sessions_of(target).iter().any(|session| session.number == *number));
        log_in(target, *portal, known, &settings, attached)?;
    }
    let record = attached.record.kernel.as_mut().context("find the record of its sessions")?;
    let (sessions, depth) = (record.numbers(), settings.depth);
    let wanted = LunOrder { target, lun, sessions: &sessions, depth, designator: Some(&found.designator) };
    let device = KernelDevice::bring_up(&wanted, &Told)?;
    record.map = device.map().map(str::to_owned);
    attached.record.device = Some(device.path().display().to_string());
    attached.save()?;
    let warning = "multipathd has I/O fail at once while no path is up (no_path_retry of /etc/multipath.conf): a restart of the target is an \
                   error then; `no_path_retry 24` waits for two minutes";
    let warnings = if device.fails_at_once() { vec![warning.to_owned()] } else { Vec::new() };
    Ok((device, warnings))
}

/// Adds a session over one portal: one that another LUN of the target already has, or a new one.
fn log_in(target: &str, portal: Portal, known: Option<u32>, settings: &Settings, attached: &mut Attached) -> anyhow::Result<()> {
    edit(attached, |sessions| sessions.push(KernelSession { portal: portal.address, number: known }))?;
    if known.is_some() {
        return Ok(());
    }
    match kernel::log_in(target, portal, settings, &Told) {
        Ok(number) => edit(attached, |sessions| {
            if let Some(session) = sessions.last_mut() {
                session.number = Some(number);
            }
        }),
        Err(error) => {
            // The session or node record belongs to another program, so undoing must leave it alone.
            if matches!(error, KernelError::OthersRecord { .. } | KernelError::OthersSession { .. }) {
                edit(attached, |sessions| sessions.truncate(sessions.len().saturating_sub(1)))?;
            }
            Err(error.into())
        }
    }
}

/// Changes the sessions of a record.
fn edit(attached: &mut Attached, change: impl FnOnce(&mut Vec<KernelSession>)) -> anyhow::Result<()> {
    if let Some(kernel) = &mut attached.record.kernel {
        change(&mut kernel.sessions);
    }
    attached.save()
}

fn settings(url: &IscsiUrl, depth: usize) -> Settings {
    let replacement = if url.portals.len() > 1 { REPLACEMENT.0 } else { REPLACEMENT.1 };
    Settings {
        digests: url.digests,
        chap_algorithms: url.chap_algorithms.clone(),
        credential: url.credential.clone(),
        target_credential: url.target_credential.clone(),
        ..Settings::new(u32::try_from(depth).unwrap_or(u32::MAX), replacement)
    }
}

/// Logs in by Millrace's own initiator, and out again.
fn find(url: &IscsiUrl, options: Options) -> anyhow::Result<Found> {
    let limit = Instant::now() + options.login_timeout;
    let mut device = Device::open(url, options)?;
    let is_settled = |path: &PathReport| path.state == PathState::Up || path.failures > 0;
    while !device.paths().iter().all(is_settled) && Instant::now() < limit {
        device.turn(Some(LOOK), None)?;
    }
    let paths = device.paths();
    let (ready, designator) = (Ready::of(&device, Vec::new()), device.identity().designator.clone());
    device.close();
    let portals = paths.into_iter().map(portal).collect::<Result<_, _>>()?;
    Ok(Found { ready, designator, portals })
}

/// The portal of a path that is up. Fails if the path is down.
fn portal(path: PathReport) -> Result<Portal, KernelError> {
    match path.address {
        Some(address) if path.state == PathState::Up => Ok(Portal { address, group: path.portal_group }),
        _ => {
            let why = path.last_error.unwrap_or_else(|| "no answer yet".to_owned());
            Err(KernelError::PortalDown { portal: path.portal, why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_paths_are_given_up_sooner_than_a_single_one() {
        let settings = |url: &str| settings(&url.parse().unwrap(), 64);
        let two = settings("iscsi://10.0.0.1,10.0.1.1/iqn.2026-11.org.example:v/0?header_digest=crc32c");
        assert_eq!((two.depth, two.replacement_timeout, two.digests), (64, Duration::from_secs(15), (true, false)));
        assert_eq!(settings("iscsi://10.0.0.1/iqn.2026-11.org.example:v/0").replacement_timeout, Duration::from_secs(120));
    }

    #[test]
    fn a_portal_that_is_down_is_named_with_its_reason() {
        let path = |state, last_error: Option<&str>| PathReport {
            portal: "10.0.0.1:3260".into(),
            address: Some(([10, 0, 0, 1], 3260).into()),
            portal_group: Some(2),
            state,
            access: initiator::AccessState::Optimized,
            under_way: 0,
            completed: 0,
            failures: 1,
            downs: 0,
            last_error: last_error.map(str::to_owned),
        };
        let up = portal(path(PathState::Up, None)).unwrap();
        assert_eq!((up.address.to_string(), up.group), ("10.0.0.1:3260".into(), Some(2)));
        let said = portal(path(PathState::Down, Some("refused"))).unwrap_err().to_string();
        assert_eq!(said, "portal 10.0.0.1:3260 is down now (refused), and open-iscsi would not try it again");
    }
}
