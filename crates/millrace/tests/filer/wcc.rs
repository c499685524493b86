//! Attributes before a change (RFC 1813 2.6). If they match the attributes in a client's cache, the
//! client keeps the cache. So wrong ones hide the change of another client.

use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::wire::{Wire, place};
use nfs_proto::nfs3::{
    CreateHow, CreateResult, FileHandle, FileType, LinkArgs, LinkResult, MkDirArgs, MkNodArgs, NfsTime, NodeData, Path,
    Procedure, RenameArgs, RenameResult, SetAttr, SetAttrArgs, StableHow, SymLinkArgs, WccData, WccResult,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Size, mtime and ctime: the fields of `wcc_attr`.
type State = (u64, NfsTime, NfsTime);

/// Number of files that each connection creates in one directory at the same time as the others.
const FILES: usize = 200;

/// The states of an object before and after a change.
type Pair = (Option<State>, State);

fn pair(wcc: &WccData) -> Pair {
    let after = wcc.after.unwrap();
    (wcc.before.map(|before| (before.size, before.mtime, before.ctime)), (after.size, after.mtime, after.ctime))
}

fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

fn state(wire: &mut Wire, object: FileHandle) -> State {
    let attr = wire.getattr(object).unwrap().attributes;
    (attr.size, attr.mtime, attr.ctime)
}

fn set(wire: &mut Wire, object: FileHandle, new_attributes: SetAttr) -> Pair {
    let args = SetAttrArgs { object, new_attributes, guard: None };
    pair(&wire.nfs(Procedure::SetAttr, &args).results::<WccResult>().unwrap())
}

fn make_dir(wire: &mut Wire, dir: FileHandle, name: &str) -> (FileHandle, Pair) {
    let args = MkDirArgs { place: place(dir, name), attributes: mode(0o755) };
    let made = wire.nfs(Procedure::MkDir, &args).results::<CreateResult>().unwrap();
    (made.object.unwrap(), pair(&made.dir_wcc))
}

/// Makes changes of names in two directories, about fourteen with each procedure. Returns the
/// attributes in the replies, by directory.
fn change_names(wire: &mut Wire, [a, b]: [FileHandle; 2], id: usize) -> [Vec<Pair>; 2] {
    let [mut of_a, mut of_b] = [Vec::new(), Vec::new()];
    let named = ["file", "link", "moved", "soft", "fifo", "dir"].map(|kind| format!("{kind}{id}"));
    let [file, link, moved, soft, fifo, sub] = named.each_ref().map(String::as_str);
    let remove = |wire: &mut Wire, dir, name: &str, procedure| {
        pair(&wire.nfs(procedure, &place(dir, name)).results::<WccResult>().unwrap())
    };
    for round in 0..14 {
        let made = wire.create_with(a, file, CreateHow::Guarded(mode(0o644))).unwrap();
        of_a.push(pair(&made.dir_wcc));
        let args = LinkArgs { file: made.object.unwrap(), link: place(a, link) };
        of_a.push(pair(&wire.nfs(Procedure::Link, &args).results::<LinkResult>().unwrap().link_dir));
        let args = RenameArgs { from: place(a, file), to: place(b, moved) };
        let renamed = wire.nfs(Procedure::Rename, &args).results::<RenameResult>().unwrap();
        of_a.push(pair(&renamed.from_dir));
        of_b.push(pair(&renamed.to_dir));
        of_a.push(set(wire, a, mode(0o700 + round % 8)));
        let args = SymLinkArgs { place: place(b, soft), attributes: SetAttr::default(), target: Path(b"x") };
        of_b.push(pair(&wire.nfs(Procedure::SymLink, &args).results::<CreateResult>().unwrap().dir_wcc));
        let args = MkNodArgs { place: place(a, fifo), what: NodeData::Pipe(FileType::Fifo, mode(0o600)) };
        of_a.push(pair(&wire.nfs(Procedure::MkNod, &args).results::<CreateResult>().unwrap().dir_wcc));
        let args = RenameArgs { from: place(b, soft), to: place(b, moved) };
        let over = wire.nfs(Procedure::Rename, &args).results::<RenameResult>().unwrap();
        assert_eq!(pair(&over.from_dir), pair(&over.to_dir));
        of_b.push(pair(&over.to_dir));
        of_b.push(make_dir(wire, b, sub).1);
        of_b.push(remove(wire, b, sub, Procedure::RmDir));
        of_a.extend([link, fifo].map(|name| remove(wire, a, name, Procedure::Remove)));
        of_b.push(remove(wire, b, moved, Procedure::Remove));
    }
    [of_a, of_b]
}

/// Checks that each change began in the state in which the change before it ended.
fn assert_is_chain(mut pairs: Vec<Pair>, first: State, last: State) {
    pairs.sort_by_key(|(_, (_, _, ctime))| (ctime.seconds, ctime.nseconds));
    let mut left = first;
    for (nth, (before, after)) in pairs.iter().enumerate() {
        assert_eq!(*before, Some(left), "change {nth} of {}", pairs.len());
        left = *after;
    }
    assert_eq!(left, last);
}

#[test]
fn on_an_exclusive_volume_the_attributes_around_the_changes_of_a_directory_form_one_chain() {
    let scratch = Scratch::new("wcc-chain");
    let filer = Filer::start(&scratch, &["--exclusive", "--durability", "battery"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let dirs = ["a", "b"].map(|name| make_dir(&mut wire, root, name).0);
    let first = dirs.map(|dir| state(&mut wire, dir));
    let changes: Vec<[Vec<Pair>; 2]> = std::thread::scope(|scope| {
        let work = |id: usize| {
            let mut wire = Wire::connect(filer.port);
            // The filer treats equal calls with equal xids from one address as resends.
            wire.xid = (1 + id as u32) << 16;
            move || {
                let make = |wire: &mut Wire, nth| {
                    let made = wire.create_with(dirs[0], &format!("many{id}.{nth}"), CreateHow::Guarded(mode(0o644)));
                    pair(&made.unwrap().dir_wcc)
                };
                let many: Vec<Pair> = (0..FILES).map(|nth| make(&mut wire, nth)).collect();
                let [of_a, of_b] = change_names(&mut wire, dirs, id);
                [[many, of_a].concat(), of_b]
            }
        };
        let working: Vec<_> = (0..8).map(|id| scope.spawn(work(id))).collect();
        working.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (nth, dir) in dirs.into_iter().enumerate() {
        let pairs: Vec<Pair> = changes.iter().flat_map(|of_thread| of_thread[nth].clone()).collect();
        assert_eq!(pairs.len(), 8 * [FILES + 14 * 7, 14 * 6][nth]);
        assert_is_chain(pairs, first[nth], state(&mut wire, dir));
    }
}

#[test]
fn no_write_link_or_rename_of_a_file_is_hidden_between_the_attributes_around_a_setattr() {
    let scratch = Scratch::new("wcc-setattr");
    let filer = Filer::start(&scratch, &["--exclusive", "--durability", "battery"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "file");
    let over = AtomicBool::new(false);
    let (pairs, seen) = std::thread::scope(|scope| {
        let until_over = |change: fn(&mut Wire, FileHandle, FileHandle) -> State| {
            let (over, port) = (&over, filer.port);
            scope.spawn(move || {
                let (mut wire, mut seen) = (Wire::connect(port), Vec::new());
                while !over.load(Ordering::Relaxed) {
                    seen.push(change(&mut wire, root, file));
                }
                seen
            })
        };
        let changing = [
            until_over(|wire, _, file| pair(&wire.write(file, 0, b"data", StableHow::Unstable).wcc).1),
            until_over(|wire, root, file| {
                let args = LinkArgs { file, link: place(root, "link") };
                let linked = wire.nfs(Procedure::Link, &args).results::<LinkResult>().unwrap().attributes.unwrap();
                let args = RenameArgs { from: place(root, "link"), to: place(root, "other") };
                wire.nfs(Procedure::Rename, &args).results::<RenameResult>().unwrap();
                wire.nfs(Procedure::Remove, &place(root, "other")).results::<WccResult>().unwrap();
                (linked.size, linked.mtime, linked.ctime)
            }),
        ];
        let pairs: Vec<Pair> = (0..1500).map(|nth| set(&mut wire, file, mode(0o600 + nth % 8))).collect();
        over.store(true, Ordering::Relaxed);
        let seen: Vec<State> = changing.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        (pairs, seen)
    });
    let at = |(_, _, ctime): State| (ctime.seconds, ctime.nseconds);
    for (before, after) in pairs.iter().filter_map(|(before, after)| Some(((*before)?, *after))) {
        let hidden = seen.iter().find(|state| at(before) < at(**state) && at(**state) < at(after));
        assert_eq!(hidden, None, "between {before:?} and {after:?}");
    }
    let alone = state(&mut wire, file);
    assert_eq!(set(&mut wire, file, mode(0o640)).0, Some(alone), "no other change runs any more");
}

#[test]
fn without_exclusive_no_reply_has_attributes_from_before() {
    let scratch = Scratch::new("wcc-shared");
    let filer = Filer::start(&scratch, &["--durability", "battery"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let dirs = ["a", "b"].map(|name| make_dir(&mut wire, root, name).0);
    for (before, _) in change_names(&mut wire, dirs, 0).into_iter().flatten() {
        assert_eq!(before, None);
    }
}
