//! Programs that do not load the library: a warning on stderr names each once, with the cause and a
//! fix. Nothing else changes.

use crate::support::world::{World, compile};
use crate::support::{Scratch, find_program, is_root, skip, skip_unsupported, succeed, text};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The functions that execute or start a program.
const FUNCTIONS: [&str; 12] = [
    "execl",
    "execlp",
    "execle",
    "execv",
    "execvp",
    "execve",
    "execvpe",
    "execveat",
    "fexecve",
    "SYS_execve",
    "posix_spawn",
    "posix_spawnp",
];
/// Those with an environment argument.
const WITH_ENVIRONMENT: [&str; 8] =
    ["execle", "execve", "execvpe", "execveat", "fexecve", "SYS_execve", "posix_spawn", "posix_spawnp"];

/// Compiles, with these linker options, a program that prints its arguments.
fn printing(scratch: &Scratch, name: &str, options: &[&str]) -> Option<PathBuf> {
    let Some(compiler) = find_program("cc") else {
        skip("no C compiler");
        return None;
    };
    let source = scratch.path().join("printing.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(int n, char **a) { return puts(n > 1 ? a[1] : \"ran\") < 0; }\n")
        .unwrap();
    let program = scratch.path().join(name);
    succeed(Command::new(compiler).args(options).arg("-o").arg(&program).arg(source));
    Some(program)
}

/// The lines of stderr that name a program.
fn named(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().filter(|line| line.contains(" finds nothing below /db: ")).map(str::to_owned).collect()
}

fn shell(world: &World, script: &str) -> Output {
    world.exec("/bin/sh").args(["-c", script]).env("PATH", "/usr/bin:/bin:/usr/sbin").output().unwrap()
}

/// Asserts that there is one line, about this program and with this cause.
#[track_caller]
fn one(output: &Output, program: &Path, cause: &str) {
    let lines = named(output);
    let [line] = &lines[..] else { panic!("{} lines: {}", lines.len(), text(output)) };
    assert!(line.starts_with(&format!("millrace: warning: {}", program.display())) && line.contains(cause), "{line}");
    assert!(line.contains(" `millrace mount nfs://127.0.0.1:") && line.contains(" DIR` is for such programs"), "{line}");
}

#[test]
fn a_static_program_is_named_by_whatever_starts_it_and_runs_as_ever() {
    let world = World::new("reach-static");
    let Some(fixed) = printing(&world.scratch, "fixed", &["-static"]) else { return };
    let Some(starter) = compile(&world.scratch, "exec", &["-O1"]) else { return };
    for function in FUNCTIONS {
        let output = world.exec(starter.to_str().unwrap()).args(["run", function]).arg(&fixed).arg("said").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n", "{function}: {}", text(&output));
        let name = if function == "fexecve" { Path::new("/proc/self/fd/") } else { &fixed };
        one(&output, name, "it is statically linked");
    }
}

#[test]
fn a_program_that_is_given_an_environment_without_the_library_is_named() {
    let world = World::new("reach-environment");
    let Some(plain) = printing(&world.scratch, "plain", &[]) else { return };
    let Some(starter) = compile(&world.scratch, "exec", &["-O1"]) else { return };
    for function in WITH_ENVIRONMENT {
        let mut command = world.exec(starter.to_str().unwrap());
        let output = command.args(["run", function]).arg(&plain).args(["said", "bare"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n", "{function}: {}", text(&output));
        let name = if function == "fexecve" { Path::new("/proc/self/fd/") } else { &plain };
        one(&output, name, "has no LD_PRELOAD with the library");
    }
    for function in ["system", "popen"] {
        let mut command = world.exec(starter.to_str().unwrap());
        let output = command.args(["run", function, "/bin/sh", "echo said", "bare"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n", "{function}: {}", text(&output));
        one(&output, Path::new("/bin/sh"), "has no LD_PRELOAD with the library");
    }
    let output = shell(&world, &format!("env -u MILLRACE_MOUNTS {}", plain.display()));
    one(&output, &plain, "has no MILLRACE_MOUNTS");
}

#[test]
fn programs_that_have_the_library_are_not_named() {
    let world = World::new("reach-reached");
    let Some(plain) = printing(&world.scratch, "plain", &[]) else { return };
    let Some(starter) = compile(&world.scratch, "exec", &["-O1"]) else { return };
    std::fs::write(world.scratch.path().join("script"), "#!/bin/sh -e\necho script\n").unwrap();
    std::fs::write(world.scratch.path().join("bare"), "echo bare\n").unwrap();
    for script in ["script", "bare"] {
        std::fs::set_permissions(world.scratch.path().join(script), PermissionsExt::from_mode(0o755)).unwrap();
    }
    for function in FUNCTIONS {
        let output = world.exec(starter.to_str().unwrap()).args(["run", function]).arg(&plain).arg("said").output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{function}: {}", text(&output));
    }
    // Scripts, a program found by PATH, the loader as a program, another environment with the
    // library, and an empty environment.
    let here = world.scratch.path().display();
    let plain = plain.display();
    let loader = "$(ls /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* 2>/dev/null | head -n 1)";
    let script = format!(
        "PATH={here}:$PATH; script; bare; plain; {loader} {plain}; \
         env -i LD_PRELOAD=\"$LD_PRELOAD\" MILLRACE_MOUNTS=\"$MILLRACE_MOUNTS\" {plain}; {here}/none; {here}/plain.c; {}",
        // Millrace's own programs do not need the library.
        format_args!("env -i {} --version", env!("CARGO_BIN_EXE_millrace"))
    );
    let output = shell(&world, &script);
    assert_eq!(named(&output), [""; 0], "{}", text(&output));
    assert!(text(&output).contains("script\nbare\nran\nran\nran\nmillrace "), "{}", text(&output));
}

#[test]
fn a_set_user_id_program_is_named_and_one_that_gives_no_other_rights_is_not() {
    if !is_root() {
        return skip_unsupported("only root may make such programs");
    }
    let world = World::new("reach-setuid");
    let Some(plain) = printing(&world.scratch, "plain", &[]) else { return };
    let copy = |name: &str, owner: u32, group: u32, mode: u32| {
        let path = world.scratch.path().join(name);
        std::fs::copy(&plain, &path).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), Some(group)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    };
    let (user, group, own) = (copy("user", 65534, 0, 0o4755), copy("group", 0, 65534, 0o2755), copy("own", 0, 0, 0o6755));
    let hidden = copy("hidden", 65534, 0, 0o4711);
    for program in [&user, &group, &hidden] {
        one(&shell(&world, program.to_str().unwrap()), program, "set-user-ID or set-group-ID");
    }
    assert_eq!(named(&shell(&world, own.to_str().unwrap())), [""; 0]);
    // If the kernel ignores the set-user-ID bit, the loader does too.
    let powerless = world.exec("setpriv").args(["--no-new-privs"]).arg(&user).output().unwrap();
    assert_eq!((powerless.status.success(), named(&powerless)), (true, vec![]), "{}", text(&powerless));
}

#[test]
fn a_program_with_capabilities_is_named_for_whom_the_loader_is_careful() {
    let (Some(setcap), true) =
        (find_program("setcap").or_else(|| Some("/sbin/setcap".into())).filter(|path| path.is_file()), is_root())
    else {
        return skip("not root, or no setcap (libcap2-bin)");
    };
    let world = World::new("reach-capabilities");
    let Some(plain) = printing(&world.scratch, "plain", &[]) else { return };
    succeed(Command::new(setcap).arg("cap_net_raw+ep").arg(&plain));
    assert_eq!(named(&shell(&world, plain.to_str().unwrap())), [""; 0], "root has them anyhow");
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let output =
        world.exec("setpriv").args(nobody).arg("/bin/sh").arg("-c").arg(format!("{0}; {0}", plain.display())).output().unwrap();
    let lines = named(&output);
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("it has file capabilities")), "{}", text(&output));
}

#[test]
fn a_program_of_another_processor_or_c_library_is_named() {
    let world = World::new("reach-foreign");
    let musl = "-Wl,--dynamic-linker=/lib/ld-musl-none.so.1";
    let Some(other) = printing(&world.scratch, "other-libc", &[musl]) else { return };
    one(&shell(&world, other.to_str().unwrap()), &other, "a program of musl");
    // `millrace exec` also names the library for the other C library.
    let with_its_own = format!("env LD_PRELOAD=/none/musl/libmillrace_preload.so {}", other.display());
    assert_eq!(named(&shell(&world, &with_its_own)), [""; 0]);
    let foreign = world.scratch.path().join("foreign");
    let mut bytes = std::fs::read(&other).unwrap();
    bytes[18..20].copy_from_slice(&243u16.to_ne_bytes()); // EM_RISCV
    std::fs::write(&foreign, bytes).unwrap();
    std::fs::set_permissions(&foreign, PermissionsExt::from_mode(0o755)).unwrap();
    one(&shell(&world, foreign.to_str().unwrap()), &foreign, "a program of another processor");
}

/// A static busybox as the shell, as in many images.
#[test]
fn a_static_shell_is_named_once_however_many_scripts_and_applets_it_runs() {
    let world = World::new("reach-shell");
    let Some(fixed) = printing(&world.scratch, "busybox", &["-static"]) else { return };
    let here = world.scratch.path();
    for applet in ["sh", "ls", "cat"] {
        std::os::unix::fs::symlink(&fixed, here.join(applet)).unwrap();
    }
    let script = here.join("script");
    std::fs::write(&script, format!("#!{}/sh\n", here.display())).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let output = shell(&world, &format!("cd {}; ./script; ./sh; (./ls; ./cat); sh -c ./ls", here.display()));
    one(&output, Path::new("./script (by "), "it is statically linked");
}

#[test]
fn each_is_named_once_in_a_tree_of_processes_eight_at_most_and_none_when_that_is_asked_for() {
    let world = World::new("reach-once");
    let Some(fixed) = printing(&world.scratch, "fixed", &["-static"]) else { return };
    let script = format!("cd {}; ./fixed; (./fixed); sh -c './fixed; env ./fixed'; exec ./fixed", world.scratch.path().display());
    assert_eq!(named(&shell(&world, &script)).len(), 1);
    assert_eq!(named(&shell(&world, &script)).len(), 1, "another tree");
    let quiet = world.exec("/bin/sh").args(["-c", &script]).env("MILLRACE_UNREACHED", "0").output().unwrap();
    assert!(quiet.status.success() && named(&quiet).is_empty(), "{}", text(&quiet));
    for index in 0..12 {
        std::fs::copy(&fixed, world.scratch.path().join(format!("fixed{index}"))).unwrap();
    }
    let many = format!("for program in {}/fixed?*; do sh -c $program; done", world.scratch.path().display());
    assert_eq!(named(&shell(&world, &many)).len(), 8);
}

#[test]
fn what_cannot_be_executed_fails_as_ever_and_nothing_is_said() {
    let world = World::new("reach-errors");
    let Some(starter) = compile(&world.scratch, "exec", &["-O1"]) else { return };
    for (function, program, error) in [
        ("execl", "/none", "No such file"),
        ("execvp", "no-such-program", "No such file"),
        ("execve", "/etc/passwd", "Permission denied"),
        ("execle", "/etc", "Permission denied"),
        ("execveat", "/dev/null", "Permission denied"),
    ] {
        let output = world.exec(starter.to_str().unwrap()).args(["run", function, program, "x", "bare"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{function} {program}: {}", text(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(error) && named(&output).is_empty(), "{function} {program}: {said}");
    }
}

#[test]
fn who_reads_the_stderr_of_a_child_that_is_full_or_closed_is_not_waited_for() {
    let world = World::new("reach-stderr");
    let Some(fixed) = printing(&world.scratch, "fixed", &["-static"]) else { return };
    let fixed = fixed.display();
    // A full pipe that no process reads, a closed descriptor, and a file on the mount.
    let script = format!(
        "import os, subprocess\nr, w = os.pipe(); os.set_blocking(w, False)\ntry:\n while True: os.write(w, b'x' * 512)\n\
         except BlockingIOError: pass\nos.set_blocking(w, True)\nsubprocess.run(['{fixed}', 'full'], stderr=w)\n\
         subprocess.run('{fixed} closed 2>&-', shell=True)\nsubprocess.run(['{fixed}', 'file'], stderr=open('/db/log', 'w'))\n"
    );
    let Some(python) = find_program("python3") else { return skip("no python3") };
    std::fs::set_permissions(world.filer.export(), PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(succeed(world.exec(python.to_str().unwrap()).args(["-c", &script])), "full\nclosed\nfile\n");
}
