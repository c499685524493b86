//! A directory that a program has open or as its working directory stays the same directory for
//! this library, whatever has its path now. Programs and kernels that do not know the library can
//! create nothing in it. A walk through a tree leaves nothing.

use crate::support::ganesha::Ganesha;
use crate::support::world::{World, walk};
use crate::support::{await_until, find_program, is_root, millrace, preload_library, skip, succeed, text};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Number of directories that the library keeps for processes that do not know them. With the open
/// ones, this is the maximum in memory.
const KEPT_MAX: usize = 4096;

/// A filer, and a runtime directory for the test only.
struct Place {
    world: World,
    runtime: tempfile::TempDir,
}

fn runtime() -> tempfile::TempDir {
    let alone = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("millrace-test-").permissions(alone).tempdir_in("/dev/shm").unwrap()
}

impl Place {
    fn new(label: &str) -> Self {
        Self { world: World::new(label), runtime: runtime() }
    }

    fn exec_with(&self, options: &str, program: &str) -> Command {
        let mut command = self.world.exec_with(options, program);
        command.env("MILLRACE_RUNTIME_DIR", self.runtime.path());
        command
    }

    fn python(&self, script: &str) -> Command {
        let mut command = self.exec_with("", "python3");
        command.args(["-c", script]);
        command
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = self.exec_with("", "/bin/sh");
        command.args(["-uc", script]);
        command
    }

    fn export(&self) -> &Path {
        self.world.filer.export()
    }

    /// The files and directories in memory below the folder for placeholders of directories.
    fn left(&self) -> Vec<PathBuf> {
        let mounts = std::fs::read_dir(self.runtime.path()).unwrap().flatten().map(|entry| entry.path());
        mounts.map(|mount| mount.join("d")).filter(|folder| folder.is_dir()).flat_map(|folder| walk(&folder)).collect()
    }
}

/// A program that prints a line when it is ready, and continues when it reads one.
struct Waiting {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut waiting = Self { child, said };
        assert_eq!(waiting.line(), "ready");
        waiting
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets the program continue to its end. Returns the rest of its output.
    fn go_on(mut self) -> String {
        writeln!(self.child.stdin.take().unwrap(), "go").unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.said, &mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}

/// Opens a directory, makes it its working directory, waits, and then uses every call that takes one.
const ORIGINAL: &str = "
import os, sys
top = sys.argv[1]
d = os.open(top + '/p/dir', os.O_RDONLY | os.O_DIRECTORY); os.chdir(top + '/p/dir'); number = os.fstat(d).st_ino
print('ready', flush=True); sys.stdin.readline()
assert os.fstat(d).st_ino == os.stat('.').st_ino == number
assert sorted(os.listdir(d)) == sorted(os.listdir('.')) == ['mine', 'sub']
os.unlink('mine', dir_fd=d); os.fchmod(d, 0o711); os.utime(d, (5, 5))
os.close(os.open('by descriptor', os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=d))
open('by path', 'w').write('x'); open('sub/deep', 'w').write('x'); open('/proc/self/cwd/by link', 'w').write('x')
os.rename('by path', 'renamed', src_dir_fd=d); os.mkdir('made', dir_fd=d); os.symlink('x', 'link', dir_fd=d)
os.link('renamed', 'sub/second', src_dir_fd=d, dst_dir_fd=d)
print(sorted(os.listdir('.')), sorted(os.listdir('sub')), oct(os.stat(d).st_mode), int(os.stat(d).st_mtime))
";
/// The names that the program has then created in the directory that it opened.
const DONE: [&str; 8] = ["by descriptor", "by link", "link", "made", "renamed", "sub", "sub/deep", "sub/second"];

fn prepare(export: &Path) {
    for folder in ["p/dir/sub", "victim/dir/sub"] {
        std::fs::create_dir_all(export.join(folder)).unwrap();
    }
    std::fs::write(export.join("p/dir/mine"), "x").unwrap();
    std::fs::write(export.join("victim/dir/mine"), "precious").unwrap();
}

/// Puts another directory at the path of the open one, by a rename or by a link above it.
fn swap(export: &Path, by_link: bool) -> PathBuf {
    let rename = |from: &str, to: &str| std::fs::rename(export.join(from), export.join(to)).unwrap();
    if by_link {
        rename("p", "moved");
        std::os::unix::fs::symlink("victim", export.join("p")).unwrap();
        return export.join("moved/dir");
    }
    rename("p/dir", "moved");
    rename("victim/dir", "p/dir");
    std::os::unix::fs::symlink("../p/dir", export.join("victim/dir")).unwrap();
    export.join("moved")
}

#[track_caller]
fn assert_original(export: &Path, original: &Path) {
    for name in DONE {
        assert!(original.join(name).symlink_metadata().is_ok(), "{name} is not in the directory that was opened");
    }
    assert!(!original.join("mine").exists());
    let victim = export.join("victim/dir");
    assert_eq!(std::fs::read(victim.join("mine")).unwrap(), b"precious");
    let names: Vec<_> = walk(&victim).into_iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_directory_that_another_host_moved_is_still_the_one_that_was_opened() {
    for (by_link, options) in [(false, ""), (true, ""), (false, "&noac"), (true, "&noac")] {
        let place = Place::new("directories-moved");
        prepare(place.export());
        let mut command = place.exec_with(options, "python3");
        let program = Waiting::start({
            command.args(["-c", ORIGINAL, "/db"]);
            command
        });
        let original = swap(place.export(), by_link);
        program.go_on();
        assert_original(place.export(), &original);
    }
}

#[test]
fn on_ganesha_too_a_directory_is_the_one_that_was_opened_and_nothing_is_made_beside_the_server() {
    let Some(ganesha) = Ganesha::start("directories-ganesha") else { return };
    let export = ganesha.export();
    std::fs::set_permissions(&export, std::fs::Permissions::from_mode(0o777)).unwrap();
    let runtime = runtime();
    let exec = |arguments: &[&str]| {
        let mut command = ganesha.inside(Path::new("timeout"));
        command.args(["-k", "5", "90"]).arg(millrace().get_program());
        command.args(["exec", "--mount", &format!("/db={}&noac&uid=4001&gid=4001", ganesha.url()), "--"]).args(arguments);
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", runtime.path()).current_dir("/");
        command
    };
    for by_link in [false, true] {
        let top = format!("{}", u8::from(by_link));
        let folder = export.join(&top);
        prepare(&folder);
        for path in walk(&folder).into_iter().chain([folder.clone()]).filter(|path| path.is_dir()) {
            std::os::unix::fs::chown(&path, Some(4001), Some(4001)).unwrap();
        }
        let program = Waiting::start(exec(&["python3", "-c", ORIGINAL, &format!("/db/{top}")]));
        let original = swap(&folder, by_link);
        program.go_on();
        assert_original(&folder, &original);
    }
    let script =
        "mkdir /db/here; cd /db/here; env -i /bin/sh -c 'echo lost > lost' && exit 1; cd ..; pwd; cd here; pwd; echo > kept; ls";
    let said = succeed(&mut exec(&["/bin/sh", "-uc", script]));
    assert_eq!(said, "/db\n/db/here\nkept\n");
    drop(ganesha);
}

/// A program without the library. It tries to create files in its working directory, above it, and
/// by a descriptor.
const STRANGER: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define TRY(what) do { errno = 0; if ((what) >= 0) printf("made: %s\n", #what); } while (0)
int main(void)
{
	const char *const names[] = {"x", "./x", "../x", "sub/x", "/proc/self/cwd/x", "/proc/self/cwd/../x", "/proc/self/fd/9/x", "/dev/fd/9/x", "/proc/self/fd/9/../x"};
	for (unsigned n = 0; n < sizeof names / sizeof *names; n++) {
		TRY(open(names[n], O_CREAT | O_WRONLY, 0666));
		TRY(mkdir(names[n], 0777));
		TRY(symlink("y", names[n]));
		TRY(mknod(names[n], S_IFIFO | 0666, 0));
		TRY(link("/proc/self/exe", names[n]));
		TRY(rename("gone", names[n]));
	}
	TRY(openat(9, "x", O_CREAT | O_WRONLY, 0666));
	TRY(openat(9, "../x", O_CREAT | O_WRONLY, 0666));
	int unnamed = open(".", O_TMPFILE | O_WRONLY, 0666); /* root's own business, as long as it gets no name */
	TRY(linkat(unnamed, "", AT_FDCWD, "x", AT_EMPTY_PATH));
	char here[4096];
	printf("getcwd: %s\n", getcwd(here, sizeof here) ? here : strerror(errno));
	if (geteuid() != 0) {
		TRY(unnamed);
		TRY(open("../../x", O_CREAT | O_WRONLY, 0666));
		TRY(openat(9, "../../../x", O_CREAT | O_WRONLY, 0666));
	}
	return 0;
}
"#;

#[test]
fn a_program_without_the_library_makes_nothing_in_a_directory_of_a_mount() {
    let place = Place::new("directories-strangers");
    let Some(compiler) = find_program("cc") else { return skip("no C compiler") };
    let source = place.world.scratch.path().join("stranger.c");
    std::fs::write(&source, STRANGER).unwrap();
    let program = place.world.scratch.path().join("stranger");
    succeed(Command::new(compiler).arg("-static").arg("-o").arg(&program).arg(&source));
    let export = place.export().join("d");
    std::fs::create_dir_all(export.join("sub")).unwrap();
    std::fs::set_permissions(&export, std::fs::Permissions::from_mode(0o777)).unwrap();
    let as_user = if is_root() { "setpriv --reuid 4001 --regid 4001 --clear-groups" } else { "" };
    for who in ["", as_user] {
        let tried = place.shell(&format!("cd /db/d; exec 9</db/d; {who} {} 2>&1", program.display())).output().unwrap();
        let said = String::from_utf8_lossy(&tried.stdout);
        assert!(!said.contains("made"), "{who}: {}", text(&tried));
        assert!(said.contains("getcwd: No such file or directory"), "{who}: {}", text(&tried));
        let cleared = place.shell("cd /db/d; env -i /bin/sh -c 'echo lost > lost'; env -i /bin/mkdir made").output().unwrap();
        assert!(!cleared.status.success(), "{}", text(&cleared));
    }
    assert_eq!(place.left(), [] as [PathBuf; 0]);
    assert_eq!(walk(&export), [export.join("sub")]);
}

#[test]
fn no_core_lands_in_the_runtime_directory() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.contains(['/', '|']) {
        return crate::support::skip_unsupported("the host's core_pattern is a path or a program");
    }
    let place = Place::new("directories-core");
    let script = "import ctypes, os, resource
os.mkdir('/db/d'); os.chdir('/db/d'); hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)); ctypes.string_at(0)";
    let ended = place.python(script).output().unwrap();
    assert!(!ended.status.success());
    let memory = walk(place.runtime.path());
    assert!(
        !memory.iter().any(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core"))),
        "{memory:?}"
    );
    assert_eq!(walk(&place.export().join("d")), [] as [PathBuf; 0]);
}

#[test]
fn the_kernels_names_of_descriptors_and_working_directories_lead_to_the_server() {
    let place = Place::new("directories-links");
    let script = r#"
import os, subprocess, sys, threading
os.makedirs('/db/d/sub'); os.chdir('/db/d'); open('f', 'w').write('text')
d = os.open('/db/d', os.O_RDONLY); f = os.open('/db/d/f', os.O_RDONLY); me = os.getpid()
tops = ['/proc/self/cwd', f'/proc/{me}/cwd', f'/proc/self/fd/{d}', f'/dev/fd/{d}', f'/proc/{me}/task/{me}/cwd', f'/proc/thread-self/fd/{d}']
os.symlink(f'/proc/self/fd/{d}', sys.argv[1] + '/here'); tops.append(sys.argv[1] + '/here')
for n, top in enumerate(tops):
    assert open(top + '/f').read() == 'text', top
    open(f'{top}/{n}', 'w').write('x'); os.mkdir(f'{top}/made{n}'); os.rename(f'{top}/{n}', f'{top}/made{n}/moved')
    assert os.stat(top).st_ino == os.stat('/db/d').st_ino == os.stat(top + '/.').st_ino, top
    assert os.path.realpath(top) == '/db/d' and os.path.realpath(top + '/sub') == '/db/d/sub', os.path.realpath(top)
    assert sorted(os.listdir(top)) == sorted(os.listdir('/db/d')), top
    os.chdir(top); assert os.getcwd() == '/db/d'
    with os.scandir(top) as found: assert 'f' in [entry.name for entry in found], top
    try: open(top + '/none/x', 'w')
    except FileNotFoundError: pass
    else: raise SystemExit(top)
for top in tops[:-1]: assert os.listdir(top + '/..') == ['d'], top
for top in '/proc/self/cwd', f'/proc/{me}/cwd', f'/proc/self/fd/{d}': assert os.readlink(top) == '/db/d', os.readlink(top)
child = subprocess.run([sys.executable, '-c', f"open('/proc/{me}/cwd/by child', 'w'); open('/proc/{me}/fd/{d}/by number', 'w')"], cwd='/')
assert child.returncode == 0 and os.path.exists('/db/d/by child') and os.path.exists('/db/d/by number')
for top in f'/proc/self/fd/{f}/x', f'/dev/fd/{f}/x', f'/proc/{me}/fd/{f}/x':
    for call in (lambda: open(top, 'w')), (lambda: os.mkdir(top)), (lambda: os.stat(top)), (lambda: os.symlink('y', top)):
        try: call()
        except NotADirectoryError: pass
        else: raise SystemExit(top)
"#;
    let links = place.world.scratch.folder("links");
    succeed(place.python(script).arg(links));
    let files = walk(place.runtime.path()).into_iter().filter(|path| path.parent().is_some_and(|parent| parent.ends_with("p")));
    for placeholder in files {
        assert!(std::fs::read_dir(&placeholder).unwrap().next().is_none(), "{}", placeholder.display());
    }
    assert_eq!(place.left(), [] as [PathBuf; 0]);
}

#[test]
fn a_working_directory_has_the_path_that_this_host_gave_it_last() {
    let place = Place::new("directories-path");
    let script = "
import os, sys
os.makedirs('/db/a/b/c'); os.chdir('/db/a/b'); d = os.open('c', os.O_RDONLY)
print('ready', flush=True); sys.stdin.readline()
assert os.getcwd() == '/db/new/b', os.getcwd()
assert os.listdir('..') == ['b'] and os.path.realpath('../..') == '/db'
os.fchdir(d); assert os.getcwd() == '/db/new/b/c', os.getcwd()
os.chdir('..'); assert os.getcwd() == '/db/new/b'
os.rename('/db/new', '/db/newer'); assert os.getcwd() == '/db/newer/b' and os.path.abspath('x') == '/db/newer/b/x'
os.chdir('../..'); assert os.getcwd() == '/db'
os.chdir('..'); assert os.getcwd() == '/'
";
    let program = Waiting::start(place.python(script));
    succeed(&mut place.shell("mv /db/a /db/new"));
    program.go_on();
}

#[test]
fn a_working_directory_has_a_path_at_each_moment_while_others_rename_it() {
    let place = Place::new("directories-renamed");
    let script = "
import os, threading
os.makedirs('/db/a/0'); os.chdir('/db/a/0'); ended = []
def rename():
    n = 0
    while not ended: os.rename(f'/db/a/{n}', f'/db/a/{n + 1}'); n += 1
thread = threading.Thread(target=rename); thread.start()
try: assert all(os.getcwd().startswith('/db/a/') for _ in range(300))
finally: ended.append(True); thread.join()
";
    succeed(&mut place.python(script));
}

#[test]
fn a_thread_sees_the_old_working_directory_or_the_new_one_while_another_thread_changes_it() {
    let place = Place::new("directories-threads");
    let script = "
import errno, os, sys, threading
for name in 'ab': os.mkdir('/db/' + name); open(f'/db/{name}/f', 'w').close()
os.chdir('/db/a')
failed, done = [], []
def look():
    while not done:
        try: os.stat('f')
        except OSError as error: failed.append(errno.errorcode[error.errno])
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=look) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(1000): os.chdir('/db/b'); os.chdir('/db/a')
done.append(True)
for thread in threads: thread.join()
print(sorted(set(failed)))
";
    assert_eq!(succeed(&mut place.python(script)), "[]\n");
    let without_descriptors = "
import os, resource
os.makedirs('/db/a/sub'); open('/db/a/sub/f', 'w').close()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.chdir('/db/a/sub'); print(os.stat('f').st_size)
";
    assert_eq!(succeed(&mut place.python(without_descriptors)), "0\n");
}

#[test]
fn a_removed_directory_is_enoent_to_this_host_and_one_removed_by_another_is_estale() {
    let place = Place::new("directories-removed");
    let script = "
import errno, os, sys
def outcome(call, *arguments, **named):
    try: return call(*arguments, **named)
    except OSError as error: return errno.errorcode[error.errno]
for name in 'mine', 'theirs', 'moved': os.mkdir('/db/' + name)
os.chdir('/db/mine'); d = os.open('/db/theirs', os.O_RDONLY)
print('ready', flush=True); sys.stdin.readline()
os.rmdir('/db/mine')
print(outcome(open, 'x', 'w'), outcome(os.stat, '.'), outcome(os.getcwd), outcome(os.mkdir, 'y'), os.listdir('..'))
print(outcome(os.open, 'x', os.O_CREAT | os.O_WRONLY, dir_fd=d), outcome(os.fstat, d), outcome(os.stat, 'x', dir_fd=d))
os.chdir('..'); print(os.getcwd(), os.listdir('.'))
";
    let program = Waiting::start(place.python(script));
    std::fs::remove_dir(place.export().join("theirs")).unwrap();
    let said = program.go_on();
    assert_eq!(said, "ENOENT ENOENT ENOENT ENOENT ['moved']\nESTALE ESTALE ESTALE\n/db ['moved']\n");
}

/// Creates a tree of directories in the export.
fn tree(top: &Path, count: usize) {
    for number in 0..count {
        std::fs::create_dir_all(top.join(format!("{}/{}", number / 500, number % 500))).unwrap();
    }
}

/// Programs that work in a directory or inherited one keep it while another opens any number of
/// them. Nothing is left of those.
fn walked(label: &str, count: usize, limit_s: u32) {
    let mut place = Place::new(label);
    place.world.limit_s = limit_s;
    tree(&place.export().join("tree"), count);
    succeed(&mut place.shell("mkdir /db/cluster /db/archive; echo segment > /db/cluster/wal"));
    // A shell that was started in a directory and has not used the mount, one that inherits a
    // descriptor, and a program that starts a child each time.
    let child = "read go; cp wal ../archive/$0; cat wal";
    let late = place.shell(&format!("cd /db/cluster; echo ready; exec sh -c '{child}' late"));
    let by_descriptor =
        place.shell("exec 5</db/cluster; echo ready; exec sh -c 'read go; cat /proc/self/fd/5/wal; cat /dev/fd/5/wal'");
    let archiver = place.python(
        "import os, sys
os.chdir('/db/cluster'); print('ready', flush=True); sys.stdin.readline()
for command in 'cp wal ../archive/system', 'cd ../archive && test -s system', 'test \"$(pwd)\" = /db/cluster':
    assert os.system(command) == 0, command
assert os.popen('cat ./wal').read() == 'segment\\n'; os.posix_spawn('/bin/cp', ['cp', 'wal', '../archive/spawned'], os.environ)
assert os.wait()[1] == 0",
    );
    let waiting = [late, by_descriptor, archiver].map(Waiting::start);
    let found = succeed(&mut place.shell("find /db/tree -type d | wc -l"));
    assert!(found.trim().parse::<usize>().unwrap() > count, "{found}");
    let [late, by_descriptor, archiver] = waiting;
    assert_eq!(late.go_on(), "segment\n");
    assert_eq!(by_descriptor.go_on(), "segment\nsegment\n");
    archiver.go_on();
    for name in ["late", "system", "spawned"] {
        assert_eq!(place.world.exported(&format!("archive/{name}")), b"segment\n");
    }
    assert_eq!(place.left(), [] as [PathBuf; 0]);
    let directories = walk(place.runtime.path()).into_iter().filter(|path| path.is_dir()).count();
    assert!(directories < 64, "{directories} directories in memory");
    assert!(count > KEPT_MAX, "fewer than are kept show nothing");
}

#[test]
fn a_walk_over_a_tree_leaves_nothing_and_takes_no_directory_from_a_program() {
    walked("directories-walk", KEPT_MAX + 500, 90);
}

#[test]
#[ignore = "nightly: six minutes, most of which make and remove 200,000 directories"]
fn a_walk_over_200_000_directories_leaves_nothing_and_takes_no_directory_from_a_program() {
    walked("directories-long-walk", 200_000, 3600);
}

#[test]
fn a_directory_comes_over_a_socket_and_over_exec_to_a_program_that_never_named_it() {
    let place = Place::new("directories-passed");
    let script = "
import array, os, socket, subprocess, sys
os.makedirs('/db/d/sub'); open('/db/d/f', 'w').write('text')
if len(sys.argv) == 1:
    ours, theirs = socket.socketpair()
    child = subprocess.Popen([sys.executable, '-c', SCRIPT, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd='/db/d/sub')
    d = os.open('/db/d', os.O_PATH); socket.send_fds(ours, [b'x'], [d]); os.close(d)
    assert child.wait() == 0
    os.set_inheritable(d := os.open('/db/d/sub', os.O_RDONLY), True); os.chdir('/')
    os.execv(sys.executable, [sys.executable, '-c', f'import os; print(os.listdir({d})); os.fchdir({d}); print(os.getcwd())'])
";
    let receiver = "
import os, socket, sys
_, [d], _, _ = socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 1, 1)
assert sorted(os.listdir('..')) == ['f', 'sub'] and os.getcwd() == '/db/d/sub'
fd = os.open('f', os.O_RDONLY, dir_fd=d); assert os.read(fd, 10) == b'text'
os.fchdir(d); assert os.getcwd() == '/db/d'; open('sub/made', 'w')
";
    let script = script.replace("SCRIPT", &format!("'''{receiver}'''"));
    assert_eq!(succeed(&mut place.python(&script)), "['made']\n/db/d/sub\n");
}

#[test]
fn directories_of_several_mounts_are_told_apart_over_exec() {
    let (one, other) = (Place::new("directories-one"), World::new("directories-other"));
    let url = other.filer.url.clone();
    let inner = "pwd; echo other > f; cd /proc/self/fd/5; pwd -P; echo one > f";
    let mut command = one.exec_with("", "/bin/sh");
    let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let at = arguments.iter().position(|argument| argument == "--").unwrap();
    let mut both = Command::new(command.get_program());
    both.args(&arguments[..at]).args(["--mount", &format!("/other={url}")]).args(&arguments[at..]);
    both.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
    command = both;
    command.args(["-uc", &format!("mkdir /db/d /other/d; cd /other/d; exec 5</db/d; sh -c '{inner}'")]);
    assert_eq!(succeed(&mut command), "/other/d\n/db/d\n");
    assert_eq!(one.world.exported("d/f"), b"one\n");
    assert_eq!(other.exported("d/f"), b"other\n");
}

#[test]
fn a_watch_of_a_directory_is_refused_with_a_line_that_says_what_helps() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let place = Place::new("directories-notify");
    let script = "
import fcntl, os, sys
fcntl.fcntl(os.open('/', os.O_RDONLY), fcntl.F_NOTIFY, 0)
os.mkdir('/db/d')
for path in ['/db', '/db/d']:
    try: fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)
    except OSError as error: print(error.strerror)
";
    let output = place.python(script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Invalid argument\n".repeat(2), "{}", text(&output));
    assert!(text(&output).contains("F_NOTIFY (EINVAL) are refused"), "{}", text(&output));
}

#[test]
fn flock_on_a_directory_is_refused_with_a_line_that_says_what_helps() {
    let place = Place::new("directories-flock");
    let tried = place.shell("mkdir /db/d; flock -n /db/d true; echo $?; flock -n /db/d/f true; echo $?").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&tried.stdout).lines().last(), Some("0"), "{}", text(&tried));
    assert!(text(&tried).contains("flock on a directory of a mount is refused (ENOLCK)"), "{}", text(&tried));
}

#[test]
fn what_root_makes_above_a_placeholder_is_shown_as_being_on_no_server() {
    if !is_root() {
        return skip("only root gets above a placeholder");
    }
    let place = Place::new("directories-stray");
    let script = "mkdir /db/d; cd /db/d; echo ready; env -i /bin/sh -c 'echo lost > ../../lost' 2>&1; read go";
    let program = Waiting::start(place.shell(script));
    let shown = || {
        let mut counters = millrace();
        counters.args(["nfs", "counters"]).env("MILLRACE_RUNTIME_DIR", place.runtime.path());
        let said = succeed(&mut counters);
        said.lines().any(|line| line.contains("on no server: ") && line.contains("/d/lost")).then_some(())
    };
    await_until("the file is shown", Duration::from_secs(30), shown);
    program.go_on();
}
