//! Files of a mount under unmodified programs: C, the shell, coreutils, Python. The same program
//! must have the same results on local disk.

use crate::support::world::{World, compile, name_of, walk};
use crate::support::{find_program, millrace, preload_library, skip, succeed, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn c_program_finds_the_same_facts_on_a_mount_as_on_local_disk() {
    let world = World::new("semantics");
    // The second round uses a mount like that of an old client. The program's signal handlers do
    // I/O inside calls, and it kills processes.
    let old = "&slots=1&writers=one&channels=1&split=8k";
    for (options, limits) in [(&["-O0"][..], ""), (&["-O2", "-D_FORTIFY_SOURCE=2"], old)] {
        let Some(program) = compile(&world.scratch, "semantics", options) else { return };
        let local = world.scratch.folder(&format!("local{}", options[0]));
        let oracle = Command::new(&program).arg(&local).output().unwrap();
        assert!(oracle.status.success(), "on local disk: {}", text(&oracle));
        std::fs::create_dir(world.filer.export().join(options[0])).unwrap();
        let mut seen = world.exec_with(limits, program.to_str().unwrap());
        let seen = seen.arg(format!("/db/{}", options[0])).output().unwrap();
        assert!(seen.status.success(), "on the mount, {options:?}: {}", text(&seen));
        let (mut there, mut here) = (walk(&world.filer.export().join(options[0])), walk(&local));
        there.sort();
        here.sort();
        let names = |paths: &[PathBuf]| paths.iter().map(|path| name_of(path)).collect::<Vec<_>>();
        assert_eq!(names(&there), names(&here), "the same files must be left");
        // The number of alarms and the order of four writers are random.
        for (there, here) in there.iter().zip(&here).filter(|(_, here)| !["noise", "a"].contains(&name_of(here).as_str())) {
            assert!(std::fs::read(there).unwrap() == std::fs::read(here).unwrap(), "{} differs", here.display());
        }
    }
    world.nothing_left_behind();
}

#[test]
fn coreutils_copy_move_link_list_and_remove() {
    let world = World::new("coreutils");
    let big: Vec<u8> = (0..5_000_000u32).map(|i| (i ^ i >> 9) as u8).collect();
    let local = world.scratch.path().join("big");
    std::fs::write(&local, &big).unwrap();
    let script = format!(
        "cd /db; cp -p {0} big; cmp big {0}; mkdir -p a/b/c; cp big a/b/c/; cp -r a z; mv a/b z/moved; ln z/moved/c/big hard; \
         ln -s z/moved sym; cat sym/c/big > sym/cat; test \"$(stat -c %h hard)\" = 2; test -L sym; ls -l sym/ | grep -q cat; \
         touch -d '2001-02-03 04:05:06 UTC' hard; stat -c %Y hard; du -s . > /dev/null; find . -name big | sort; \
         cp big /tmp/$$.copy; cmp /tmp/$$.copy big; rm /tmp/$$.copy; chmod 600 big; stat -c '%a %s %U' big; \
         sort < /etc/passwd > sorted; df . > /dev/null; rm -r z a sym hard sorted; ls -A",
        local.display()
    );
    let out = world.shell(&script);
    let wanted = format!("981173106\n./big\n./z/b/c/big\n./z/moved/c/big\n600 {} {}\nbig\n", big.len(), owner());
    assert_eq!(out, wanted);
    assert!(world.exported("big") == big);
    world.nothing_left_behind();
}

fn owner() -> String {
    succeed(Command::new("id").arg("-un")).trim().to_owned()
}

#[test]
fn shell_redirection_shares_offsets_between_processes() {
    let world = World::new("shell");
    for shell in ["/bin/sh", "/bin/bash"] {
        if !Path::new(shell).exists() {
            skip(shell);
            continue;
        }
        let script = "cd /db; { echo one; /bin/echo two; (echo three; /bin/echo four); } > out; echo five >> out; \
                      exec 7<out; read first <&7; cat <&7 >> copy; echo \"first $first\"; pwd; cd /; pwd; wc -l < /db/copy; \
                      exec >> /db/log 2>&1; echo builtin; /bin/echo external; ls /nowhere || echo failed";
        let out = succeed(world.exec(shell).args(["-c", script]));
        // A shell may read more than a line (dash reads byte by byte, bash seeks back). In either
        // case the next reader gets the rest.
        assert_eq!(out, "first one\n/db\n/\n4\n", "{shell}");
        assert_eq!(String::from_utf8(world.exported("out")).unwrap(), "one\ntwo\nthree\nfour\nfive\n", "{shell}");
        assert_eq!(String::from_utf8(world.exported("copy")).unwrap(), "two\nthree\nfour\nfive\n", "{shell}");
        let log = String::from_utf8(world.exported("log")).unwrap();
        assert!(
            log.starts_with("builtin\nexternal\n") && log.contains("/nowhere") && log.ends_with("failed\n"),
            "{shell}: {log}"
        );
        world.shell("rm /db/out /db/copy /db/log");
    }
}

#[test]
fn python_and_its_children_work_on_a_mount() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("python");
    let script = r#"
import os, shutil, subprocess, sys, tempfile, fcntl, mmap, glob, pathlib
os.chdir("/db")
open("t", "w").write("line\n" * 1000)
assert os.path.getsize("t") == 5000 and os.path.realpath("t") == "/db/t"
out = open("out", "wb")
subprocess.run(["sh", "-c", "cat t; pwd"], stdout=out, check=True)
subprocess.run([sys.executable, "-c", "import os; print(os.getcwd(), flush=True); os.write(1, b'raw')"], stdout=out, cwd="/db", check=True)
os.makedirs("deep/er", exist_ok=True)
assert subprocess.check_output(["pwd"], cwd="deep/er", text=True) == "/db/deep/er\n"
out.close()
text = open("out").read()
assert text.startswith("line\n" * 1000) and text.endswith("/db\n/db\nraw"), text[-40:]
shutil.copytree("deep", "copy"); shutil.copy2("t", "copy/t"); shutil.move("copy", "moved")
assert sorted(p.name for p in pathlib.Path("moved").iterdir()) == ["er", "t"], os.listdir("moved")
assert [e.name for e in os.scandir("moved") if e.is_dir()] == ["er"]
assert sorted(glob.glob("m*/*")) == ["moved/er", "moved/t"]
with open("t", "r+b") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as m:
    assert m[:4] == b"line"
    fcntl.lockf(f, fcntl.LOCK_EX); fcntl.flock(f, fcntl.LOCK_EX)
with open("t", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    m[:4] = b"LINE"
    assert open("t").read(5) == "LINE\n"
    m[:4] = b"line"
with tempfile.TemporaryDirectory(dir="/db") as folder, tempfile.NamedTemporaryFile(dir=folder) as temp:
    temp.write(b"x"); temp.flush(); os.fsync(temp.fileno()); assert os.stat(temp.name).st_size == 1
pid = os.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "echo from a child >> t"])
os.waitpid(pid, 0)
shutil.rmtree("moved"); shutil.rmtree("deep")
print(open("t").read()[-13:], end="")
"#;
    let out = succeed(world.exec(python.to_str().unwrap()).args(["-c", script]));
    assert_eq!(out, "from a child\n");
    world.nothing_left_behind();
}

#[test]
fn cpp_streams_follow_a_redirected_descriptor() {
    let world = World::new("cpp");
    let source = world.scratch.path().join("s.cpp");
    let text = "#include <cstdio>\n#include <fstream>\n#include <iostream>\n\
                int main() { std::cout << \"cout\" << std::endl; puts(\"puts\"); fflush(stdout); std::cerr << \"cerr\\n\"; \
                std::ofstream(\"/db/made\") << \"made\\n\"; std::ifstream in(\"/db/made\"); std::cout << in.rdbuf(); }\n";
    std::fs::write(&source, text).unwrap();
    let program = world.scratch.path().join("s");
    let Some(compiler) = find_program("c++") else { return skip("no C++ compiler") };
    succeed(Command::new(compiler).arg("-o").arg(&program).arg(&source));
    assert_eq!(world.shell(&format!("{} > /db/out 2>&1; cat /db/out", program.display())), "cout\nputs\ncerr\nmade\n");
}

#[test]
fn futimesat_of_a_descriptor_without_a_path_sets_its_times_as_in_the_kernel() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("futimesat");
    let script = "import ctypes, os; fd = os.open('/db/f', os.O_RDWR | os.O_CREAT); times = (ctypes.c_long * 4)(1000, 5, 2000, 7); \
                  print(ctypes.CDLL(None).futimesat(fd, None, times), os.stat('/db/f').st_mtime_ns)";
    assert_eq!(succeed(world.exec(python.to_str().unwrap()).args(["-c", script])), "0 2000000007000\n");
}

fn sqlite_torture(label: &str, seconds: u64) {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new(label);
    for mode in ["delete", "truncate", "persist", "wal"] {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/sqlite_torture.py");
        std::fs::create_dir(world.filer.export().join(mode)).unwrap();
        let mut command = world.exec(python.to_str().unwrap());
        let done = succeed(command.args([script, &format!("/db/{mode}/t"), mode, &seconds.to_string()]));
        let left = if matches!(mode, "persist" | "truncate") { "['t', 't-journal']" } else { "['t']" };
        assert_eq!(done, format!("ok 20000\n{left}\n"), "{mode}");
    }
}

#[test]
fn two_writers_and_three_readers_of_sqlite_agree_in_each_journal_mode() {
    sqlite_torture("sqlite-torture", 2);
}

#[test]
#[ignore = "nightly: four minutes of SQLite"]
fn two_writers_and_three_readers_of_sqlite_agree_for_a_minute_in_each_journal_mode() {
    sqlite_torture("sqlite-torture-long", 60);
}

#[test]
fn sqlite_keeps_a_database_on_a_mount() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("sqlite");
    let script = r#"
import sqlite3
db = sqlite3.connect("/db/s.db", isolation_level=None)
one = lambda statement: db.execute(statement).fetchone()[0]
db.execute("create table t(a integer primary key, b)")
db.execute("begin"); db.executemany("insert into t(b) values (?)", [("x" * 200,)] * 20000); db.execute("commit")
db.execute("begin"); db.execute("delete from t where a % 2"); db.execute("rollback")
print(one("select count(*) from t"), one("pragma integrity_check"))
db.close()
db = sqlite3.connect("/db/s.db", isolation_level=None)
print(one("pragma locking_mode=exclusive"), one("pragma journal_mode=wal"))
db.execute("update t set b = 'y' where a < 100")
print(one("select count(*) from t where b = 'y'"), one("pragma integrity_check"))
"#;
    let out = succeed(world.exec(python.to_str().unwrap()).args(["-c", script]));
    assert_eq!(out, "20000 ok\nexclusive wal\n99 ok\n");
    world.nothing_left_behind();
}

#[test]
fn after_a_power_cut_no_writer_is_told_the_end_of_a_file_before_the_loss() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::served("shorter", &["--loss-layer"]);
    // The fsync of the first descriptor reports the loss and reduces the size for all. Every query
    // of the end through the second descriptor returns EIO until its own fsync has reported the
    // loss. A descriptor that can only read gets the smaller size.
    let script = r#"
import os, socket, sys
f = os.open("/db/f", os.O_RDWR | os.O_CREAT); g = os.open("/db/f", os.O_RDWR); reader = os.open("/db/f", os.O_RDONLY)
os.write(f, b"x" * 8192); os.fsync(f); os.fsync(g)
os.write(f, b"y" * 8192)
admin = socket.socket(socket.AF_UNIX); admin.connect(sys.argv[1]); admin.sendall(b'{"op":"power-cut"}\n')
assert b'"ok":true' in admin.recv(4096)
def ask(call):
    try: return call()
    except OSError as error: return os.strerror(error.errno)
def sizes(fd): return [ask(lambda: os.lseek(fd, 0, os.SEEK_END)), ask(lambda: os.fstat(fd).st_size)]
print(ask(lambda: os.fsync(f)), *sizes(f), sep=", ")
print(*sizes(g), *sizes(g), ask(lambda: os.pread(g, 1, 0)), sep=", ")
print(*sizes(reader), sep=", ")
print(ask(lambda: os.fsync(g)), *sizes(g), os.pread(g, 1, 0), sep=", ")
"#;
    let admin = world.filer.admin.to_str().unwrap();
    let out = succeed(world.exec_with("&retain=0", python.to_str().unwrap()).args(["-c", script]).arg(admin));
    let eio = "Input/output error";
    let told = format!("{eio}, 8192, 8192");
    assert_eq!(out, format!("{told}\n{eio}, {eio}, {eio}, {eio}, {eio}\n8192, 8192\n{told}, b'x'\n"));
}

/// Prints what pathconf(3) answers, and the errno of name_to_handle_at(2) for the descriptor and the working directory.
const ASKS_LIBC: &str = r#"import ctypes, os, sys
directory, names = sys.argv[1], sorted(os.pathconf_names)
open(directory + '/f', 'w').close()
fd = os.open(directory + '/f', os.O_RDONLY)
answer = lambda of, name: f'{name} {os.pathconf(of, name)}'
for name in names:
    # The largest number of links and the numbers of bytes differ between file systems.
    if name not in ('PC_LINK_MAX', 'PC_FILESIZEBITS'): print(answer(fd, name), answer(directory + '/f', name))
try: os.pathconf(directory, 12345)
except OSError as error: print(error.strerror)
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(directory)
for of in (fd, os.open('.', os.O_RDONLY), -100):
    handle, number = ctypes.create_string_buffer(b'\x80\0\0\0' + bytes(200), 256), ctypes.c_int()
    found = libc.name_to_handle_at(of, b'', handle, ctypes.byref(number), 0x1000)
    print(found, ctypes.get_errno() if found else 0, file=sys.stderr)
"#;

#[test]
fn libc_answers_for_files_of_a_mount_and_no_handle_of_a_placeholder_is_given() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("files-libc");
    let here = Command::new(&python).args(["-c", ASKS_LIBC]).arg(world.scratch.folder("local")).output().unwrap();
    let there = world.exec(python.to_str().unwrap()).args(["-c", ASKS_LIBC, "/db"]).output().unwrap();
    assert!(here.status.success() && there.status.success(), "{}{}", text(&here), text(&there));
    assert_eq!(String::from_utf8_lossy(&there.stdout), String::from_utf8_lossy(&here.stdout));
    let refused = format!("-1 {}\n", libc::EOPNOTSUPP).repeat(3);
    assert_eq!(String::from_utf8_lossy(&there.stderr), refused);
}

#[test]
fn two_execs_see_one_state() {
    let world = World::new("two-execs");
    world.shell("mkdir /db/d; echo first > /db/d/f");
    // The second process has the file open while the first process removes it.
    let out = world.shell("exec 8</db/d/f; rm /db/d/f; ls -A /db/d; cat <&8");
    assert_eq!(out, "first\n");
    assert_eq!(world.shell("cd /db/d; echo more > g; wc -c < /db/d/g; stat -c %s g"), "5\n5\n");
    world.nothing_left_behind();
}

#[test]
fn statically_linked_program_is_refused() {
    let world = World::new("static");
    let source = world.scratch.path().join("s.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let program = world.scratch.path().join("s");
    let built =
        find_program("cc").map(|cc| Command::new(cc).arg("-static").arg("-o").arg(&program).arg(&source).output().unwrap());
    if !built.is_some_and(|built| built.status.success()) {
        return skip("no C compiler, or no static C library");
    }
    let refused = world.exec(program.to_str().unwrap()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("statically linked"), "{}", text(&refused));
}

#[test]
fn program_that_is_not_on_a_mount_is_left_alone() {
    let world = World::new("local");
    let local = world.scratch.folder("folder");
    let script = format!("cd {}; echo x > y; mv y z; cat z; pwd; test ! -e /dbx; ls /db/.. > /dev/null", local.display());
    assert_eq!(world.shell(&script), format!("x\n{}\n", local.display()));
    let before = world.filer.calls("GETATTR") + world.filer.calls("LOOKUP");
    let mut plain = Command::new("/bin/ls");
    plain.env("LD_PRELOAD", preload_library()).env("MILLRACE_MOUNTS", format!("/db={}", world.filer.url)).arg("/");
    succeed(&mut plain);
    assert_eq!(world.filer.calls("GETATTR") + world.filer.calls("LOOKUP"), before, "no path reached the mount: no call");
}

#[test]
fn mount_over_an_empty_local_folder_never_writes_below_it() {
    let world = World::new("shadowed");
    let hidden = world.scratch.folder("mnt");
    let door = world.scratch.path().join("door");
    std::os::unix::fs::symlink(&hidden, &door).unwrap();
    let mount = format!("{}={}", hidden.display(), world.filer.url);
    let script =
        format!("echo a > {0}/a; cd {1}; echo b > b; mkdir c; echo d > {1}/../mnt/c/d; ls {1}", hidden.display(), door.display());
    let mut command = millrace();
    command.env("MILLRACE_PRELOAD", preload_library()).args(["exec", "--mount", &mount, "--", "/bin/sh", "-ec", &script]);
    assert_eq!(succeed(&mut command), "a\nb\nc\n");
    assert_eq!(std::fs::read_dir(&hidden).unwrap().count(), 0, "something fell through to local disk");
    assert_eq!(world.exported("c/d"), b"d\n");
    std::fs::write(hidden.join("x"), b"").unwrap();
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("not empty"), "{}", text(&refused));
}

#[test]
fn compat_table_lists_exactly_the_names_we_replace() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compat/preload.md");
    let table = std::fs::read_to_string(table).unwrap();
    let names = |line: &str| -> Vec<String> {
        line.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let listed: BTreeSet<String> = table.lines().filter(|line| line.starts_with("| `")).flat_map(names).collect();
    let symbols = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(preload_library()));
    let exported: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.split_once(" T ")).map(|(_, name)| name.to_owned()).collect();
    let missing: Vec<_> = listed.difference(&exported).collect();
    let unlisted: Vec<_> = exported.difference(&listed).collect();
    assert!(missing.is_empty() && unlisted.is_empty(), "only in the table: {missing:?}; only in the library: {unlisted:?}");
    assert!(listed.len() > 150, "the table has only {} names", listed.len());
}

#[test]
fn flags_of_a_file_are_refused_as_on_nfs_and_none_stays_on_what_stands_for_it() {
    if find_program("chattr").is_none() {
        return skip("no chattr");
    }
    let world = World::new("flags");
    // The flags append-only and no-dump. On a local disk root could set both, other users the second.
    let out = world.shell(
        "cd /db; echo data > file; mkdir folder; for name in file folder; do for flag in +d +a; do \
         chattr $flag $name 2>&1 && echo set; done; lsattr -d $name 2>&1 && echo told; done; rm file; rmdir folder; ls -A",
    );
    assert_eq!(out.to_lowercase().matches("while reading flags").count(), 6, "{out}");
    assert!(!out.contains("set\n") && !out.contains("told\n"), "{out}");
    world.nothing_left_behind();
}
