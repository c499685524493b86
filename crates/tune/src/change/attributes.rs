//! Copies extended attributes from a replaced file to the new file (xattr(7)).

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr};
use rustix::io::Errno;

/// The access control list of a file (acl(5)).
const ACCESS_LIST: &str = "system.posix_acl_access";
/// Attributes that are copied besides `user.*`: the access control list, and the labels of SELinux
/// and Smack. Others, such as the hash of IMA, describe the old contents.
const PASSED_ON: [&str; 3] = [ACCESS_LIST, "security.selinux", "security.SMACK64"];
/// The kernel's limits for a list of names and for a value (XATTR_LIST_MAX, XATTR_SIZE_MAX), in
/// bytes.
const BYTES_MAX: usize = 64 << 10;

/// Copies the attributes of a file to the new file that replaces it. A new file can get an access
/// control list from its directory. If the old file has no such list, the new one's is removed. If
/// the old file does not exist, nothing is changed.
pub(super) fn pass_on(old: &Path, new: &File) -> io::Result<()> {
    let mut names = vec![0; BYTES_MAX];
    let bytes = match llistxattr(old, &mut names) {
        Ok(bytes) => bytes,
        Err(Errno::NOENT | Errno::NOTSUP) => return Ok(()),
        Err(fault) => return Err(fault.into()),
    };
    let names = names.get(..bytes).unwrap_or(&[]).split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let names: Vec<&str> = names.filter(|name| PASSED_ON.contains(name) || name.starts_with("user.")).collect();
    if !names.contains(&ACCESS_LIST) {
        match fremovexattr(new, ACCESS_LIST) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    for name in names {
        let mut value = vec![0; BYTES_MAX];
        let bytes = lgetxattr(old, name, &mut value)?;
        value.truncate(bytes);
        let mut there = vec![0; BYTES_MAX];
        let is_there = fgetxattr(new, name, &mut there).is_ok_and(|bytes| there.get(..bytes) == Some(&value[..]));
        if !is_there {
            fsetxattr(new, name, &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An access control list that also lets user 1 read: version 2, then tag, rights and ID of
    /// each entry (acl(5), linux/posix_acl_xattr.h).
    fn access_list() -> Vec<u8> {
        const NO_NUMBER: u32 = u32::MAX;
        let entries: [(u16, u16, u32); 5] =
            [(1, 6, NO_NUMBER), (2, 4, 1), (4, 4, NO_NUMBER), (16, 4, NO_NUMBER), (32, 0, NO_NUMBER)];
        let bytes = |(tag, rights, number): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &number.to_le_bytes()].concat()
        };
        [2_u32.to_le_bytes().to_vec(), entries.into_iter().flat_map(bytes).collect()].concat()
    }

    #[test]
    fn a_replaced_file_passes_on_its_access_list_and_the_attributes_of_users() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), File::create(folder.path().join("new")).unwrap());
        let file = File::create(&old).unwrap();
        if fsetxattr(&file, ACCESS_LIST, &access_list(), XattrFlags::empty()).is_err() {
            return sim::skip_unsupported("the file system has no access lists");
        }
        pass_on(&old, &new).unwrap();
        let mut value = vec![0; BYTES_MAX];
        let bytes = fgetxattr(&new, ACCESS_LIST, &mut value).unwrap();
        assert_eq!(value[..bytes], access_list());
        // pass_on removes an access control list that the old file does not have.
        fremovexattr(&file, ACCESS_LIST).unwrap();
        pass_on(&old, &new).unwrap();
        assert_eq!(fgetxattr(&new, ACCESS_LIST, &mut value), Err(Errno::NODATA));
        pass_on(&folder.path().join("missing"), &new).unwrap();
        if fsetxattr(&file, "user.note", b"kept", XattrFlags::empty()).is_ok() {
            pass_on(&old, &new).unwrap();
            let bytes = fgetxattr(&new, "user.note", &mut value).unwrap();
            assert_eq!(value[..bytes], *b"kept");
        }
    }
}
