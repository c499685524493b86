//! Programs that may not use sockets, or whose network namespace has no route to the server, get an
//! error that names the cause, and do not wait.

use crate::support::any_server::AnyServer;
use crate::support::{find_program, may_make_namespaces, skip, skip_unsupported, text};
use std::process::Output;
use std::time::{Duration, Instant};

/// The programs take a second on a busy host. A wait for a server would be reported after five
/// seconds, and would never end.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Opens a file, forbids itself system calls with an errno by a seccomp filter, and reads by the
/// descriptor and by a path.
const FORBIDS: &str = r#"
import ctypes, os, struct, sys
errno, calls = int(sys.argv[1]), [int(call) for call in sys.argv[2:]]
fd = os.open('/db/f', os.O_RDONLY)
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
ops = [struct.pack('HBBI', 0x20, 0, 0, 0)]
for place, call in enumerate(calls):
    ops.append(struct.pack('HBBI', 0x15, len(calls) - place, 0, call))
ops += [struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000), struct.pack('HBBI', 0x06, 0, 0, 0x00050000 | errno)]
code = ctypes.create_string_buffer(b''.join(ops))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(ops), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
for read in (lambda: os.read(fd, 5), lambda: open('/db/f').read()):
    try:
        print(read())
    except OSError as error:
        print(error.errno)
"#;

fn with_a_file(server: AnyServer) -> AnyServer {
    std::fs::write(server.export.join("f"), "hello").unwrap();
    server
}

/// Asserts that the program printed the cause and did not wait.
fn failed_at_once(output: &Output, begun: Instant, why: &str) {
    let said = text(output);
    assert!(begun.elapsed() < AT_ONCE, "{:?}: {said}", begun.elapsed());
    assert!(said.contains(why) && !said.contains("does not answer"), "{said}");
}

/// Asserts that a program without these system calls fails at once with this cause on stderr, and
/// prints `printed`.
fn is_denied(server: &AnyServer, errno: i32, calls: &[libc::c_long], why: &str, printed: &str) {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let begun = Instant::now();
    let mut command = server.exec("python3");
    let calls = calls.iter().map(ToString::to_string);
    let output = command.args(["-c", FORBIDS, &errno.to_string()]).args(calls).output().unwrap();
    failed_at_once(&output, begun, why);
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{}", text(&output));
}

fn is_denied_sockets(server: &AnyServer, errnos: &[i32]) {
    for errno in errnos {
        is_denied(server, *errno, &[libc::SYS_socket, libc::SYS_connect], "(socket: ", "5\n5\n");
    }
    is_denied(server, libc::EACCES, &[libc::SYS_connect], "(connect: ", "5\n5\n");
}

const ERRNOS: [i32; 4] = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EAFNOSUPPORT];

#[test]
fn a_process_that_may_not_send_gets_an_error_with_the_cause() {
    let server = with_a_file(AnyServer::filer("no-sends"));
    for errno in ERRNOS {
        is_denied(&server, errno, &[libc::SYS_sendto, libc::SYS_sendmsg], "(send or receive: ", "5\n5\n");
    }
}

#[test]
fn a_process_that_may_not_ask_what_its_descriptors_are_gets_an_error_with_the_cause() {
    let server = with_a_file(AnyServer::filer("no-fstat"));
    // The call by path fails with libc's own error.
    is_denied(&server, libc::EPERM, &[libc::SYS_fstat, libc::SYS_newfstatat], "may not use fstat", "5\n1\n");
}

#[test]
fn a_process_that_may_not_use_sockets_gets_an_error_with_the_cause() {
    is_denied_sockets(&with_a_file(AnyServer::filer("no-sockets")), &ERRNOS);
}

#[test]
fn a_process_that_may_not_use_sockets_gets_an_error_with_the_cause_with_ganesha() {
    if let Some(server) = AnyServer::ganesha("no-sockets-ganesha").map(with_a_file) {
        is_denied_sockets(&server, &[libc::EPERM]);
    }
}

fn is_denied_the_network(server: &AnyServer) {
    let why = "is in a network namespace that does not lead to the server";
    for script in ["unshare -n cat /db/f", "unshare -n cat < /db/f", "unshare -n sh -c 'ip link set lo up; cat /db/f'"] {
        // Another program has the mount in the namespace with a route.
        let begun = Instant::now();
        let output = server.exec("/bin/sh").args(["-c", &format!("cat /db/f; {script}")]).output().unwrap();
        failed_at_once(&output, begun, why);
        assert!(output.stdout == b"hello" && text(&output).contains("Input/output error"), "{script}: {}", text(&output));
    }
}

#[test]
fn a_network_namespace_without_a_way_to_the_server_is_an_error_with_the_cause() {
    if !may_make_namespaces() {
        return skip_unsupported("no right to make a network namespace");
    }
    is_denied_the_network(&with_a_file(AnyServer::filer("no-network")));
}

#[test]
fn a_network_namespace_without_a_way_to_ganesha_is_an_error_with_the_cause() {
    if let Some(server) = AnyServer::ganesha("no-network-ganesha").map(with_a_file) {
        is_denied_the_network(&server);
    }
}
