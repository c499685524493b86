//! The permanent identity of a file system (FS_IOC_GETFSUUID, statfs(2)).

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

use super::{BTRFS, EXT4, file_system_kind, fs_stat};

const TMPFS: i64 = 0x0102_1994;

/// `struct fsuuid2`.
#[repr(C)]
struct Uuid {
    bytes: u8,
    uuid: [u8; 16],
}

const GET_UUID: Opcode = opcode::read::<Uuid>(0x15, 0);

/// A text that no other file system has. `None` if the host has no identity that outlives a mount. The identity of a file system in memory
/// ends with it.
pub(crate) fn file_system_id(root: impl AsFd) -> io::Result<Option<String>> {
    // SAFETY: the opcode stores one struct of this layout at the address that it gets.
    let get = unsafe { Getter::<GET_UUID, Uuid>::new() };
    // SAFETY: the opcode is the one of this pattern; the descriptor is open.
    if let Ok(Uuid { bytes, uuid }) = unsafe { ioctl(&root, get) } {
        let uuid = uuid.get(..usize::from(bytes)).unwrap_or_default();
        if uuid.iter().any(|byte| *byte != 0) {
            return Ok(Some(uuid.iter().map(|byte| format!("{byte:02x}")).collect()));
        }
    }
    // Before Linux 6.9. These types derive the fsid from their UUID. Others derive it from the device number.
    let kind = file_system_kind(&root).unwrap_or_default();
    let number = fs_stat(root)?.f_fsid;
    Ok(([EXT4, BTRFS, TMPFS].contains(&kind) && number != 0).then(|| format!("{kind:x}-{number:x}")))
}
