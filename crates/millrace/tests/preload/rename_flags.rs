//! renameat2(2): the RENAME of NFSv3 has no flags, so the library refuses each flag that it cannot execute.

use crate::support::any_server::AnyServer;
use crate::support::{find_program, skip, succeed};

/// Each flag by libc's function and by the system call's number, to a free name and to an existing one.
const FLAGS: &str = r#"
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 316, "aarch64": 276}[platform.machine()]
HERE, NOREPLACE, EXCHANGE, WHITEOUT = -100, 1, 2, 4
def make(name, text):
    with open("/db/" + name, "w") as file: file.write(text)
def tried(call, to, flags):
    ctypes.set_errno(0)
    done = call(HERE, b"/db/from", HERE, b"/db/" + to, flags)
    return "done" if done == 0 else errno.errorcode[ctypes.get_errno()]
make("from", "from"); make("taken", "taken")
for call in libc.renameat2, lambda *arguments: libc.syscall(number, *arguments):
    print([tried(call, to, flags) for to in (b"free", b"taken") for flags in (NOREPLACE, EXCHANGE, WHITEOUT)])
print(open("/db/from").read(), open("/db/taken").read(), sorted(os.listdir("/db")))
print(tried(libc.renameat2, b"taken", 0), open("/db/taken").read())
"#;
const REFUSED: &str = "['EINVAL', 'EINVAL', 'EINVAL', 'EEXIST', 'EINVAL', 'EINVAL']\n";

fn expected() -> String {
    format!("{REFUSED}{REFUSED}from taken ['from', 'taken']\ndone from\n")
}

fn flags_are_refused(server: &AnyServer) {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    assert_eq!(succeed(server.exec("python3").args(["-c", FLAGS])), expected());
}

#[test]
fn a_rename_with_flags_is_refused_and_changes_nothing() {
    flags_are_refused(&AnyServer::filer("rename-flags"));
}

#[test]
fn a_rename_with_flags_is_refused_and_changes_nothing_with_ganesha() {
    if let Some(server) = AnyServer::ganesha("rename-flags-ganesha") {
        flags_are_refused(&server);
    }
}

/// What callers do after a refused flag: LINK, then the removal of the old name.
const CLAIM: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def give(mine, name):
    if libc.renameat2(-100, mine.encode(), -100, name.encode(), 1) == 0: return True
    if ctypes.get_errno() == 17: return False
    try: os.link(mine, name)
    except FileExistsError: return False
    os.unlink(mine)
    return True
for number in range(40):
    mine = f"/db/{os.getpid()}-{number}"
    with open(mine, "w") as file: file.write(mine)
    if give(mine, f"/db/name-{number}"): print(number, mine)
"#;

fn exactly_one_wins(server: &AnyServer) {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let claim = |_| {
        let mut command = server.exec("python3");
        command.args(["-c", CLAIM]).stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let claimers: Vec<_> = (0..3).map(claim).collect();
    let mut won: Vec<String> = Vec::new();
    for claimer in claimers {
        let output = claimer.wait_with_output().unwrap();
        assert!(output.status.success());
        won.extend(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned));
    }
    won.sort_by_key(|line| line.split_once(' ').unwrap().0.parse::<u32>().unwrap());
    let numbers: Vec<_> = won.iter().map(|line| line.split_once(' ').unwrap().0.to_owned()).collect();
    assert_eq!(numbers, (0..40).map(|number: u32| number.to_string()).collect::<Vec<_>>());
    for line in won {
        let (number, winner) = line.split_once(' ').unwrap();
        assert_eq!(std::fs::read(server.export.join(format!("name-{number}"))).unwrap(), winner.as_bytes());
    }
}

#[test]
fn of_processes_that_give_their_files_one_name_without_replacing_exactly_one_wins() {
    exactly_one_wins(&AnyServer::filer("rename-claims"));
}

#[test]
fn of_processes_that_give_their_files_one_name_on_ganesha_exactly_one_wins() {
    if let Some(server) = AnyServer::ganesha("rename-claims-ganesha") {
        exactly_one_wins(&server);
    }
}
