//! The caller's credentials: AUTH_SYS, RFC 5531 appendix A.

use crate::limits::MACHINE_BYTES_MAX;
use crate::sys::process;
use crate::url::NfsUrl;
use crate::user_namespace;
use nfs_proto::rpc::{AUTH_SYS, AuthBody, AuthSys, Groups, MachineName, OpaqueAuth};
use nfs_proto::xdr::{Encode, Writer, encode_to};

/// The identity sent with every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups, at most 16: the protocol has no room for more.
    pub groups: Groups,
    /// Name of this machine, which servers log.
    pub machine: Vec<u8>,
}

impl Credentials {
    /// The credentials of this process: effective ids, its groups, the host's name. Checks again in which user namespace it is.
    #[must_use]
    pub fn of_process() -> Self {
        user_namespace::refresh();
        let (uid, gid) = (process::effective_uid(), process::effective_gid());
        let mut machine = process::host_name();
        machine.truncate(MACHINE_BYTES_MAX);
        Self { uid, gid, groups: Groups::new(&process::groups()), machine }
    }

    /// The credentials of another user that calls through this process: ids, groups (the first 16), this host's name.
    #[must_use]
    pub fn of_user(uid: u32, gid: u32, groups: &[u32]) -> Self {
        let mut machine = process::host_name();
        machine.truncate(MACHINE_BYTES_MAX);
        Self { uid, gid, groups: Groups::new(groups), machine }
    }

    /// The same credentials with the `uid` and `gid` of the URL. Another user gets none of the caller's groups.
    #[must_use]
    pub fn for_url(&self, url: &NfsUrl) -> Self {
        let uid = url.options.uid.unwrap_or(self.uid);
        let gid = url.options.gid.unwrap_or(self.gid);
        let groups = if uid == self.uid { self.groups } else { Groups::default() };
        Self { uid, gid, groups, machine: self.machine.clone() }
    }

    /// Appends credential and verifier of a call.
    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        let machine = self.machine.get(..self.machine.len().min(MACHINE_BYTES_MAX)).unwrap_or_default();
        let sys = AuthSys { stamp: 0, machine_name: MachineName(machine), uid: self.uid, gid: self.gid, gids: self.groups };
        let mut body = Vec::new();
        encode_to(&sys, &mut body);
        OpaqueAuth { flavor: AUTH_SYS, body: AuthBody(&body) }.encode(out);
        OpaqueAuth::NONE.encode(out);
    }
}
