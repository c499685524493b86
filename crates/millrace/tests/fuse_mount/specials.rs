//! FIFOs and sockets: the kernel opens them itself.

use crate::mounted::Mounted;
use crate::support::{succeed, text};
use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;

/// Tries one access to a path as each user of a list, and prints which users were allowed.
const TRY: &str = r"
import errno, os, socket, sys
path, how, users = sys.argv[1], sys.argv[2], sys.argv[3:]
flags = {'read': os.O_RDONLY, 'write': os.O_WRONLY, 'both': os.O_RDWR, 'path': os.O_PATH}
for user in users:
    uid, groups = int(user.split(':')[0]), [int(group) for group in user.split(':')[1:]]
    if os.fork() == 0:
        os.setgroups(groups); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
        try:
            os.stat(path)
            if how == 'connect': socket.socket(socket.AF_UNIX).connect(path)
            else: os.open(path, flags[how] | os.O_NONBLOCK)
            print(user, flush=True)
        except OSError as error:
            if error.errno == errno.ENXIO: print(user, flush=True) # nobody reads it
            elif error.errno != errno.EACCES: print(user, error, flush=True)
        os._exit(0)
    os.wait()
";

#[test]
fn a_fifo_is_opened_and_a_socket_connected_to_by_those_whom_the_mode_lets() {
    let Some(mounted) = Mounted::new("fuse-specials") else { return };
    mounted.shell("mkfifo fifo; chown 4001:4900 fifo");
    let _listener = UnixListener::bind(mounted.path("socket")).unwrap();
    mounted.shell("chown 4001:4900 socket");
    // The owner, a member of the group, and another user.
    let users = ["4001", "4002:4900", "4003"];
    let let_in = |file: &str, how: &str| -> String {
        let mut command = Command::new("python3");
        command.args(["-c", TRY]).arg(mounted.path(file)).arg(how).args(users);
        succeed(&mut command).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let cases = [
        ("600", ["4001", "4001", "4001"]),
        ("640", ["4001 4002:4900", "4001", "4001"]),
        ("420", ["4001", "4002:4900", ""]),
        ("006", ["4003", "4003", "4003"]),
        ("024", ["4003", "4002:4900", ""]),
    ];
    for (mode, [read, write, both]) in cases {
        mounted.shell(&format!("chmod {mode} fifo"));
        assert_eq!([let_in("fifo", "read"), let_in("fifo", "write"), let_in("fifo", "both")], [read, write, both], "{mode}");
        assert_eq!(let_in("fifo", "path"), both, "{mode}: it could be opened again by /proc/self/fd");
    }
    for (mode, connects) in [("600", "4001"), ("620", "4001 4002:4900"), ("044", "")] {
        mounted.shell(&format!("chmod {mode} socket"));
        assert_eq!(let_in("socket", "connect"), connects, "{mode}");
    }
    assert!(fs::metadata(mounted.path("fifo")).is_ok());
}

#[test]
fn a_lock_names_the_process_that_holds_it_on_the_mount_and_beside_it() {
    const HOLD: &str = "import fcntl, os, sys
f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 5, 10)
print(os.getpid(), flush=True); sys.stdin.read()";
    const ASK: &str = "import fcntl, struct, sys
f = open(sys.argv[1], 'r+')
found = fcntl.fcntl(f, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
print(*struct.unpack('hhqqi4x', found)[2:])";
    let Some(mounted) = Mounted::new("fuse-lock-pid") else { return };
    mounted.shell(": >f");
    let python = |beside: bool, script: &str| {
        let (mut command, file) =
            if beside { (mounted.world.exec("python3"), "/db/f".into()) } else { (Command::new("python3"), mounted.path("f")) };
        command.args(["-c", script]).arg(file);
        command
    };
    for (holder, asker) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut held = python(holder, HOLD);
        let mut held = held.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut pid = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(held.stdout.take().unwrap()), &mut pid).unwrap();
        let found = python(asker, ASK).output().unwrap();
        assert_eq!(text(&found), format!("10 5 {pid}"), "held beside: {holder}, asked beside: {asker}");
        drop(held.stdin.take());
        held.wait().unwrap();
        assert_eq!(succeed(&mut python(asker, ASK)).trim(), "0 0 0");
    }
}
