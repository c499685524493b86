//! Distribution of the kept state over the volumes of a placement: the location of each part, and the links between them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::database::engine::Parts;
use crate::error::LabError;
use crate::placement::part::{DATA, Part};

/// Prefix of the names of the kept state's tablespaces; a number from 1 follows.
const SPACE: &str = "space-";

/// Name of a tablespace's directory, beside the kept cluster and on every volume.
pub(crate) fn space_name(number: u32) -> String {
    format!("{SPACE}{number}")
}

/// The loaded state from which runs are restored.
#[derive(Debug, Clone)]
pub(crate) struct KeptState {
    /// The directory that contains the data directory and those of its tablespaces.
    pub(crate) root: PathBuf,
    /// Locations in the data directory.
    pub(crate) parts: Parts,
}

/// A tree of the kept state, and its destination.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: PathBuf,
    pub(super) part: Part,
    /// Its name in the part.
    pub(super) name: String,
    /// Name of a top-level entry that is not copied.
    pub(super) leave_out: Option<&'static str>,
}

/// A link inside the cluster's directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Directory within the cluster; `None` for the cluster's own.
    pub(super) directory: Option<&'static str>,
    pub(super) name: String,
    /// Target path, as the database finds it.
    pub(super) to: PathBuf,
}

/// A kept state distributed over the parts of a layout.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// The cluster itself comes first.
    pub(super) pieces: Vec<Piece>,
    pub(super) links: Vec<Link>,
}

impl Spread {
    /// Distributes a kept state; `seen` returns the path of a part for the database.
    ///
    /// The cluster is the first share of the data. Tablespace k of the state goes to share k modulo the number of shares, so that a
    /// layout with fewer volumes has the same tablespaces on its volumes.
    pub(super) fn of(state: &KeptState, parts: &[Part], seen: &dyn Fn(Part) -> PathBuf) -> Result<Self, LabError> {
        let (cluster, log) = (state.root.join(DATA), state.parts.log);
        let apart = parts.contains(&Part::Log);
        let leave_out = apart.then_some(log);
        let piece = |from: PathBuf, part: Part, name: &str| Piece { from, part, name: name.to_owned(), leave_out: None };
        let mut pieces = vec![Piece { leave_out, ..piece(cluster.clone(), Part::Data, DATA) }];
        let mut links = Vec::new();
        if apart {
            pieces.push(piece(cluster.join(log), Part::Log, log));
            links.push(Link { directory: None, name: log.to_owned(), to: seen(Part::Log).join(log) });
        }
        let shares: Vec<Part> = parts.iter().copied().filter(|part| part.holds_data()).collect();
        let Some(spaces) = state.parts.tablespaces else { return Ok(Self { pieces, links }) };
        for (number, link) in links_in(&cluster.join(spaces))? {
            let part = shares.get(number as usize % shares.len().max(1)).copied().unwrap_or(Part::Data);
            let name = space_name(number);
            links.push(Link { directory: Some(spaces), name: link, to: seen(part).join(&name) });
            pieces.push(piece(state.root.join(&name), part, &name));
        }
        Ok(Self { pieces, links })
    }
}

/// Number and link name of each tablespace of a kept state, sorted by number.
fn links_in(directory: &Path) -> Result<Vec<(u32, String)>, LabError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(LabError::file("list", directory))? {
        let path = entry.map_err(LabError::file("list", directory))?.path();
        let target = fs::read_link(&path).map_err(LabError::file("read the link", &path))?;
        let number = target.file_name().and_then(|name| name.to_str()?.strip_prefix(SPACE)?.parse().ok());
        let link = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some((number, link)) = number.zip(link) {
            found.push((number, link));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::plan::Layout;

    /// A kept state with this number of tablespaces.
    fn kept(spaces: u32) -> tempfile::TempDir {
        let master = tempfile::tempdir().unwrap();
        fs::create_dir_all(master.path().join(DATA).join("pg_tblspc")).unwrap();
        for number in 1..=spaces {
            let link = master.path().join(DATA).join("pg_tblspc").join((16_384 + number).to_string());
            symlink(master.path().join(space_name(number)), link).unwrap();
        }
        master
    }

    type Names<T> = Vec<(String, T)>;

    fn spread(layout: Layout, spaces: u32) -> (Names<Part>, Names<PathBuf>) {
        let master = kept(spaces);
        let parts = Parts { log: "pg_wal", tablespaces: Some("pg_tblspc"), tables: "base" };
        let state = KeptState { root: master.path().to_owned(), parts };
        let seen = |part: Part| Path::new("/mnt").join(part.name());
        let found = Spread::of(&state, &Part::of(layout), &seen).unwrap();
        let pieces = found.pieces.into_iter().map(|piece| (piece.name, piece.part)).collect();
        (pieces, found.links.into_iter().map(|link| (link.name, link.to)).collect())
    }

    #[test]
    fn the_log_goes_to_a_volume_of_its_own_and_the_archive_gets_nothing() {
        assert_eq!(spread(Layout::One, 0), (vec![("datadir".to_owned(), Part::Data)], vec![]));
        let split = spread(Layout::Split, 0);
        assert_eq!(split.0, [("datadir".to_owned(), Part::Data), ("pg_wal".to_owned(), Part::Log)]);
        assert_eq!(split.1, [("pg_wal".to_owned(), PathBuf::from("/mnt/log/pg_wal"))]);
        assert_eq!(spread(Layout::SplitArchive, 0), split);
    }

    #[test]
    fn tablespaces_go_round_the_filers_of_a_layout_and_stay_together_in_others() {
        let parts = |layout| spread(layout, 3).0.into_iter().map(|(_, part)| part).collect::<Vec<_>>();
        assert_eq!(parts(Layout::Filers(4)), [Part::Data, Part::Share(2), Part::Share(3), Part::Share(4)]);
        assert_eq!(parts(Layout::Filers(2)), [Part::Data, Part::Share(2), Part::Data, Part::Share(2)]);
        assert_eq!(parts(Layout::One), [Part::Data; 4]);
        let links = spread(Layout::Filers(2), 1).1;
        assert_eq!(links, [("16385".to_owned(), PathBuf::from("/mnt/data-2/space-1"))]);
    }
}
