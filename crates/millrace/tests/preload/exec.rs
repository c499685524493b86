//! `millrace exec` refuses with one clear message and then starts nothing. Otherwise it becomes the
//! program that it runs.

use crate::support::filer::Filer;
use crate::support::{Scratch, may_make_namespaces, millrace, preload_library, skip, succeed, text};
use std::process::{Command, Output};

fn exec(mount: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60"]).arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library());
    command.env("LC_ALL", "C").current_dir("/").args(["exec", "--mount", mount, "--"]);
    command
}

/// Runs `touch` with a mount that is refused. The program must not be started.
fn refused(mount: &str, scratch: &Scratch, parts: &[&str]) {
    let witness = scratch.path().join("started");
    let output = exec(mount).arg("/bin/touch").arg(&witness).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{mount}: {}", text(&output));
    let said = text(&output);
    for part in parts {
        assert!(said.contains(part), "{mount}: no {part:?} in: {said}");
    }
    assert!(said.lines().filter(|line| line.starts_with("millrace: ")).count() == 1, "one message: {said}");
    assert!(!witness.exists(), "{mount}: the program was started");
}

#[test]
fn a_path_at_which_something_is_mounted_is_refused_even_if_its_root_is_empty() {
    if !may_make_namespaces() {
        return;
    }
    let scratch = Scratch::new("exec-mounted");
    let filer = Filer::start(&scratch, &[]);
    let directory = scratch.folder("mounted");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", "mount -t tmpfs empty \"$0\"; exec \"$@\""]).arg(&directory);
    command.arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library());
    command.args(["exec", "--mount", &format!("{}={}", directory.display(), filer.url), "--", "true"]);
    let output = command.output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let fix = format!("hint: umount {}", directory.display());
    assert!(said.contains("empty is mounted there") && said.contains(&fix), "{said}");
}

#[test]
fn an_exec_that_starts_nothing_leaves_no_runtime_directory() {
    let scratch = Scratch::new("exec-nothing-left");
    let filer = Filer::start(&scratch, &[]);
    let runtime = scratch.path().join("runtime");
    let unserved = format!("/db={}", filer.url.replace("/vol", "/none"));
    let served = format!("/db={}", filer.url);
    for (mounts, program, code) in
        [(vec![&unserved], "true", 2), (vec![&served], "no-such-program", 127), (vec![&served, &served], "true", 2)]
    {
        let mut command = millrace();
        command.arg("exec").env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", &runtime);
        for mount in mounts {
            command.args(["--mount", mount]);
        }
        let output = command.args(["--", program]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(!runtime.exists(), "{program}: {}", text(&output));
    }
}

#[test]
fn bad_mounts_are_refused_by_object_cause_and_fix() {
    let scratch = Scratch::new("exec-refused");
    let filer = Filer::start(&scratch, &[]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    refused(&format!("/db=nfs://127.0.0.1:{free}/vol"), &scratch, &["refused", "hint: ", &free.to_string()]);
    refused("/db=nfs://no-such-host.invalid/vol", &scratch, &["unknown host no-such-host.invalid", "hint: "]);
    refused(
        &format!("/db={}", filer.url.replace("/vol", "/wrong")),
        &scratch,
        &["/wrong", "no such export", "hint: the server exports: /vol"],
    );
    refused(&format!("/db={}", filer.url.replace("nfsport", "nfsprt")), &scratch, &["nfsprt", "did you mean nfsport"]);
    refused(&filer.url, &scratch, &["is not an absolute path below /"]);
    refused("/db", &scratch, &["/PATH=nfs://"]);
    refused(&format!("db={}", filer.url), &scratch, &["absolute"]);
    refused(&format!("/={}", filer.url), &scratch, &["absolute"]);
    refused(&format!("/etc={}", filer.url), &scratch, &["/etc", "not empty", "hint: "]);
    refused(&format!("/etc/passwd={}", filer.url), &scratch, &["/etc/passwd", "not a directory"]);
}

#[test]
fn library_that_cannot_be_loaded_is_found_out_before_the_program_runs() {
    let scratch = Scratch::new("exec-library");
    let filer = Filer::start(&scratch, &[]);
    let mount = format!("/db={}", filer.url);
    let witness = scratch.path().join("started");
    for (library, part) in [("/etc/passwd", "cannot load the library"), ("/nowhere/x.so", "MILLRACE_PRELOAD=/nowhere/x.so")] {
        let output = exec(&mount).arg("/bin/touch").arg(&witness).env("MILLRACE_PRELOAD", library).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(part), "{}", text(&output));
        assert!(!witness.exists());
    }
}

#[test]
fn exit_code_and_process_are_those_of_the_program() {
    let scratch = Scratch::new("exec-code");
    let filer = Filer::start(&scratch, &[]);
    let mount = format!("/db={}", filer.url);
    let code = |output: Output| output.status.code();
    assert_eq!(code(exec(&mount).args(["/bin/sh", "-c", "exit 7"]).output().unwrap()), Some(7));
    let runtime = scratch.folder("runtime");
    std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(code(exec(&mount).env("MILLRACE_RUNTIME_DIR", &runtime).arg("no-such-program").output().unwrap()), Some(127));
    assert_eq!(std::fs::read_dir(&runtime).unwrap().count(), 0, "the export is not attached for a program that does not exist");
    assert_eq!(code(exec(&mount).arg("/etc/passwd").output().unwrap()), Some(126));
    let plain = millrace()
        .env("MILLRACE_PRELOAD", preload_library())
        .args(["exec", "--mount", &mount, "--", "/bin/sh", "-c", "echo $$"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = plain.id();
    assert_eq!(String::from_utf8(plain.wait_with_output().unwrap().stdout).unwrap(), format!("{pid}\n"));
}

/// Debian has the server's programs in a directory per version, outside PATH.
#[test]
fn a_program_of_postgresql_that_path_lacks_is_found_where_packages_put_it() {
    let versions = std::fs::read_dir("/usr/lib/postgresql").map_or(0, Iterator::count);
    if versions == 0 {
        skip("no PostgreSQL of a package");
        return;
    }
    let scratch = Scratch::new("exec-path");
    let filer = Filer::start(&scratch, &[]);
    let output = exec(&format!("/db={}", filer.url)).args(["initdb", "--version"]).env("PATH", "/usr/bin:/bin").output().unwrap();
    let said = text(&output);
    if versions == 1 {
        assert!(output.status.success(), "{said}");
        assert!(
            said.contains("initdb (PostgreSQL) ") && said.contains("initdb is not in PATH: running /usr/lib/postgresql/"),
            "{said}"
        );
    } else {
        assert_eq!(output.status.code(), Some(127), "{said}");
        assert!(said.contains("cannot run initdb: not found in PATH, and installed in several versions\n"), "{said}");
        assert!(said.contains("hint: name the one you want: /usr/lib/postgresql/"), "{said}");
    }
}

#[test]
fn two_mounts_and_an_exec_inside_an_exec_work_together() {
    let (one, other) = (Scratch::new("exec-one"), Scratch::new("exec-other"));
    let (first, second) = (Filer::start(&one, &[]), Filer::start(&other, &[]));
    let inner = format!(
        "{} exec --mount '/db2={}' -- /bin/sh -ec 'cat /db/from; echo inner > /db2/made; cp /db/from /db2/; cat /db2/from; mv /db/from /db2/moved; cat /db2/moved'",
        millrace().get_program().display(),
        second.url
    );
    let script = format!("cd /db; echo outer > from; ln -s /db2/made link; {inner}; pwd");
    let out = succeed(exec(&format!("/db={}", first.url)).args(["/bin/sh", "-ec", &script]));
    assert_eq!(out, "outer\nouter\nouter\n/db\n");
    assert_eq!(std::fs::read(second.export().join("made")).unwrap(), b"inner\n");
    assert!(!first.export().join("from").exists());
    // A link of one mount to the other.
    let mut both = millrace();
    both.env("MILLRACE_PRELOAD", preload_library()).args(["exec", "--mount", &format!("/db={}", first.url)]);
    both.args(["--mount", &format!("/db2={}", second.url), "--", "/bin/cat", "/db/link"]);
    assert_eq!(succeed(&mut both), "inner\n");
    let mut same = millrace();
    same.args(["exec", "--mount", &format!("/db={}", first.url), "--mount", &format!("/db/x={}", second.url), "--", "true"]);
    assert_eq!(same.output().unwrap().status.code(), Some(2), "mounts that overlap are refused");
}

#[test]
fn printed_environment_brings_a_shell_to_the_mount() {
    let scratch = Scratch::new("exec-print");
    let filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("f"), b"here\n").unwrap();
    let mut print = millrace();
    print.env("MILLRACE_PRELOAD", preload_library());
    let lines = succeed(print.args(["exec", "--mount", &format!("/db={}", filer.url), "--print", "env"]));
    assert_eq!(crate::support::keepers::of(filer.port), [0; 0], "it does not attach the mount");
    assert_eq!(succeed(Command::new("/bin/sh").args(["-ec", &format!("{lines}cat /db/f")])), "here\n");
}
