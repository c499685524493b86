//! Streams, asynchronous I/O, directory listings and posix_spawn on a mount, for which libc uses
//! calls that no library sees. A C program prints what it finds, and must print the same in a local
//! folder and in a folder of a mount.

use crate::support::succeed;
use crate::support::text;
use crate::support::world::{World, compile};
use std::path::Path;
use std::process::Command;

/// Runs a section of a program in a local folder and in a folder of a mount, and compares its
/// output. `outside` returns a path outside that folder for the program.
pub(super) fn same_as_local(program: &str, section: &str, outside: impl Fn(&World, &Path) -> std::path::PathBuf) {
    let world = World::new(section);
    let Some(binary) = compile(&world.scratch, program, &["-O1", "-pthread"]) else { return };
    let local = world.scratch.folder("local");
    std::fs::create_dir(world.filer.export().join("d")).unwrap();
    let mut here = Command::new("timeout");
    here.args(["-k", "5", "90"]).arg(&binary).arg(&local).arg(section).arg(outside(&world, &local));
    let here = succeed(here.env("LC_ALL", "C"));
    let mut there = world.exec(binary.to_str().unwrap());
    let there = there.arg("/db/d").arg(section).arg(outside(&world, Path::new("/db/d"))).output().unwrap();
    let told = String::from_utf8_lossy(&there.stdout);
    for (line, (there, here)) in told.lines().zip(here.lines()).enumerate() {
        let before: Vec<&str> = lines_before(&told, line);
        assert_eq!(there, here, "line {} of {section}, after {before:#?}", line + 1);
    }
    assert!(there.status.success() && told.lines().count() == here.lines().count(), "{section}: {}", text(&there));
    world.nothing_left_behind();
}

/// Up to eight lines before a line.
fn lines_before(told: &str, line: usize) -> Vec<&str> {
    told.lines().take(line).skip(line.saturating_sub(8)).collect()
}

fn streams(section: &str) {
    same_as_local("streams", section, |world, _| world.scratch.path().join("elsewhere"));
}

#[test]
fn fdopen_appends_adopts_and_refuses_as_on_local_disk() {
    streams("fdopen");
}

#[test]
fn a_stream_has_the_position_and_the_rights_of_its_mode_as_on_local_disk() {
    streams("positions");
}

#[test]
fn freopen_keeps_the_stream_between_mount_local_disk_and_the_same_file() {
    streams("freopen");
}

#[test]
fn freopen_of_stdin_stdout_and_stderr_loses_no_output() {
    streams("standard");
}

#[test]
fn a_standard_stream_led_elsewhere_keeps_its_buffering() {
    streams("redirect");
}

#[test]
fn a_line_of_a_line_buffered_stderr_is_one_write() {
    streams("lines");
}

#[test]
fn what_stdin_had_read_ahead_is_not_lost_when_it_is_led_elsewhere() {
    streams("ahead");
}

#[test]
fn exit_fork_and_fflush_leave_streams_as_on_local_disk() {
    streams("endings");
}

#[test]
fn fclose_and_fflush_report_what_could_not_be_written_and_close_all_the_same() {
    streams("errors");
}

#[test]
fn buffers_of_all_kinds_behave_as_on_local_disk() {
    streams("buffers");
}

fn wide(section: &str) {
    same_as_local("wide", section, |_, _| "/none".into());
}

#[test]
fn wide_characters_go_into_files_and_come_out_of_them_as_on_local_disk() {
    wide("files");
}

#[test]
fn wide_characters_that_cannot_be_converted_end_as_on_local_disk() {
    wide("errors");
}

#[test]
fn wide_characters_go_through_stdin_and_stdout_as_on_local_disk() {
    wide("standard");
}

#[test]
fn rev_reverses_a_file_of_a_mount_into_another() {
    let world = World::new("rev");
    std::fs::write(world.filer.export().join("f"), "gr\u{fc}\u{df}e\nzwei\n").unwrap();
    succeed(world.exec("sh").env("LC_ALL", "C.UTF-8").args(["-c", "rev /db/f > /db/by-name && rev < /db/f > /db/by-stdin"]));
    for name in ["by-name", "by-stdin"] {
        assert_eq!(String::from_utf8_lossy(&world.exported(name)), "e\u{df}\u{fc}rg\niewz\n", "{name}");
    }
}

#[test]
fn what_fclose_or_freopen_closed_is_whole_after_a_power_cut() {
    let world = World::served("closed", &["--loss-layer"]);
    let Some(binary) = compile(&world.scratch, "streams", &["-O1"]) else { return };
    let ended = world.exec(binary.to_str().unwrap()).args(["/db", "closed", "/tmp"]).output().unwrap();
    assert!(text(&ended).contains("fclose(file) = 0"), "{}", text(&ended));
    let cut = world.filer.admin(r#"{"op":"power-cut"}"#);
    assert_eq!(cut["ok"], true, "{cut}");
    assert_eq!(world.exported("closed"), b"by fclose");
    assert_eq!(world.exported("left"), b"by freopen");
}

#[test]
fn fclose_reports_that_the_server_is_full() {
    let world = World::served("full", &["--fault", "enospc,on=write"]);
    let Some(binary) = compile(&world.scratch, "streams", &["-O1"]) else { return };
    let told = succeed(world.exec(binary.to_str().unwrap()).args(["/db", "full", "/tmp"]));
    let answers: Vec<&str> = told.lines().filter(|line| line.contains("ENOSPC")).collect();
    assert_eq!(answers, [" fclose(file) = 1 ENOSPC", " fflush(file) = 1 ENOSPC"], "{told}");
}

#[test]
fn a_pointer_kept_to_a_standard_stream_follows_it_or_fails_and_harms_no_file() {
    let world = World::new("kept");
    let Some(binary) = compile(&world.scratch, "streams", &["-O1"]) else { return };
    let outside = world.scratch.path().join("elsewhere");
    let told = succeed(world.exec(binary.to_str().unwrap()).args(["/db", "kept"]).arg(&outside));
    assert_eq!(told.matches("= 1 EBADF").count(), 2, "{told}");
    assert_eq!(world.exported("kept"), b"by stdout by the pointer too ! again", "{told}");
    assert_eq!(world.exported("other"), b"reopened by the pointer", "{told}");
    assert_eq!(std::fs::read(outside).unwrap(), b"back", "{told}");
}

#[test]
fn cpp_file_streams_find_the_same_as_on_local_disk() {
    let world = World::new("filebuf");
    let Some(binary) = compile(&world.scratch, "filebuf", &["-O1"]) else { return };
    let here = Command::new(&binary).arg(world.scratch.folder("local")).output().unwrap();
    let there = world.exec(binary.to_str().unwrap()).arg("/db").output().unwrap();
    assert!(here.status.success() && there.status.success(), "{}{}", text(&here), text(&there));
    assert_eq!(text(&there), text(&here));
    assert_eq!(world.exported("redirected"), b"by cout\nby dup2\nby stdio\n");
    assert_eq!(world.exported("unsynchronized"), b"without stdio\n");
}

#[test]
fn posix_spawn_opens_files_of_a_mount_when_it_spawns() {
    same_as_local("spawn", "opens", |_, _| "/none".into());
}

#[test]
fn posix_spawn_starts_in_a_directory_of_a_mount() {
    same_as_local("spawn", "directories", |world, _| world.scratch.folder("away"));
}

#[test]
fn posix_spawn_never_opens_a_file_beside_the_one_that_was_meant() {
    let world = World::new("relative");
    let Some(binary) = compile(&world.scratch, "spawn", &["-O1"]) else { return };
    let told = succeed(world.exec(binary.to_str().unwrap()).args(["/db", "relative", "/none"]));
    assert!(told.contains("after fchdir: EOPNOTSUPP"), "{told}");
    assert_eq!(told.matches(" = 1 ").count(), 2, "open and chdir after chdir: {told}");
    assert_eq!(world.exported("x"), b"here\n");
}

#[test]
fn asynchronous_requests_end_with_the_signal_or_the_thread_that_was_asked_for() {
    same_as_local("aio", "requests", |world, _| world.scratch.path().join("elsewhere"));
}

#[test]
fn lists_of_asynchronous_requests_are_done_and_told_when_all_of_them_are() {
    same_as_local("aio", "lists", |world, _| world.scratch.path().join("elsewhere"));
}

#[test]
fn scandirat_lists_the_directory_and_not_an_empty_one() {
    same_as_local("listings", "scans", |world, folder| {
        let link = world.scratch.path().join("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(folder.join("t"), &link).unwrap();
        link
    });
}

#[test]
fn getdents_lists_the_directory_once_from_where_its_description_is() {
    same_as_local("listings", "entries", |_, _| "/none".into());
}

#[test]
fn ftw_and_nftw_walk_a_tree_as_on_local_disk() {
    same_as_local("listings", "walks", |_, _| "/none".into());
}

#[test]
fn fts_walks_a_tree_as_on_local_disk() {
    same_as_local("listings", "fts", |_, _| "/none".into());
}

#[test]
fn glob_finds_the_same_with_functions_of_the_program() {
    same_as_local("listings", "globs", |_, _| "/none".into());
}

#[test]
fn tempnam_names_a_file_in_the_directory_that_was_asked_for() {
    same_as_local("listings", "names", |_, _| "/none".into());
}

#[test]
fn a_call_that_makes_or_removes_a_name_does_so_with_the_name_itself_and_not_where_a_link_a_slash_or_dots_lead() {
    same_as_local("endings", "one", |_, _| "/none".into());
}

#[test]
fn a_path_or_link_text_of_4096_bytes_is_refused_and_one_of_4095_is_not_as_on_local_disk() {
    same_as_local("endings", "lengths", |_, _| "/none".into());
}

#[test]
fn the_text_of_a_link_is_looked_at_before_its_path_and_a_name_has_255_letters_as_on_local_disk() {
    same_as_local("endings", "texts", |_, _| "/none".into());
}

#[test]
fn a_rename_or_link_of_paths_that_end_in_slashes_dots_or_links_is_answered_as_on_local_disk() {
    same_as_local("endings", "two", |_, _| "/none".into());
}

#[test]
fn calls_by_number_do_what_the_functions_do() {
    for section in ["names", "old-names", "data", "sockets", "how"] {
        same_as_local("by_number", section, |_, _| "/none".into());
    }
}

#[test]
fn calls_by_number_that_a_mount_has_not_are_refused_as_by_a_kernel_without_them() {
    let world = World::new("refused-numbers");
    let Some(binary) = compile(&world.scratch, "by_number", &["-O1"]) else { return };
    let ended = world.exec(binary.to_str().unwrap()).args(["/db", "refused", "/none"]).output().unwrap();
    let told = text(&ended);
    for (call, error) in [("&how, sizeof how", "ENOSYS"), ("\".\", IN_CREATE", "ENOSYS")] {
        assert!(told.contains(&format!("{call} = -1 {error}")), "{told}");
    }
    for (path, answer) in [("file", "1 ENOSYS"), ("none", "1 ENOENT")] {
        assert!(told.contains(&format!("\"{path}\", IN_MODIFY) < 0 = {answer}")), "{told}");
    }
    assert!(told.contains("\"/\", IN_CREATE) < 0 = 0") && told.matches("have the program poll").count() == 1, "{told}");
    assert_eq!(told.matches("= -1 EOPNOTSUPP").count(), 3, "{told}");
}

#[test]
fn a_limit_of_the_size_of_files_cuts_writes_and_refuses_growth_as_on_local_disk() {
    for section in ["writes", "others", "fatal"] {
        same_as_local("limits", section, |_, _| "/none".into());
    }
}

#[test]
fn a_pointer_that_leads_to_no_memory_is_an_error_and_not_the_end_of_the_program() {
    same_as_local("pointers", "pointers", |_, _| "/none".into());
}
