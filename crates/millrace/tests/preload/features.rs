//! What Direct NFS needs of kernel and host: each feature in the table of docs/compat/preload.md is refused by a seccomp filter.
//! Without a required one, `millrace exec` refuses and names it; without another one, programs run as usual.

use crate::support::any_server::AnyServer;
use crate::support::{find_program, skip, text};
use std::path::PathBuf;
use std::process::Output;

/// A feature: its name in the table, the system call with the argument that selects it, and the error of a kernel without it.
struct Feature {
    name: &'static str,
    call: libc::c_long,
    argument: Option<(usize, i64)>,
    /// What the error of `exec` names. `None` if there is a replacement.
    refused: Option<&'static str>,
}

const fn required(name: &'static str, call: libc::c_long, argument: Option<(usize, i64)>, refused: &'static str) -> Feature {
    Feature { name, call, argument, refused: Some(refused) }
}

const fn replaced(name: &'static str, call: libc::c_long) -> Feature {
    Feature { name, call, argument: None, refused: None }
}

const FEATURES: &[Feature] = &[
    required("fcntl(F_OFD_SETLK)", libc::SYS_fcntl, Some((1, libc::F_OFD_SETLK as i64)), "locks of open file descriptions"),
    required("fcntl(F_OFD_GETLK)", libc::SYS_fcntl, Some((1, libc::F_OFD_GETLK as i64)), "locks of open file descriptions"),
    required("flock", libc::SYS_flock, None, "take the lock"),
    required("fallocate", libc::SYS_fallocate, None, "allocate memory"),
    required("linkat", libc::SYS_linkat, None, "name the file"),
    Feature { name: "madvise(MADV_WIPEONFORK)", call: libc::SYS_madvise, argument: Some((2, 18)), refused: None },
    replaced("renameat2", libc::SYS_renameat2),
    replaced("getrandom", libc::SYS_getrandom),
    replaced("statx", libc::SYS_statx),
    replaced("copy_file_range", libc::SYS_copy_file_range),
    replaced("preadv2", libc::SYS_preadv2),
    replaced("pwritev2", libc::SYS_pwritev2),
    replaced("close_range", libc::SYS_close_range),
    replaced("faccessat2", libc::SYS_faccessat2),
    replaced("openat2", libc::SYS_openat2),
    replaced("fchmodat2", libc::SYS_fchmodat2),
    replaced("pidfd_open", libc::SYS_pidfd_open),
    replaced("io_uring_setup", libc::SYS_io_uring_setup),
    replaced("io_setup", libc::SYS_io_setup),
    replaced("name_to_handle_at", libc::SYS_name_to_handle_at),
    replaced("prlimit64", libc::SYS_prlimit64),
];

fn program(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Runs a program that makes the usual calls, without these features.
fn run_without(server: &AnyServer, errno: i32, features: &[&Feature]) -> Output {
    let rule = |feature: &&Feature| match feature.argument {
        Some((place, value)) => format!("{}:{place}={value}", feature.call),
        None => feature.call.to_string(),
    };
    let inner = server.exec("python3");
    let mut command = server.command("python3");
    command.arg(program("refuse.py")).arg(errno.to_string()).args(features.iter().map(rule)).arg("--");
    command.arg(inner.get_program()).args(inner.get_args()).arg(program("daily.py")).current_dir("/");
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.output().unwrap()
}

fn works(output: &Output, what: &str) {
    assert!(output.status.success() && output.stdout == b"done\n", "without {what}: {}", text(output));
}

/// Without it, only private mappings fail.
const MEMORY_FILES: Feature = replaced("memfd_create", libc::SYS_memfd_create);

fn with_replacement() -> Vec<&'static Feature> {
    FEATURES.iter().filter(|feature| feature.refused.is_none()).collect()
}

#[test]
fn each_feature_has_a_row_in_the_table() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compat/preload.md")).unwrap();
    let table = page.split("## What Direct NFS needs of the host").nth(1).unwrap().split("\n## ").next().unwrap();
    for feature in FEATURES.iter().chain([&MEMORY_FILES]) {
        let row = table.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{}`", feature.name)));
        let row = row.unwrap_or_else(|| panic!("no row names `{}`", feature.name));
        assert_eq!(row.contains("`exec` refuses"), feature.refused.is_some(), "{row}");
    }
}

#[test]
fn without_a_required_feature_exec_names_it_and_starts_nothing() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let server = AnyServer::filer("features-required");
    for feature in FEATURES {
        let Some(refused) = feature.refused else { continue };
        let errnos = if feature.argument.is_some() { [libc::EINVAL, libc::ENOSYS] } else { [libc::EOPNOTSUPP, libc::ENOSYS] };
        for errno in errnos {
            let output = run_without(&server, errno, &[feature]);
            let said = text(&output);
            assert_eq!(output.status.code(), Some(2), "without {}: {said}", feature.name);
            assert!(said.contains(refused) && said.contains("hint: the kernel, a sandbox"), "without {}: {said}", feature.name);
        }
    }
}

#[test]
fn without_all_features_that_have_a_replacement_programs_run_as_usual() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let server = AnyServer::filer("features-replaced");
    for errno in [libc::ENOSYS, libc::EPERM] {
        works(&run_without(&server, errno, &with_replacement()), "all");
    }
}

#[test]
fn without_files_in_memory_only_private_mappings_fail() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let server = AnyServer::filer("features-memory");
    let output = run_without(&server, libc::ENOSYS, &[&MEMORY_FILES]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("private mapping: {}\ndone\n", libc::ENOSYS),
        "{}",
        text(&output)
    );
}

#[test]
#[ignore = "nightly: each feature alone, some 20 s"]
fn without_one_feature_that_has_a_replacement_programs_run_as_usual() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let server = AnyServer::filer("features-each");
    for feature in with_replacement() {
        for errno in [libc::ENOSYS, libc::EPERM] {
            works(&run_without(&server, errno, &[feature]), feature.name);
        }
    }
}
