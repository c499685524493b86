//! docs/errors.md: the test makes each wrong use of its tables, and the program must answer and end
//! as the row says.

mod files;
mod page;
mod world;

use crate::support::postgres::server_programs;
use crate::support::{find_program, is_root, may_make_namespaces, skip, skip_unsupported};
use page::Row;
use world::{Answer, World};

/// Minimum number of wrong uses on the page.
const ROWS_MIN: usize = 60;

#[test]
fn each_wrong_use_is_answered_as_its_row_says() {
    let world = World::new();
    let mut faults = Vec::new();
    for row in page::rows().iter().filter(|row| can_be_made(row)) {
        let answer = world.make(row);
        if let Some(fault) = fault(row, &world, &answer) {
            faults.push(format!("{fault}: {}\n{}\nthe row would be\n{}\n", row.command, answer.said, world.row_of(row, &answer)));
        }
    }
    assert!(faults.is_empty(), "{} rows of docs/errors.md do not hold:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_page_has_rows_enough_and_none_twice() {
    let rows = page::rows();
    assert!(rows.len() >= ROWS_MIN, "{} rows", rows.len());
    let twice = rows.iter().enumerate().find(|(at, row)| rows[..*at].iter().any(|before| before.command == row.command));
    assert!(twice.is_none(), "{twice:?}");
}

/// Whether this host has what the row needs. Prints a message if not.
fn can_be_made(row: &Row) -> bool {
    let has = |word: &str| row.command.contains(word);
    if !is_root() && ["runuser", "unshare", "/squashed", "uid=", "./setuid", "block=/dev"].into_iter().any(has) {
        skip_unsupported(&format!("only root can be other users: {}", row.command));
        return false;
    }
    if has("unshare") && !may_make_namespaces() {
        return false;
    }
    if has("millrace compare") && server_programs().is_none() {
        skip("no PostgreSQL to compare paths under");
        return false;
    }
    let ports: u32 = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .map_or(1024, |text| text.trim().parse().unwrap());
    if has("--listen 111") && ports <= 111 {
        skip_unsupported("every user of this host may listen on port 111");
        return false;
    }
    if (has("millrace guest run --cache") || has("--guest-cache")) && find_program("qemu-system-x86_64").is_none() {
        skip("no QEMU: what it has no kernel for is not told");
        return false;
    }
    if has("./static") && find_program("cc").is_none() {
        skip("no C compiler for a statically linked program");
        return false;
    }
    true
}

/// How the answer differs from the row. `None` if it does not.
fn fault(row: &Row, world: &World, answer: &Answer) -> Option<String> {
    let said = &answer.said;
    let messages = said.lines().filter(|line| line.starts_with("millrace: cannot ") || line.starts_with("error: ")).count();
    let is_warning = row.message.starts_with("millrace: warning: ");
    if answer.code != row.code {
        Some(format!("exit code {:?} instead of {:?}", answer.code, row.code))
    } else if !is_warning && messages != 1 {
        Some(format!("{messages} messages"))
    } else if !page::is_in(&world.with_names(&row.message), said) {
        Some("another message".to_owned())
    } else if row.fix.is_empty() || !page::is_in(&world.with_names(&row.fix), said) {
        Some("another fix".to_owned())
    } else if said.contains(world::PASSWORD) || said.contains("panicked") {
        Some("a password, or a panic".to_owned())
    } else {
        None
    }
}

#[test]
fn output_that_cannot_be_written_has_one_code_and_one_text_in_every_command() {
    for arguments in [&["tune", "explain", "linux-swappiness"][..], &["audit", "--format", "json"], &["--help"], &["audit", "-h"]]
    {
        let command = || {
            let mut command = crate::support::millrace();
            command.args(arguments);
            command
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command().stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), crate::support::text(&output).as_str()), (Some(141), ""), "{arguments:?}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command().stdout(full).output().unwrap();
        let said = crate::support::text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("millrace: cannot write to standard output: No space left"), "{arguments:?}: {said}");
        assert_eq!(said.matches("hint: free space").count(), 1, "{arguments:?}: {said}");
    }
}
