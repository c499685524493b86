//! Sessions of a target and their disks, in sysfs.

use super::error::KernelError;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

const SESSIONS: &str = "/sys/class/iscsi_session";
const CONNECTIONS: &str = "/sys/class/iscsi_connection";
const HOSTS: &str = "/sys/class/scsi_host";
/// LUNs from this number on have flat addresses, for which the kernel's number has this bit (SAM-5 4.7.7.3, `scsilun_to_int`).
const FLAT: u16 = 256;
const FLAT_BIT: u32 = 0x4000;

/// A session with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The kernel's number of the session. It is not used again before the next boot.
    pub number: u32,
    /// The portal with which the session was made, even if the target redirected it.
    pub portal: Option<SocketAddr>,
}

/// A disk of this host, over one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// `sda`.
    pub name: String,
    /// The number of the session.
    pub session: u32,
    /// The kernel's number of the LUN.
    pub(super) unit: u32,
}

impl Disk {
    /// As in `/dev/sda`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Its directory in sysfs.
    #[must_use]
    pub fn system(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name)
    }

    /// Whether the disk accepts commands.
    #[must_use]
    pub fn is_running(&self) -> bool {
        fs::read_to_string(self.system().join("device/state")).is_ok_and(|state| state.trim() == "running")
    }
}

/// The kernel's number of a LUN.
pub(super) fn unit_of(lun: u16) -> u32 {
    if lun < FLAT { lun.into() } else { FLAT_BIT | u32::from(lun) }
}

/// Whether a session is logged in now.
#[must_use]
pub fn is_logged_in(number: u32) -> bool {
    let file = Path::new(SESSIONS).join(format!("session{number}/state"));
    fs::read_to_string(file).is_ok_and(|state| state.trim() == "LOGGED_IN")
}

/// The sessions with a target, in the order in which they were made. Includes those of other
/// programs.
#[must_use]
pub fn sessions_of(target: &str) -> Vec<Session> {
    sessions_below(Path::new(SESSIONS), Path::new(CONNECTIONS), target)
}

/// `sessionN/targetname` names the target; `connectionN:0/persistent_address` and `persistent_port` the portal.
fn sessions_below(sessions: &Path, connections: &Path, target: &str) -> Vec<Session> {
    let number = |entry: &PathBuf| name_of(entry).strip_prefix("session")?.parse::<u32>().ok();
    let text = |file: PathBuf| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let is_of = |entry: &PathBuf| text(entry.join("targetname")).is_some_and(|name| name == target);
    let portal = |number: u32| {
        let connection = connections.join(format!("connection{number}:0"));
        let address: IpAddr = text(connection.join("persistent_address"))?.parse().ok()?;
        Some(SocketAddr::new(address, text(connection.join("persistent_port"))?.parse().ok()?))
    };
    let numbers = entries(sessions).into_iter().filter(is_of).filter_map(|entry| number(&entry));
    let mut found: Vec<Session> = numbers.map(|number| Session { number, portal: portal(number) }).collect();
    found.sort_by_key(|session| session.number);
    found
}

/// The existing disks of a session.
pub(super) fn disks_of(session: u32) -> Vec<Disk> {
    disks_below(Path::new(SESSIONS), session)
}

/// `sessionN/device/targetH:C:T/H:C:T:L/block/NAME`.
fn disks_below(sessions: &Path, session: u32) -> Vec<Disk> {
    let targets = entries(&sessions.join(format!("session{session}/device"))).into_iter();
    let units = targets.filter(|entry| name_of(entry).starts_with("target")).flat_map(|target| entries(&target));
    let mut disks: Vec<Disk> = Vec::new();
    for entry in units {
        let Some(unit) = name_of(&entry).rsplit(':').next().and_then(|unit| unit.parse().ok()) else { continue };
        disks.extend(entries(&entry.join("block")).iter().map(|disk| Disk { name: name_of(disk), session, unit }));
    }
    disks.sort_by_key(|disk| disk.unit);
    disks
}

/// Makes the kernel search for a LUN over a session.
pub(super) fn look_for(lun: u16, session: u32) -> Result<(), KernelError> {
    let device = Path::new(SESSIONS).join(format!("session{session}/device"));
    let fault =
        |action: &'static str, path: &PathBuf, source: io::Error| KernelError::File { action, path: path.clone(), source };
    // The directory is in `…/host3/session1`.
    let place = fs::canonicalize(&device).map_err(|source| fault("find", &device, source))?;
    let scan = Path::new(HOSTS).join(place.parent().map(name_of).unwrap_or_default()).join("scan");
    fs::write(&scan, format!("- - {}", unit_of(lun))).map_err(|source| fault("write", &scan, source))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_a_target_have_their_portals_and_those_of_no_other_target_are_among_them() {
        let root = tempfile::tempdir().unwrap();
        let (sessions, connections) = (root.path().join("sessions"), root.path().join("connections"));
        for (number, target, address, port) in
            [(10, "iqn.a", "10.0.0.1", "3260"), (2, "iqn.a", "2001:db8::1", "3261"), (3, "iqn.ab", "10.0.0.1", "3260")]
        {
            let session = sessions.join(format!("session{number}"));
            let connection = connections.join(format!("connection{number}:0"));
            fs::create_dir_all(&session).unwrap();
            fs::create_dir_all(&connection).unwrap();
            fs::write(session.join("targetname"), format!("{target}\n")).unwrap();
            fs::write(connection.join("persistent_address"), format!("{address}\n")).unwrap();
            fs::write(connection.join("persistent_port"), format!("{port}\n")).unwrap();
        }
        fs::create_dir_all(sessions.join("session4")).unwrap(); // a session that is being made
        let found = sessions_below(&sessions, &connections, "iqn.a");
        let portal = |text: &str| Some(text.parse().unwrap());
        let expected = [
            Session { number: 2, portal: portal("[2001:db8::1]:3261") },
            Session { number: 10, portal: portal("10.0.0.1:3260") },
        ];
        assert_eq!(found, expected);
        assert_eq!(sessions_below(&sessions, &connections, "iqn"), []);
    }

    #[test]
    fn disks_of_a_session_have_the_numbers_of_their_luns() {
        let root = tempfile::tempdir().unwrap();
        for (session, unit, disk) in
            [("session1", "2:0:0:0", "sdb"), ("session1", "2:0:0:16641", "sda"), ("session2", "3:0:0:0", "sdc")]
        {
            fs::create_dir_all(root.path().join(session).join(format!("device/target{}/{unit}/block/{disk}", &unit[..5])))
                .unwrap();
        }
        fs::create_dir_all(root.path().join("session1/device/connection1:0/power")).unwrap();
        let found =
            |session| disks_below(root.path(), session).into_iter().map(|disk| (disk.name, disk.unit)).collect::<Vec<_>>();
        assert_eq!(found(1), [("sdb".to_owned(), unit_of(0)), ("sda".to_owned(), unit_of(257))]);
        assert_eq!((found(2).len(), found(3).len()), (1, 0));
    }
}
