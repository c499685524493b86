//! Files and directories whose mode bits allow access to their owner alone, and another user's
//! attempts to use them.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// The user that tries the access.
pub const CALLER: u32 = 4001;
/// The user that owns the files.
pub const OWNER: u32 = 4002;
/// Python that prints a line for each attempt to use them.
pub const RIGHTS: &str = include_str!("../programs/rights.py");

/// Makes the files of [`RIGHTS`], private to the owner.
pub fn lay_out(export: &Path) {
    std::fs::set_permissions(export, PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(export.join("f"), "text").unwrap();
    std::fs::write(export.join("program"), "#!/bin/sh\n").unwrap();
    std::fs::create_dir(export.join("closed")).unwrap();
    for (name, mode) in [("f", 0o600), ("program", 0o700), ("closed", 0o700)] {
        std::fs::set_permissions(export.join(name), PermissionsExt::from_mode(mode)).unwrap();
        chown(export.join(name), Some(OWNER), Some(OWNER)).unwrap();
    }
}
