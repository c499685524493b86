//! What went wrong on a mount, as errno: dnfs has the table.

use crate::outcome::Out;

impl From<dnfs::Error> for Out {
    fn from(error: dnfs::Error) -> Self {
        Self::Errno(error.errno())
    }
}
