//! Servers that do not support all procedures of NFSv3. Programs do not notice that.

use crate::support::keepers;
use crate::support::lesser_server::{LesserServer, NOT_SUPPORTED, Refusal};
use crate::support::world::World;
use crate::support::{find_program, millrace, preload_library, skip, succeed};
use std::process::Command;

/// NFS3ERR_MLINK, NFS3ERR_ACCES, NFS3ERR_IO.
const TOO_MANY_LINKS: u32 = 31;
const ACCESS_DENIED: u32 = 13;
const INPUT_OUTPUT: u32 = 5;

/// Programs on a filer that refuses procedures.
struct Lesser {
    server: LesserServer,
    url: String,
    world: World,
}

impl Lesser {
    fn new(label: &str, refusals: Vec<Refusal>) -> Self {
        let world = World::new(label);
        let server = LesserServer::start(world.filer.port, refusals);
        let url = server.url(&world.filer.url, world.filer.port);
        Self { server, url, world }
    }

    fn exec(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "90"]).arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).env("LC_ALL", "C").current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}", self.url), "--"]).args(arguments);
        succeed(&mut command)
    }
}

impl Drop for Lesser {
    fn drop(&mut self) {
        keepers::end(self.server.port);
    }
}

#[test]
fn directories_are_listed_where_readdirplus_is_refused_and_it_is_asked_for_once_on_a_host() {
    let lesser = Lesser::new("lesser-readdir", vec![Refusal::readdirplus(NOT_SUPPORTED)]);
    let names: Vec<String> =
        (0..3000).map(|number| format!("a-name-that-is-long-enough-to-need-several-replies-{number:04}")).collect();
    for name in &names {
        std::fs::write(lesser.world.filer.export().join(name), "").unwrap();
    }
    std::fs::create_dir(lesser.world.filer.export().join("sub")).unwrap();
    let expected: String = names.iter().map(|name| format!("{name}\n")).chain(["sub\n".to_owned()]).collect();
    assert_eq!(lesser.exec(&["ls", "/db"]), expected);
    assert_eq!(lesser.exec(&["find", "/db", "-type", "d"]), "/db\n/db/sub\n");
    assert_eq!(lesser.exec(&["sh", "-c", "rm -r /db/* && ls /db"]), "");
    assert_eq!(lesser.server.refusals[0].seen(), 1);
    assert_eq!(lesser.world.filer.calls("READDIRPLUS"), 0);
    assert!(lesser.world.filer.calls("READDIR") > 4);
}

/// Renames `new` over `old`, which is open, and prints the content of the open file and of the name.
const REPLACE: &str = r#"
import os
def make(name, text):
    with open("/db/" + name, "w") as file: file.write(text)
make("old", "old"); make("new", "new")
reader = open("/db/old")
try: os.rename("/db/new", "/db/old"); print("renamed")
except OSError as error: print(os.strerror(error.errno))
print(reader.read(), open("/db/old").read(), os.path.exists("/db/new"), sorted(os.listdir("/db")))
"#;

#[test]
fn a_file_that_is_open_is_replaced_where_it_can_have_no_second_name() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    for status in [NOT_SUPPORTED, TOO_MANY_LINKS, ACCESS_DENIED] {
        let lesser = Lesser::new("lesser-link", vec![Refusal::link(status)]);
        assert_eq!(lesser.exec(&["python3", "-c", REPLACE]), "renamed\nold new False ['old']\n", "{status}");
        assert_eq!(lesser.server.refusals[0].seen(), 1);
        lesser.world.nothing_left_behind();
    }
}

#[test]
fn a_rename_that_is_refused_leaves_the_file_that_was_to_be_replaced() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let refusals = vec![Refusal::link(NOT_SUPPORTED), Refusal::one_rename(INPUT_OUTPUT, 1)];
    let lesser = Lesser::new("lesser-rename", refusals);
    assert_eq!(lesser.exec(&["python3", "-c", REPLACE]), "Input/output error\nold old True ['new', 'old']\n");
    assert_eq!(lesser.server.refusals[1].seen(), 3, "away, over, back");
    lesser.world.nothing_left_behind();
}
