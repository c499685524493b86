//! Keeps the processors of this host awake during measured runs.
//!
//! An idle virtual machine returns its processors to the hypervisor, and a busy hypervisor gives them back late. A database
//! that mostly waits for its disk then measures how busy other machines are. While a process requests a latency of 0 from
//! the kernel (PM QoS), the idle loop polls instead (Documentation/power/pm_qos_interface.rst). That time stays idle time in all figures.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::error::LabError;

/// Device for the request; the request is valid as long as the file is open.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// The request, withdrawn when this is dropped or this process ends.
pub(crate) struct KeepAwake {
    _request: File,
}

impl KeepAwake {
    /// Requests that processors do not sleep.
    pub(crate) fn begin() -> Result<Self, LabError> {
        Self::by(Path::new(DEVICE))
    }

    /// Checks that this process may make the request. Requests nothing.
    pub(crate) fn check() -> Result<(), LabError> {
        let device = Path::new(DEVICE);
        accessat(CWD, device, Access::WRITE_OK, AtFlags::EACCESS).map_err(|error| refused(device, error.into()))
    }

    fn by(device: &Path) -> Result<Self, LabError> {
        let microseconds = 0i32.to_ne_bytes();
        let request = File::options().write(true).open(device).and_then(|mut file| file.write_all(&microseconds).map(|()| file));
        Ok(Self { _request: request.map_err(|error| refused(device, error))? })
    }
}

fn refused(device: &Path, source: std::io::Error) -> LabError {
    LabError::Missing {
        what: format!("keep the processors awake by {}: {source}", device.display()),
        hint: "run as root on a kernel that manages idle processors, or leave --keep-awake out".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_four_bytes_of_nothing_and_a_missing_device_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("latency");
        let failed = KeepAwake::by(&device).err().expect("there is no such device");
        assert!(failed.to_string().contains("latency"), "{failed}");
        std::fs::write(&device, "").unwrap();
        let _awake = KeepAwake::by(&device).unwrap();
        assert_eq!(std::fs::read(&device).unwrap(), [0; 4]);
    }
}
