//! A mount whose shared memory was made by a version of Millrace with another layout: what happens when the package is replaced
//! under programs. The test changes the version in the header, so the processes of "the other version" are this build.

use crate::give_up::{World, end};
use crate::support::{await_until, keepers, text};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);
/// Offset of the layout version in the segment, the same in all layouts.
const VERSION_AT: u64 = 8;
const OTHER: u32 = 99;

impl World {
    fn segment(&self) -> PathBuf {
        let directories = std::fs::read_dir(self.runtime.path()).unwrap().map(|entry| entry.unwrap().path());
        directories.map(|directory| directory.join("segment")).find(|segment| segment.exists()).unwrap()
    }

    fn layout(&self) -> u32 {
        let mut version = [0; 4];
        std::fs::File::open(self.segment()).unwrap().read_exact_at(&mut version, VERSION_AT).unwrap();
        u32::from_ne_bytes(version)
    }

    /// Makes the segment one of another version.
    fn change_layout(&self) {
        let segment = std::fs::OpenOptions::new().write(true).open(self.segment()).unwrap();
        segment.write_all_at(&OTHER.to_ne_bytes(), VERSION_AT).unwrap();
    }

    fn size_of_file(&self) -> Output {
        self.exec().args(["stat", "-c", "%s", "/db/f"]).output().unwrap()
    }
}

#[test]
fn a_program_starts_after_those_of_another_version_have_ended_and_their_keeper_has_saved_their_data() {
    let Some(world) = World::new("layout-used", &["--loss-layer"]) else { return };
    let mut writer = world.writer();
    let own = world.layout();
    world.change_layout();
    let refused = world.size_of_file();
    let said = text(&refused);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains(&format!("programs use it: {} python3", writer.id())) && said.contains("layout 99"), "{said}");
    let given_up = world.give_up(&[]);
    assert!(given_up.status.code() == Some(2) && text(&given_up).contains("programs use it"), "{}", text(&given_up));
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    let size = world.size_of_file();
    assert_eq!(String::from_utf8_lossy(&size.stdout), "10000\n", "{}", text(&size));
    assert_eq!(world.layout(), own, "a segment of this version replaced the other one");
    assert_eq!(world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    assert_eq!(std::fs::metadata(world.filer.export().join("f")).unwrap().len(), 10_000, "the keeper had saved it");
}

#[test]
fn data_that_only_another_version_can_save_is_lost_by_force_alone() {
    let Some(mut world) = World::new("layout-unsaved", &[]) else { return };
    let writer = world.writer();
    world.filer.kill();
    keepers::of(world.filer.port).into_iter().for_each(keepers::kill);
    end(writer);
    await_until("the end of the keepers", SOON, || keepers::of(world.filer.port).is_empty().then_some(()));
    world.change_layout();
    world.filer.restart();
    let said = text(&world.size_of_file());
    assert!(said.contains("may hold data that the server does not have") && said.contains("give-up --force"), "{said}");
    let refused = world.give_up(&["/db"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert_eq!(world.given_up(&["--force", "/db"])["outcome"], "lost");
    world.nothing_is_left();
}
