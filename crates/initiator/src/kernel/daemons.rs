//! The daemons of open-iscsi and dm-multipath, which the host starts.

use std::fs;

/// A daemon that listens on an abstract socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Daemon {
    pub(super) name: &'static str,
    /// Its socket, as /proc/net/unix has it.
    socket: &'static str,
}

/// Source: `ISCSIADM_NAMESPACE` in usr/mgmt_ipc.h of open-iscsi.
pub(super) const ISCSID: Daemon = Daemon { name: "iscsid", socket: "@ISCSIADM_ABSTRACT_NAMESPACE" };
/// Source: `DEFAULT_SOCKET` in multipath-tools.
pub(super) const MULTIPATHD: Daemon = Daemon { name: "multipathd", socket: "@/org/kernel/linux/storage/multipathd" };

impl Daemon {
    /// Whether the daemon accepts connections. If a service manager listens for it, a connection starts it.
    pub(super) fn listens(self) -> bool {
        fs::read_to_string("/proc/net/unix").is_ok_and(|table| has_socket(&table, self.socket))
    }
}

fn has_socket(table: &str, socket: &str) -> bool {
    table.lines().any(|line| line.split_whitespace().nth(7) == Some(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_found_by_its_whole_socket() {
        // Captured on kernel 6.1.
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01  1652 @ISCSIADM_ABSTRACT_NAMESPACE\n\
            0000000000000000: 00000002 00000000 00010000 0001 01  1680 @/org/kernel/linux/storage/multipathd\n\
            0000000000000000: 00000003 00000000 00000000 0001 03  1701\n";
        assert!(has_socket(table, ISCSID.socket) && has_socket(table, MULTIPATHD.socket));
        assert!(!has_socket(table, "@ISCSIADM") && !has_socket("", ISCSID.socket));
    }
}
