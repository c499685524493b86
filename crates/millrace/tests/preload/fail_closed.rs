//! A program that cannot use the mount gets an error that names the cause. It never reaches this
//! host's files at the mount's path.

use crate::support::world::{World, compile};
use crate::support::{find_program, is_root, may_make_namespaces, skip, skip_unsupported, succeed, text};
use std::path::Path;
use std::process::Command;

/// Runs cp with this limit of its address space, to a mount's path that is also an empty directory
/// of this host. Asserts that it fails and wrote nothing there. Returns the output.
#[track_caller]
fn copied_with(world: &World, here: &Path, kib: u64) -> String {
    let script = format!("ulimit -v {kib}; exec cp /etc/hostname {}/f", here.display());
    let mut command = world.exec_at(here, "", "/bin/sh");
    let output = command.args(["-c", &script]).output().unwrap();
    let said = text(&output);
    assert!(!here.join("f").exists(), "{kib} KiB: written to this host's directory: {said}");
    assert!(!output.status.success(), "{kib} KiB: {said}");
    said
}

#[test]
fn a_program_without_the_address_space_for_a_mount_gets_an_error_and_never_the_hosts_directory() {
    let world = World::new("closed-memory");
    let here = world.scratch.folder("here");
    for kib in [40_000, 60_000, 90_000, 100_000, 110_000, 120_000] {
        let said = copied_with(&world, &here, kib);
        assert!(said.contains("Cannot allocate memory") && said.contains("RLIMIT_AS"), "{kib} KiB: {said}");
    }
    // Bash runs already when it gets the limit, and its builtins fail.
    for limit in ["ulimit -d 1000", "ulimit -d 20000", "ulimit -v 50000"] {
        let mut command = world.exec_at(&here, "", "/bin/bash");
        let script = format!("{limit}; echo new > {0}/f; echo $?; read line < {0}/f; echo $?", here.display());
        let output = command.args(["-c", &script]).output().unwrap();
        assert!(output.stdout == b"1\n1\n" && text(&output).contains("RLIMIT_DATA"), "{limit}: {}", text(&output));
        assert!(!here.join("f").exists(), "{limit}");
    }
    // With this limit the loader would print an error, leave out the library, and start the program.
    for kib in [20_000, 9_000] {
        let said = copied_with(&world, &here, kib);
        assert!(said.contains("cannot execute a program") && said.contains("RLIMIT_AS"), "{kib} KiB: {said}");
    }
}

#[test]
fn a_library_that_defines_libc_functions_by_system_calls_works_behind_this_one() {
    let world = World::new("closed-behind");
    let library = world.scratch.path().join("libbehind.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/behind.c");
    let Some(compiler) = find_program("cc") else { return skip("no C compiler") };
    succeed(Command::new(compiler).args(["-O1", "-DLIBRARY", "-shared", "-fPIC", "-o"]).arg(&library).arg(source));
    let runtime_path = format!("-Wl,-rpath,{}", world.scratch.path().display());
    let options = ["-O1", "-Wl,--no-as-needed", library.to_str().unwrap(), &runtime_path];
    let Some(program) = compile(&world.scratch, "behind", &options) else { return };
    let local = succeed(Command::new(&program).arg(world.scratch.folder("local")));
    let mounted = succeed(world.exec(program.to_str().unwrap()).arg("/db"));
    assert_eq!(local.replace(&world.scratch.path().join("local").display().to_string(), "/db"), mounted);
    // An allocator library from a package.
    let allocator = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
    match Path::new(allocator).exists() {
        false => skip("no libtcmalloc_minimal4"),
        true => {
            let script = format!("echo x > /db/f; LD_PRELOAD=\"$LD_PRELOAD {allocator}\" cat /db/f");
            assert_eq!(world.shell(&script), "x\n");
        }
    }
}

/// As with bwrap, systemd's PrivateDevices and containers, which have their own /dev/shm.
#[test]
fn a_program_that_does_not_see_the_runtime_directory_gets_an_error_that_names_it() {
    if !may_make_namespaces() {
        return;
    }
    let world = World::new("closed-covered");
    let shm = world.scratch.folder("shm");
    let runtime = shm.join("runtime");
    let covers = format!("mount -t tmpfs none {}", shm.display());
    let hides = format!("umount -l {}", shm.display());
    let removes = format!("mv {} {}-was", runtime.display(), runtime.display());
    // The uses of a mount that a program inherits: its paths, descriptors and working directory.
    let uses =
        ["exec cat", "exec cat /db/d/f", "exec cp /etc/hostname /db/g", "exec stat - <&9", "exec cat f", "exec flock /db/l true"];
    let in_one_program = ["echo more > /db/g", "cd /db/d", "echo more > /db/d/f", "echo more >> /db/d/f"];
    let exec = |script: &str| {
        let namespace = format!("mount -t tmpfs none {}; mkdir -m 700 {}; exec \"$@\"", shm.display(), runtime.display());
        let exec = world.exec("/bin/sh");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", &namespace, "sh"]).arg(exec.get_program()).args(exec.get_args());
        command.envs(exec.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
        command.env("MILLRACE_RUNTIME_DIR", &runtime).args(["-euc", script]).output().unwrap()
    };
    let inside = |script: String| {
        let opened = "mkdir -p /db/d; echo hello > /db/d/f; cd /db/d";
        exec(&format!("{opened}; exec unshare --mount sh -c '{script}' < /db/d/f 8>> /db/d/f 9< /db/d"))
    };
    for (how, script) in [&covers, &hides, &removes].into_iter().flat_map(|how| uses.map(|script| (how, script))) {
        let output = inside(format!("{how}; {script}"));
        let said = text(&output);
        let names_it = said.contains("cannot mount") && said.contains(&format!("the runtime directory {}", runtime.display()));
        assert!(names_it && !output.status.success(), "{how}; {script}: {said}");
        assert!(!said.contains("does not answer") && !said.contains("hello"), "{how}; {script}: {said}");
    }
    // This program covers the directory after it has used the mount. It keeps the files that it has open.
    for script in in_one_program {
        let output = inside(format!("read line < f; {covers}; {script}"));
        let said = text(&output);
        assert!(said.contains("the runtime directory") && !output.status.success(), "{script}: {said}");
        let output = inside(format!("read line < f; {covers}; echo $line; echo more >&8"));
        assert!(output.status.success() && output.stdout == b"hello\n", "{}", text(&output));
    }
    assert_eq!(world.exported("d/f"), b"hello\nmore\n");
    assert!(!world.filer.export().join("g").exists());
}

#[test]
fn what_a_program_without_proc_inherits_of_a_mount_is_an_error_that_names_the_cause() {
    if !may_make_namespaces() {
        return;
    }
    let world = World::new("closed-proc");
    let inside = |script: &str| {
        let inner = format!("umount -l /proc; {script}");
        let outer = format!("mkdir -p /db/d; echo hello > /db/d/f; cd /db/d; exec unshare --mount sh -c '{inner}' 9< /db/d/f");
        world.exec("/bin/sh").args(["-euc", &outer]).output().unwrap()
    };
    for script in ["exec cat <&9", "exec cat f", "exec cp /etc/hostname new"] {
        let said = text(&inside(script));
        assert!(said.contains("/proc is not mounted") && said.contains("Input/output error"), "{script}: {said}");
    }
    let output = inside("exec cat /db/d/f 9<&-");
    assert!(output.status.success() && output.stdout == b"hello\n", "{}", text(&output));
    assert!(!world.filer.export().join("d/new").exists());
}

#[test]
fn a_limit_of_the_length_of_files_ends_no_program_that_reads_a_mount() {
    let world = World::new("closed-length");
    std::fs::write(world.filer.export().join("f"), "hello").unwrap();
    let limited = || world.exec("/bin/sh").args(["-c", "ulimit -f 0; exec cat /db/f"]).output().unwrap();
    // No program has used the mount, so it has no shared memory for files yet.
    let said = text(&limited());
    assert!(said.contains("File too large") && said.contains("RLIMIT_FSIZE"), "{said}");
    assert_eq!(world.shell("cat /db/f"), "hello");
    let output = limited();
    assert!(output.status.success() && output.stdout == b"hello", "{}", text(&output));
    // No program has written, so the mount has no shared memory for written data yet. This program
    // cannot create it, others can.
    let said = text(&world.exec("/bin/bash").args(["-c", "ulimit -f 20000; echo more >> /db/f"]).output().unwrap());
    assert!(said.contains("File too large") && said.contains("RLIMIT_FSIZE") && !said.contains("is not kept"), "{said}");
    let output = world.exec("/bin/sh").args(["-c", "echo more >> /db/f; ulimit -f 10; echo more >> /db/f"]).output().unwrap();
    assert!(output.status.success() && text(&output).is_empty(), "{}", text(&output));
    assert_eq!(world.exported("f"), b"hellomore\nmore\n");
}

#[test]
fn after_chroot_open_files_of_a_mount_work_and_paths_below_it_are_enoent_with_a_line() {
    if !is_root() || find_program("python3").is_none() {
        return skip_unsupported("no root, or no python3");
    }
    let world = World::new("closed-chroot");
    let script = "
import os, sys
file = os.open('/db/f', os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.chroot(sys.argv[1])
os.write(file, b'inside')
os.fsync(file)
print(os.pread(file, 10, 0))
for path in ['/db/f', '/db/g']:
    try: os.open(path, os.O_RDWR | os.O_CREAT)
    except OSError as error: print(error.strerror)
";
    let elsewhere = world.scratch.folder("elsewhere");
    let output = world.exec("python3").args(["-c", script]).arg(&elsewhere).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, format!("b'inside'\n{}", "No such file or directory\n".repeat(2)), "{}", text(&output));
    assert!(text(&output).contains("has changed its root directory"), "{}", text(&output));
    assert_eq!(world.exported("f"), b"inside");
}
