//! After a power cut what was promised stable is there, byte for byte, and what was not may be gone.
#![allow(clippy::map_entry, reason = "what is there is compared with an answer before anything is inserted")]

use std::collections::BTreeMap;

use crate::common::{Scratch, content, make_dir, make_file, names, owner, retry_busy};
use crate::model::{FileModel, Object, TreeContent, assert_same, tree_of};
use sim::Rng;
use volume::{CopyError, CreateHow, Error, Handle, Node, SetAttr, SetTime, Stability, Time, Volume};

#[test]
fn unstable_write_is_taken_back_and_committed_one_stays() {
    let scratch = Scratch::new();
    let volume = scratch.open_lossy(0);
    let node = make_file(&volume, &volume.root(), "a", b"old content");
    let verifier = volume.verifier();
    volume.write(&node, 0, b"NEW", Stability::Unstable).unwrap();
    volume.write(&node, 20_000, b"far", Stability::Unstable).unwrap();
    assert_eq!(volume.attr(&node).unwrap().size, 20_003);
    let report = volume.power_cut().unwrap();
    assert_eq!((report.undone_writes, report.undone_names), (2, 0));
    assert_ne!(volume.verifier(), verifier);
    assert_eq!(retry_busy(|| content(&volume, &node)).unwrap(), b"old content");

    volume.write(&node, 0, b"NEW", Stability::Unstable).unwrap();
    volume.commit(&node).unwrap();
    volume.write(&node, 4, b"xxx", Stability::Unstable).unwrap();
    volume.power_cut().unwrap();
    assert_eq!(retry_busy(|| content(&volume, &node)).unwrap(), b"NEW content");
    volume.write(&node, 4, b"C", Stability::DataSync).unwrap();
    assert_eq!(volume.power_cut().unwrap().undone_writes, 0);
    assert_eq!(retry_busy(|| content(&volume, &node)).unwrap(), b"NEW Content");
}

#[test]
fn cut_without_the_layer_is_refused() {
    assert_eq!(Scratch::new().open().power_cut(), Err(Error::NotSupported));
}

#[test]
fn answered_changes_of_names_and_attributes_survive() {
    let scratch = Scratch::new();
    let volume = scratch.open_lossy(0);
    let root = volume.root();
    let (a, b) = (make_dir(&volume, &root, "a"), make_dir(&volume, &root, "b"));
    let node = make_file(&volume, &a, "f", b"x");
    make_file(&volume, &b, "old", b"replaced");
    volume.rename(&a, b"f", &b, b"old").unwrap();
    volume.set_attr(&node, &SetAttr { mode: Some(0o640), size: Some(9), ..SetAttr::default() }, None).unwrap();
    volume.symlink(&a, b"l", b"target", &SetAttr::default(), owner()).unwrap();
    volume.link(&node, &a, b"second").unwrap();
    make_file(&volume, &a, "removed", b"");
    volume.remove(&a, b"removed").unwrap();
    let before = tree_of(&scratch.dir());
    let report = volume.power_cut().unwrap();
    assert_eq!((report.undone_writes, report.undone_names), (0, 0));
    assert_same(&tree_of(&scratch.dir()), &before);
    assert_eq!(retry_busy(|| content(&volume, &node)).unwrap(), b"x\0\0\0\0\0\0\0\0");
}

#[test]
fn a_copy_goes_to_an_empty_place_outside_and_needs_the_layer() {
    let scratch = Scratch::new();
    let to = scratch.base.path().join("copy");
    assert!(matches!(scratch.open().power_cut_copy(&to), Err(CopyError::NotSupported)));
    let volume = scratch.open_lossy(0);
    let inside = volume.power_cut_copy(&scratch.dir().join("a/b"));
    assert!(matches!(inside, Err(CopyError::Inside { .. })), "{inside:?}");
    assert_eq!(std::fs::read_dir(scratch.dir()).unwrap().count(), 1, "only the layer's own directory");
    let node = make_file(&volume, &volume.root(), "f", b"kept");
    volume.write(&node, 1 << 30, b"far", Stability::Unstable).unwrap();
    volume.commit(&node).unwrap();
    let copied = volume.power_cut_copy(&to).unwrap();
    assert_eq!((copied.objects, copied.bytes), (1, (1 << 30) + 3));
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(to.join("f")).unwrap());
    assert!(blocks < 2048, "holes stay holes: {blocks} blocks");
    assert!(matches!(volume.power_cut_copy(&to), Err(CopyError::NotEmpty { .. })));
}

#[test]
fn layer_hides_its_directory_and_leaves_nothing() {
    let scratch = Scratch::new();
    {
        let volume = scratch.open_lossy(0);
        let root = volume.root();
        assert_eq!(names(&volume, &root), [".", ".."]);
        assert_eq!(volume.lookup(&root, b".millrace-limbo").map(drop), Err(Error::NoEntry));
        let made = volume.mkdir(&root, b".millrace-limbo", &SetAttr::default(), owner());
        assert_eq!(made.map(drop), Err(Error::Exists));
        make_file(&volume, &root, "a", b"");
        volume.remove(&root, b"a").unwrap();
    }
    assert_eq!(std::fs::read_dir(scratch.dir()).unwrap().count(), 0);
}

/// A volume that answers before it flushes must be caught: the cut brings the last flushed tree back,
/// the same inodes, names, modes, content.
#[test]
fn too_early_answers_are_taken_back_whole() {
    sim::sweep(100, |_, mut rng| {
        let scratch = Scratch::in_memory();
        let volume = scratch.open_lossy(0);
        let mut run = Run::new(&volume);
        for _ in 0..3 {
            for _ in 0..15 {
                run.step(&mut rng);
            }
            volume.flush_all().unwrap();
            let before = tree_of(&scratch.dir());
            volume.set_answer_early(true);
            let (files, tree) = (run.files.clone(), run.tree.clone());
            let mut early = Run { files, tree, early: true, ..Run::new(&volume) };
            for _ in 0..25 {
                early.step(&mut rng);
            }
            cut_as_the_copy_said(&scratch, &volume);
            volume.set_answer_early(false);
            assert_same(&tree_of(&scratch.dir()), &before);
            run.files.iter_mut().for_each(FileModel::flush);
        }
    });
}

#[test]
fn early_answered_file_vanishes_and_early_rename_is_undone() {
    let scratch = Scratch::new();
    let volume = scratch.open_lossy(0);
    let root = volume.root();
    let old = make_file(&volume, &root, "old", b"kept");
    let (handle, set) = (volume.handle(&old), SetAttr { mode: Some(0o600), ..SetAttr::default() });
    volume.set_answer_early(true);
    let new = make_file(&volume, &root, "new", b"");
    volume.rename(&root, b"new", &root, b"old").unwrap();
    volume.set_attr(&new, &set, None).unwrap();
    let report = volume.power_cut().unwrap();
    assert!(report.undone_names >= 2, "{report:?}");
    volume.set_answer_early(false);
    assert_eq!(names(&volume, &root), [".", "..", "old"]);
    assert_eq!(retry_busy(|| volume.attr(&new)), Err(Error::Stale), "the file was never on the disk");
    let back = retry_busy(|| volume.resolve(handle.as_bytes())).expect("the replaced file is the same object again");
    assert_eq!(retry_busy(|| content(&volume, &back)).unwrap(), b"kept");
}

#[test]
fn promises_hold_when_all_else_is_lost() {
    sim::sweep(100, |_, rng| check_promises(&Scratch::in_memory(), 0, rng));
}

#[test]
fn promises_hold_when_chance_decides_what_else_survives() {
    sim::sweep(150, |seed, rng| check_promises(&Scratch::in_memory(), seed, rng));
}

#[test]
fn promises_hold_on_the_disk_too() {
    sim::sweep_slow(4, |seed, rng| check_promises(&Scratch::new(), seed % 2 * seed, rng));
}

/// Random operations, several cuts, a reopen; the whole tree is compared with the model after each.
fn check_promises(scratch: &Scratch, loss_seed: u64, mut rng: Rng) {
    let mut volume = scratch.open_lossy(loss_seed);
    let mut run = Run::new(&volume);
    for round in 0..4 {
        for _ in 0..40 {
            run.step(&mut rng);
        }
        cut_as_the_copy_said(scratch, &volume);
        run.compare(scratch, loss_seed == 0);
        if round == 1 {
            let Run { files, tree, handles, volume: last, .. } = run;
            drop(last);
            drop(volume);
            volume = scratch.open_lossy(loss_seed);
            run = Run { files, tree, handles, ..Run::new(&volume) };
        }
    }
}

/// Cuts the power. A copy made before leaves the volume as it is and shows, byte for byte, what the cut then leaves.
fn cut_as_the_copy_said(scratch: &Scratch, volume: &Volume) {
    let to = scratch.base.path().join("copy");
    let before = tree_of(&scratch.dir());
    let copied = volume.power_cut_copy(&to).unwrap();
    assert_same(&tree_of(&scratch.dir()), &before);
    assert_eq!(volume.power_cut().unwrap(), copied.cut);
    assert_same(&without_inodes(tree_of(&to)), &without_inodes(tree_of(&scratch.dir())));
    std::fs::remove_dir_all(to).unwrap();
}

/// In the place of inode numbers, which path was the first of the inode.
fn without_inodes(mut tree_of: TreeContent) -> TreeContent {
    let mut first = BTreeMap::new();
    for (nth, (_, inode, _)) in tree_of.values_mut().enumerate() {
        *inode = *first.entry(*inode).or_insert(nth as u64);
    }
    tree_of
}

/// A model of the tree and the operations that move it and the volume together.
struct Run {
    volume: Volume,
    files: Vec<FileModel>,
    /// Path -> object; "" is not in it.
    tree: BTreeMap<String, Object>,
    handles: BTreeMap<usize, Handle>,
    /// Files in which durable and unstable writes may have met in one page since the last flush.
    mixed: Vec<usize>,
    /// No operation that flushes whatever the test fault says.
    early: bool,
}

impl Run {
    fn new(volume: &Volume) -> Self {
        Self {
            volume: volume.clone(),
            files: Vec::new(),
            tree: BTreeMap::new(),
            handles: BTreeMap::new(),
            mixed: Vec::new(),
            early: false,
        }
    }

    fn node(&self, path: &str) -> Node {
        let mut node = self.volume.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            node = self.volume.lookup(&node, name.as_bytes()).unwrap_or_else(|e| panic!("lookup {path}: {e}")).0;
        }
        node
    }

    fn paths(&self, want: impl Fn(&Object) -> bool) -> Vec<String> {
        self.tree.iter().filter(|(_, object)| want(object)).map(|(path, _)| path.clone()).collect()
    }

    fn a_directory(&self, rng: &mut Rng) -> String {
        let mut all = self.paths(|object| matches!(object, Object::Directory { .. }));
        all.push(String::new());
        rng.pick(&all).cloned().unwrap_or_default()
    }

    /// A directory and a name in it out of a few, so that names meet.
    fn a_spot(&self, rng: &mut Rng) -> (String, String, String) {
        let dir = self.a_directory(rng);
        let name = format!("n{}", rng.below(6));
        let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
        (dir, name, path)
    }

    fn a_file(&self, rng: &mut Rng) -> Option<(String, usize)> {
        let path = rng.pick(&self.paths(|object| matches!(object, Object::File(_)))).cloned()?;
        let Some(Object::File(file)) = self.tree.get(&path) else { return None };
        let file = *file;
        Some((path, file))
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(20) {
            15..=17 if self.early => self.write(rng, Stability::Unstable),
            0..=2 => self.create(rng),
            3 => self.mkdir(rng),
            4 => self.symlink(rng),
            5 | 6 => self.remove(rng),
            7 | 8 => self.rename(rng),
            9 => self.link(rng),
            10..=14 => self.write(rng, Stability::Unstable),
            15 => self.write(rng, Stability::DataSync),
            16 => self.write(rng, Stability::FileSync),
            17 => self.commit(rng),
            18 => self.truncate(rng),
            _ => self.chmod(rng),
        }
    }

    fn create(&mut self, rng: &mut Rng) {
        let (dir, name, path) = self.a_spot(rng);
        let mode = 0o600 + rng.below(64) as u32;
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        let (how, mode) = match rng.below(3) {
            0 => (CreateHow::Unchecked(set), mode),
            1 => (CreateHow::Guarded(set), mode),
            _ => (CreateHow::Exclusive(rng.bits().to_le_bytes()), 0o600),
        };
        let made = self.volume.create(&self.node(&dir), name.as_bytes(), how, owner());
        match self.tree.get(&path) {
            None => {
                let (node, attr) = made.unwrap();
                assert_eq!(attr.mode, mode);
                self.files.push(FileModel { mode, ..FileModel::default() });
                self.handles.insert(self.files.len() - 1, self.volume.handle(&node));
                self.tree.insert(path, Object::File(self.files.len() - 1));
            }
            Some(Object::File(_)) if matches!(how, CreateHow::Unchecked(_)) => drop(made.unwrap()),
            Some(_) => assert_eq!(made.map(drop), Err(Error::Exists), "{path}"),
        }
    }

    fn mkdir(&mut self, rng: &mut Rng) {
        let (dir, name, path) = self.a_spot(rng);
        if dir.matches('/').count() > 3 {
            return;
        }
        let set = SetAttr { mode: Some(0o750), ..SetAttr::default() };
        let made = self.volume.mkdir(&self.node(&dir), name.as_bytes(), &set, owner());
        if self.tree.contains_key(&path) {
            assert_eq!(made.map(drop), Err(Error::Exists));
        } else {
            made.unwrap();
            self.tree.insert(path, Object::Directory { mode: 0o750 });
        }
    }

    fn symlink(&mut self, rng: &mut Rng) {
        let (dir, name, path) = self.a_spot(rng);
        let target = format!("../t{}", rng.below(1000));
        let made = self.volume.symlink(&self.node(&dir), name.as_bytes(), target.as_bytes(), &SetAttr::default(), owner());
        if self.tree.contains_key(&path) {
            assert_eq!(made.map(drop), Err(Error::Exists));
        } else {
            made.unwrap();
            self.tree.insert(path, Object::Symlink(target));
        }
    }

    fn is_empty(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.tree.keys().any(|other| other.starts_with(&below))
    }

    fn remove(&mut self, rng: &mut Rng) {
        let (dir, name, path) = self.a_spot(rng);
        let at = self.node(&dir);
        let (expected, removed) = match self.tree.get(&path) {
            None => (Err(Error::NoEntry), self.volume.remove(&at, name.as_bytes())),
            Some(Object::Directory { .. }) => {
                assert_eq!(self.volume.remove(&at, name.as_bytes()), Err(Error::IsDirectory));
                let expected = if self.is_empty(&path) { Ok(()) } else { Err(Error::NotEmpty) };
                (expected, self.volume.rmdir(&at, name.as_bytes()))
            }
            Some(_) => {
                assert_eq!(self.volume.rmdir(&at, name.as_bytes()), Err(Error::NotDirectory));
                (Ok(()), self.volume.remove(&at, name.as_bytes()))
            }
        };
        assert_eq!(removed, expected, "{path}");
        if removed.is_ok() {
            self.tree.remove(&path);
        }
    }

    fn rename(&mut self, rng: &mut Rng) {
        let ((from_dir, from_name, from), (to_dir, to_name, to)) = (self.a_spot(rng), self.a_spot(rng));
        let renamed = self.volume.rename(&self.node(&from_dir), from_name.as_bytes(), &self.node(&to_dir), to_name.as_bytes());
        if renamed.is_err() || from == to || self.tree.get(&from) == self.tree.get(&to) && self.same_file(&from, &to) {
            // Which error is the host's choice; that nothing moved is what the comparison sees.
            return;
        }
        let object = self.tree.remove(&from).expect("a rename that went well had a source");
        self.tree.remove(&to);
        let below = format!("{from}/");
        let moved: Vec<_> = self.tree.keys().filter(|path| path.starts_with(&below)).cloned().collect();
        for path in moved {
            let inside = self.tree.remove(&path).expect("listed");
            self.tree.insert(format!("{to}/{}", &path[below.len()..]), inside);
        }
        self.tree.insert(to, object);
    }

    fn same_file(&self, from: &str, to: &str) -> bool {
        matches!((self.tree.get(from), self.tree.get(to)), (Some(Object::File(a)), Some(Object::File(b))) if a == b)
    }

    fn link(&mut self, rng: &mut Rng) {
        let Some((from, file)) = self.a_file(rng) else { return };
        let (dir, name, path) = self.a_spot(rng);
        let linked = self.volume.link(&self.node(&from), &self.node(&dir), name.as_bytes());
        if self.tree.contains_key(&path) {
            assert_eq!(linked.map(drop), Err(Error::Exists));
        } else {
            linked.unwrap();
            // The flush that makes the new name durable takes the data along.
            self.files[file].flush();
            self.mixed.retain(|mixed| *mixed != file);
            self.tree.insert(path, Object::File(file));
        }
    }

    fn write(&mut self, rng: &mut Rng, stable: Stability) {
        let Some((path, file)) = self.a_file(rng) else { return };
        let offset = rng.index(if rng.clone().chance(1, 8) { 60_000 } else { 12_000 });
        let count = 1 + rng.index(if rng.clone().chance(1, 4) { 9000 } else { 300 });
        let data = rng.bytes(count);
        let written = self.volume.write(&self.node(&path), offset as u64, &data, stable);
        assert_eq!(written, Ok(data.len()));
        if stable == Stability::Unstable {
            self.files[file].write(offset, &data);
        } else {
            if self.files[file].current != self.files[file].durable {
                self.mixed.push(file);
            }
            self.files[file].write_durably(offset, &data);
        }
        let seen = content(&self.volume, &self.node(&path)).unwrap();
        assert!(seen == self.files[file].current, "{path}: a reader sees what was written");
    }

    fn commit(&mut self, rng: &mut Rng) {
        let Some((path, file)) = self.a_file(rng) else { return };
        self.volume.commit(&self.node(&path)).unwrap();
        self.files[file].flush();
        self.mixed.retain(|mixed| *mixed != file);
    }

    fn truncate(&mut self, rng: &mut Rng) {
        let Some((path, file)) = self.a_file(rng) else { return };
        let size = rng.below(20_000);
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        assert_eq!(self.volume.set_attr(&self.node(&path), &set, None).unwrap().size, size);
        self.files[file].truncate(size as usize);
        self.mixed.retain(|mixed| *mixed != file);
    }

    fn chmod(&mut self, rng: &mut Rng) {
        let Some((path, file)) = self.a_file(rng) else { return };
        let mode = 0o600 + rng.below(64) as u32;
        let mtime = SetTime::Client(Time { sec: 1_000_000 + rng.below(1 << 30) as i64, nsec: 5 });
        let set = SetAttr { mode: Some(mode), mtime, ..SetAttr::default() };
        self.volume.set_attr(&self.node(&path), &set, None).unwrap();
        // The flush that makes the attributes durable takes the data along.
        self.files[file].mode = mode;
        self.files[file].flush();
        self.mixed.retain(|mixed| *mixed != file);
    }

    /// After a cut: the names are exactly those answered, each file holds what was promised.
    fn compare(&mut self, scratch: &Scratch, all_lost: bool) {
        let seen = tree_of(&scratch.dir());
        assert_eq!(seen.keys().collect::<Vec<_>>(), self.tree.keys().collect::<Vec<_>>());
        let mut left: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for (path, object) in &self.tree {
            let (kind, _, bytes) = &seen[path];
            match object {
                Object::Directory { mode } => assert!(kind.starts_with(&format!("directory {mode:o} ")), "{path}: {kind}"),
                Object::Symlink(target) => assert_eq!(bytes, target.as_bytes()),
                Object::File(file) => {
                    let model = &self.files[*file];
                    assert!(kind.starts_with(&format!("file {:o} ", model.mode)), "{path}: {kind}");
                    model.check(path, bytes);
                    if all_lost && !self.mixed.contains(file) {
                        assert!(*bytes == model.durable, "{path}: nothing unpromised may survive");
                    }
                    let by_handle = retry_busy(|| self.volume.resolve(self.handles[file].as_bytes())).unwrap();
                    assert!(retry_busy(|| content(&self.volume, &by_handle)).unwrap() == *bytes, "{path}: by handle");
                    left.insert(*file, bytes.clone());
                }
            }
        }
        for (file, bytes) in left {
            self.files[file].current = bytes;
            self.files[file].flush();
        }
        self.mixed.clear();
    }
}
