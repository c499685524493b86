//! Sessions of open-iscsi that attached LUNs use. LUNs of one target share them; detaching the last LUN ends them.

use super::attached::{self, Attached};
use super::kernel_record::{Kernel, KernelSession};
use crate::error_printing::refusal;
use initiator::IscsiUrl;
use initiator::attach::BlockDevice;
use initiator::kernel::{KernelDevice, Portal, other_devices, release, sessions_of};

/// The LUN's disk of the kernel's initiator, whichever program logged in.
pub(super) fn disk_of(url: &IscsiUrl) -> Option<KernelDevice> {
    let (target, lun) = url.target.as_ref()?;
    let sessions: Vec<u32> = sessions_of(target.as_str()).iter().map(|session| session.number).collect();
    KernelDevice::find(*lun, &sessions, None)
}

/// Refuses a LUN whose disk of the kernel's initiator is in use.
pub(super) fn check_disk_unused(url: &IscsiUrl) -> anyhow::Result<()> {
    let Some(device) = disk_of(url) else { return Ok(()) };
    let users = device.users();
    if users.is_empty() {
        return Ok(());
    }
    let what = format!("attach {url}: it is {} here, and used by {}", device.path().display(), users.join(", "));
    Err(refusal(what, "two block devices of one LUN do not see each other's writes: use that one, or end its use first"))
}

/// Sessions of a target that other attachments also use.
pub(super) fn of_target(target: &str, but: &Attached, all: &[Attached]) -> Vec<KernelSession> {
    let others = all.iter().filter(|other| other.directory != but.directory).filter_map(|other| other.record.kernel.as_ref());
    others.filter(|kernel| kernel.target == target).flat_map(|kernel| kernel.sessions.clone()).collect()
}

/// Sessions, each with its target, that only these LUNs use.
fn of_these_alone<'a>(luns: &[&'a Attached], all: &[Attached]) -> Vec<(&'a str, &'a KernelSession)> {
    let mut found: Vec<(&str, &KernelSession)> = Vec::new();
    let is_other = |one: &&Attached| !luns.iter().any(|lun| lun.directory == one.directory);
    let others: Vec<&Kernel> = all.iter().filter(is_other).filter_map(|other| other.record.kernel.as_ref()).collect();
    for kernel in luns.iter().filter_map(|lun| lun.record.kernel.as_ref()) {
        for session in &kernel.sessions {
            // A session with a smaller number was lost before this one was made over the same portal.
            let is_used =
                |one: &KernelSession| one.portal == session.portal && (one.number.is_none() || one.number >= session.number);
            let uses = |other: &&Kernel| other.target == kernel.target && other.sessions.iter().any(is_used);
            let known = found.iter_mut().find(|(target, known)| *target == kernel.target && known.portal == session.portal);
            match known {
                Some((_, known)) if known.number < session.number => *known = session,
                None if !others.iter().any(uses) => found.push((kernel.target.as_str(), session)),
                _ => {}
            }
        }
    }
    found
}

/// Other devices of this host that use these sessions.
fn others_on(sessions: &[(&str, &KernelSession)], luns: &[&Attached]) -> Vec<KernelDevice> {
    let mut targets: Vec<&str> = sessions.iter().map(|(target, _)| *target).collect();
    targets.sort_unstable();
    targets.dedup();
    let of = |target: &str| {
        let numbers: Vec<u32> =
            sessions.iter().filter(|(one, _)| *one == target).filter_map(|(_, session)| session.number).collect();
        let kernels = luns.iter().filter_map(|lun| lun.record.kernel.as_ref());
        let luns: Vec<u16> = kernels.filter(|kernel| kernel.target == target).map(|kernel| kernel.lun).collect();
        other_devices(&numbers, &luns)
    };
    targets.into_iter().flat_map(of).collect()
}

/// Fails if a device that is not one of these LUNs is in use and needs the sessions that would end.
pub(super) fn check_unused(luns: &[&Attached]) -> anyhow::Result<()> {
    let all = attached::all()?;
    for device in others_on(&of_these_alone(luns, &all), luns) {
        let users = device.users();
        if !users.is_empty() {
            let what = format!("log out: {} uses the same session, and is used by {}", device.path().display(), users.join(", "));
            return Err(refusal(what, "end this use first; nothing was changed"));
        }
    }
    Ok(())
}

/// Removes LUNs whose file systems are unmounted, with the sessions and node records that no other LUN uses.
pub(super) fn take_away(luns: &[(&Attached, Vec<BlockDevice>)]) -> anyhow::Result<()> {
    if luns.is_empty() {
        return Ok(());
    }
    let _lock = attached::lock_all()?;
    let (all, these) = (attached::all()?, luns.iter().map(|(attached, _)| *attached).collect::<Vec<_>>());
    let ending = of_these_alone(&these, &all);
    let ends = |number: &u32| ending.iter().any(|(_, session)| session.number == Some(*number));
    // No program uses these devices. They end with their sessions.
    let mut devices = others_on(&ending, &these);
    devices.iter().try_for_each(KernelDevice::flush)?;
    for (attached, found) in luns {
        let numbers = attached.record.kernel.as_ref().map(Kernel::numbers).unwrap_or_default();
        let staying: Vec<u32> = numbers.into_iter().filter(|number| !ends(number)).collect();
        for device in found {
            let BlockDevice::Kernel(device) = device else { continue };
            device.flush()?;
            device.delete_disks(&staying)?;
            devices.push(device.clone());
        }
    }
    for (target, session) in &ending {
        release(target, Portal { address: session.portal, group: None }, session.number)?;
    }
    devices.iter().try_for_each(KernelDevice::remove_map)?;
    these.into_iter().try_for_each(Attached::remove)
}

#[cfg(test)]
mod tests {
    use super::super::attached::Record;
    use super::*;
    use std::net::SocketAddr;

    fn attached(directory: &str, target: &str, lun: u16, ports: &[u16]) -> Attached {
        let session =
            |port: &u16| KernelSession { portal: SocketAddr::from(([10, 0, 0, 1], *port)), number: Some((*port).into()) };
        let sessions = ports.iter().map(session).collect();
        let mut record = Record::new(format!("iscsi://10.0.0.1/{target}/{lun}"));
        record.kernel = Some(Kernel { target: target.into(), lun, sessions, map: None });
        Attached { directory: directory.into(), record }
    }

    fn ports(found: &[(&str, &KernelSession)]) -> Vec<(String, u16)> {
        found.iter().map(|(target, session)| ((*target).to_owned(), session.portal.port())).collect()
    }

    #[test]
    fn a_session_ends_with_the_last_lun_of_its_target_that_is_attached_over_it() {
        let all = [
            attached("one", "iqn.a", 0, &[3260, 3261]),
            attached("two", "iqn.a", 1, &[3261]),
            attached("three", "iqn.b", 0, &[3260]),
        ];
        let [one, two, three] = &all;
        let ended = |luns: &[&Attached]| ports(&of_these_alone(luns, &all));
        assert_eq!(ended(&[one]), [("iqn.a".to_owned(), 3260)], "the other portal is used by another LUN");
        assert_eq!(ended(&[two]), []);
        assert_eq!(ended(&[one, two]), [("iqn.a".to_owned(), 3260), ("iqn.a".to_owned(), 3261)], "each once");
        assert_eq!(ended(&[three]), [("iqn.b".to_owned(), 3260)]);
        let shared: Vec<u16> = of_target("iqn.a", one, &all).iter().map(|session| session.portal.port()).collect();
        assert_eq!(shared, [3261], "those of others, for one that is being attached");
    }

    #[test]
    fn a_session_that_was_lost_is_not_ended_by_the_one_that_took_its_place() {
        let mut all = [attached("lost", "iqn.a", 0, &[3260]), attached("new", "iqn.a", 1, &[3260])];
        all[1].record.kernel.as_mut().unwrap().sessions[0].number = Some(9999);
        let [lost, new] = &all;
        assert_eq!(ports(&of_these_alone(&[lost], &all)), [], "its portal and its record are the new one's");
        assert_eq!(ports(&of_these_alone(&[new], &all)), [("iqn.a".to_owned(), 3260)]);
        assert_eq!(of_these_alone(&[lost, new], &all)[0].1.number, Some(9999));
    }

    #[test]
    fn a_record_of_open_iscsi_is_read_as_it_was_written() {
        let record = attached("one", "iqn.a", 7, &[3260]).record;
        let text = serde_json::to_string(&record).unwrap();
        assert!(
            text.contains(r#""kernel":{"target":"iqn.a","lun":7,"sessions":[{"portal":"10.0.0.1:3260","number":3260}]"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap().kernel, record.kernel);
    }
}
