//! Two clients with different users against a filer that runs as root. Each does what it may, at
//! the same time. No file changes its owner, gets set-id bits or loses its contents in a way that
//! neither of them could have caused alone.
//!
//! 100,000 attempts of each kind in `make nightly`, otherwise some hundreds. `MILLRACE_RACE_TRIES`
//! sets the number.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::filer::Filer;
use crate::support::wire::{Wire, place};
use crate::support::{Scratch, environment_number, is_root, skip_unsupported};
use nfs_proto::nfs3::{
    CreateHow, CreateResult, Fattr, FileHandle, FileType, MkDirArgs, MkNodArgs, NfsStatus, NodeData, Path, Procedure, RenameArgs,
    RenameResult, SetAttr, SetAttrArgs, StableHow, SymLinkArgs, WccResult,
};

const VICTIM: u32 = 1000;
const ATTACKER: u32 = 1001;
const MOVER: u32 = 1002;
const GROUP: u32 = 2000;

/// A filer, and a directory in which all users may change names. `None` without privilege, because
/// there is only one user then.
struct Stage {
    filer: Filer,
    dir: FileHandle,
    _scratch: Scratch,
}

impl Stage {
    fn new(label: &str) -> Option<Self> {
        if !is_root() {
            skip_unsupported("not root: the filer serves one user");
            return None;
        }
        let scratch = Scratch::new(label);
        // With flushes, each attempt would take a hundred times as long without being more likely
        // to meet another one.
        let filer = Filer::start(&scratch, &["--durability", "battery"]);
        let mut root = Wire::connect(filer.port);
        let top = root.root();
        let dir = made(mkdir(&mut root, top, "shared", 0o777));
        set(&mut root, dir, mode(0o777)).unwrap();
        Some(Self { filer, dir, _scratch: scratch })
    }

    fn user(&self, uid: u32, groups: &[u32]) -> Wire {
        let mut wire = Wire::as_user(self.filer.port, uid, uid);
        wire.groups = groups.to_vec();
        wire
    }

    /// Makes the attack this many times while the other client works.
    fn race(&self, tries: u64, mut attack: impl FnMut(u64) + Send, mut other: impl FnMut() + Send) {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let attacking = scope.spawn(|| {
                let _over = Over(&over);
                (0..tries).for_each(&mut attack);
            });
            let _over = Over(&over);
            while !over.load(Ordering::Relaxed) {
                other();
            }
            attacking.join().unwrap();
        });
    }
}

/// Ends the other loop even if this one panics.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

fn made(result: CreateResult) -> FileHandle {
    result.unwrap().object.unwrap()
}

fn set(wire: &mut Wire, object: FileHandle, set: SetAttr) -> Result<(), NfsStatus> {
    let args = SetAttrArgs { object, new_attributes: set, guard: None };
    wire.nfs(Procedure::SetAttr, &args).results::<WccResult>().map(drop).map_err(|failure| failure.status)
}

fn attributes(wire: &mut Wire, object: FileHandle) -> Fattr {
    wire.getattr(object).unwrap().attributes
}

fn mkdir(wire: &mut Wire, dir: FileHandle, name: &str, bits: u32) -> CreateResult {
    wire.nfs(Procedure::MkDir, &MkDirArgs { place: place(dir, name), attributes: mode(bits) }).results()
}

fn symlink(wire: &mut Wire, dir: FileHandle, name: &str) -> CreateResult {
    let args = SymLinkArgs { place: place(dir, name), attributes: SetAttr::default(), target: Path(b"elsewhere") };
    wire.nfs(Procedure::SymLink, &args).results()
}

fn fifo(wire: &mut Wire, dir: FileHandle, name: &str, bits: u32) -> CreateResult {
    let args = MkNodArgs { place: place(dir, name), what: NodeData::Pipe(FileType::Fifo, mode(bits)) };
    wire.nfs(Procedure::MkNod, &args).results()
}

/// Creates a file, or truncates it if it exists.
fn cut(wire: &mut Wire, dir: FileHandle, name: &str) -> CreateResult {
    wire.create_with(dir, name, CreateHow::Unchecked(SetAttr { size: Some(0), ..mode(0o666) }))
}

fn rename(wire: &mut Wire, dir: FileHandle, from: &str, to: &str) -> Result<(), NfsStatus> {
    let args = RenameArgs { from: place(dir, from), to: place(dir, to) };
    wire.nfs(Procedure::Rename, &args).results::<RenameResult>().map(drop).map_err(|failure| failure.status)
}

fn remove(wire: &mut Wire, dir: FileHandle, name: &str) {
    for procedure in [Procedure::Remove, Procedure::RmDir] {
        let _ = wire.nfs(procedure, &place(dir, name)).results::<WccResult>();
    }
}

/// The attacker creates `x` again and again, while another client renames the victim's object to
/// `x` and back.
fn renamed_stays_the_victims(tries: u64, make: fn(&mut Wire, FileHandle, &str) -> CreateResult) {
    let Some(stage) = Stage::new("renamed") else { return };
    let dir = stage.dir;
    let (mut victim, mut attacker, mut mover) = (stage.user(VICTIM, &[]), stage.user(ATTACKER, &[]), stage.user(MOVER, &[]));
    let object = made(make(&mut victim, dir, "v"));
    if attributes(&mut victim, object).kind == FileType::Regular {
        set(&mut victim, object, mode(0o644)).unwrap();
        victim.write(object, 0, b"secret", StableHow::Unstable);
    }
    let before = attributes(&mut victim, object);
    let (mut own, mut refused) = (0, 0);
    let attack = |_| match make(&mut attacker, dir, "x") {
        Ok(_) => own += 1,
        Err(_) => refused += 1,
    };
    let move_to_and_fro = || {
        if rename(&mut mover, dir, "v", "x").is_err() {
            remove(&mut mover, dir, "x");
            return;
        }
        rename(&mut mover, dir, "x", "v").unwrap();
        let now = attributes(&mut mover, object);
        let of_interest = |of: &Fattr| (of.uid, of.gid, of.mode, of.size);
        assert_eq!(of_interest(&now), of_interest(&before));
    };
    stage.race(tries, attack, move_to_and_fro);
    assert_eq!(attributes(&mut victim, object).uid, VICTIM);
    assert!(own > 0 && own + refused == tries, "made {own}, refused {refused}");
}

/// The attacker makes set-group-id programs in a directory. Meanwhile its owner turns it into a
/// set-group-id directory of another group and back.
fn no_program_of_a_foreign_group(tries: u64) {
    let Some(stage) = Stage::new("group") else { return };
    let (mut root, mut attacker) = (Wire::connect(stage.filer.port), stage.user(ATTACKER, &[]));
    let mut owner = stage.user(VICTIM, &[GROUP]);
    let dir = made(mkdir(&mut owner, stage.dir, "dir", 0o777));
    set(&mut root, dir, SetAttr { gid: Some(GROUP), ..SetAttr::default() }).unwrap();
    let attack = |nth: u64| {
        let how = CreateHow::Guarded(mode(0o2755));
        let object =
            if nth.is_multiple_of(2) { attacker.create_with(dir, "x", how) } else { fifo(&mut attacker, dir, "x", 0o2755) };
        let object = made(object);
        let made = attributes(&mut attacker, object);
        assert!(made.mode & 0o2010 != 0o2010 || made.gid == ATTACKER, "{:o} of group {}", made.mode, made.gid);
        let _ = set(&mut attacker, object, mode(0o2755));
        let made = attributes(&mut attacker, object);
        assert!(made.mode & 0o2000 == 0 || made.gid == ATTACKER, "SETATTR: {:o} of group {}", made.mode, made.gid);
        remove(&mut attacker, dir, "x");
    };
    let toggle = || [0o2777, 0o777].into_iter().for_each(|bits| set(&mut owner, dir, mode(bits)).unwrap());
    stage.race(tries, attack, toggle);
}

/// The owner of a program makes it set-user-id, while root gives it to another user.
fn no_set_user_id_program_of_a_new_owner(tries: u64) {
    let Some(stage) = Stage::new("owner") else { return };
    let (mut root, mut attacker) = (Wire::connect(stage.filer.port), stage.user(ATTACKER, &[]));
    let file = attacker.create(stage.dir, "program");
    let owner = |uid| SetAttr { uid: Some(uid), ..SetAttr::default() };
    let attack = |_| {
        let _ = set(&mut attacker, file, mode(0o6755));
    };
    let give = || {
        set(&mut root, file, owner(VICTIM)).unwrap();
        for look in 0..3 {
            let now = attributes(&mut root, file);
            assert_eq!((now.uid, now.mode & 0o6000), (VICTIM, 0), "look {look}");
        }
        set(&mut root, file, owner(ATTACKER)).unwrap();
    };
    stage.race(tries, attack, give);
}

/// A user writes to and truncates a set-id file that all users may write to, while its owner
/// removes that permission.
fn no_mode_comes_back_by_a_write(tries: u64) {
    let Some(stage) = Stage::new("write") else { return };
    let (mut owner, mut attacker) = (stage.user(VICTIM, &[]), stage.user(ATTACKER, &[]));
    let file = owner.create(stage.dir, "f");
    let attack = |nth: u64| {
        if nth.is_multiple_of(2) {
            let _ = attacker.try_write(file, 0, b"x", StableHow::Unstable);
        } else {
            let _ = set(&mut attacker, file, SetAttr { size: Some(nth % 5), ..SetAttr::default() });
        }
    };
    let close = || {
        set(&mut owner, file, mode(0o6777)).unwrap();
        set(&mut owner, file, mode(0o600)).unwrap();
        for look in 0..3 {
            assert_eq!(attributes(&mut owner, file).mode, 0o600, "look {look}");
        }
    };
    stage.race(tries, attack, close);
}

fn tries(default: u64) -> u64 {
    environment_number("MILLRACE_RACE_TRIES").unwrap_or(default)
}

fn directory(wire: &mut Wire, dir: FileHandle, name: &str) -> CreateResult {
    mkdir(wire, dir, name, 0o777)
}

fn pipe(wire: &mut Wire, dir: FileHandle, name: &str) -> CreateResult {
    fifo(wire, dir, name, 0o666)
}

/// Defines each race with these numbers of attempts, for `make test` and for the night.
macro_rules! races {
    ($($fact:ident, $at_night:ident: $race:expr;)*) => {$(
        #[test]
        fn $fact() {
            let race: fn(u64) = $race;
            race(tries(400));
        }

        #[test]
        #[ignore = "nightly: 100,000 tries"]
        fn $at_night() {
            let race: fn(u64) = $race;
            race(tries(100_000));
        }
    )*};
}

races! {
    a_mkdir_gives_away_no_directory_renamed_to_its_name, a_mkdir_100_000_times: |tries| renamed_stays_the_victims(tries, directory);
    a_symlink_gives_away_no_link_renamed_to_its_name, a_symlink_100_000_times: |tries| renamed_stays_the_victims(tries, symlink);
    a_mknod_gives_away_no_pipe_renamed_to_its_name, a_mknod_100_000_times: |tries| renamed_stays_the_victims(tries, pipe);
    a_create_cuts_no_file_renamed_to_its_name, a_create_100_000_times: |tries| renamed_stays_the_victims(tries, cut);
    no_set_group_id_program_of_a_foreign_group_is_made, set_group_id_100_000_times: no_program_of_a_foreign_group;
    no_mode_is_set_by_a_former_owner, chown_100_000_times: no_set_user_id_program_of_a_new_owner;
    no_mode_comes_back_by_a_write_or_a_cut, write_and_cut_100_000_times: no_mode_comes_back_by_a_write;
}
