//! Volumes with `crossmnt`: the filer serves each file system inside as a separate volume, with the rules of the outer one.

use std::fs;
use std::hash::Hasher;
use std::io::ErrorKind;
use std::path::Path;

use siphasher::sip::SipHasher24;
use volume::{Inside, MountPoint, Tree, file_systems_inside};

use crate::config::{Settings, VolumeSettings};
use crate::limits::EXPORTS_MAX;
use crate::nfs::exports::Exports;

/// Directory of their state, inside the state directory of the outer volume.
const STATE: &str = "inside";

/// Replaces the volumes of file systems inside others with those of the file systems that are mounted now. `served`: the directories of the
/// other volumes.
pub(super) fn add_mounted(settings: &mut Settings, mut served: Vec<Tree>) {
    settings.volumes.retain(|volume| volume.inside_of.is_none());
    let mut added: Vec<VolumeSettings> = Vec::new();
    for outer in settings.volumes.iter().filter(|volume| volume.crossmnt) {
        let found = file_systems_inside(&outer.volume.dir);
        let found = found.inspect_err(|error| {
            tracing::warn!(volume = outer.name, %error, "failed to list the mounts inside the volume: no file system inside it is served");
        });
        for inside in found.unwrap_or_default() {
            match volume_of(outer, &inside, settings.volumes.len() + added.len()) {
                // If a file system is mounted at two places, names at both lead to the volume of the first.
                Ok(volume) if added.iter().any(|other| other.volume.state_dir == volume.volume.state_dir) => {}
                Ok(volume) if settings.volumes.iter().any(|other| other.path == volume.path) => {
                    refuse(outer, &inside, "another volume has its path");
                }
                Ok(_) if served.iter().any(|tree| tree.overlaps(&inside.tree)) => {
                    refuse(outer, &inside, "another volume serves its files")
                }
                Ok(volume) => {
                    served.push(inside.tree);
                    added.push(volume);
                }
                Err(reason) => refuse(outer, &inside, reason),
            }
        }
    }
    settings.volumes.append(&mut added);
}

/// Notes where file systems inside the volumes are served. Makes the volumes refuse the names of all such places, so that the directory
/// below an unmounted file system cannot take its place.
pub(super) fn guard(settings: &Settings, exports: &Exports) {
    for outer in settings.volumes.iter().filter(|volume| volume.inside_of.is_none()) {
        for inside in settings.volumes.iter().filter(|volume| volume.inside_of.as_ref() == Some(&outer.name)) {
            let below = inside.name.strip_prefix(&outer.name).and_then(|rest| rest.strip_prefix(':'));
            let Some((below, entry)) = below.zip(exports.named(&inside.name)) else { continue };
            if let Err(error) = entry.export.volume.note_place(Path::new(below)) {
                tracing::warn!(volume = inside.name, %error, "failed to note where the file system inside a volume is mounted");
            }
        }
        let points = if outer.crossmnt { noted(outer) } else { Vec::new() };
        for entry in exports.entries().iter().filter(|entry| entry.export.outermost() == outer.name) {
            entry.export.volume.set_mount_points(&points);
        }
    }
}

/// The places of all file systems that were served inside a volume. Logs those that are not mounted.
fn noted(outer: &VolumeSettings) -> Vec<MountPoint> {
    let states = fs::read_dir(outer.volume.state_dir.join(STATE));
    let mut points: Vec<MountPoint> = Vec::new();
    for state in states.into_iter().flatten().flatten() {
        match MountPoint::noted(&state.path(), &outer.volume.dir) {
            Ok(point) => points.extend(point),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(volume = outer.name, state = %state.path().display(), %error, "failed to find a mount point inside the volume")
            }
        }
    }
    points.sort_by(|one, other| one.dir.cmp(&other.dir));
    points.dedup_by(|one, other| one.dir == other.dir);
    points.iter().filter(|point| !point.is_mounted).for_each(MountPoint::warn);
    points
}

fn refuse(outer: &VolumeSettings, inside: &Inside, reason: &str) {
    tracing::warn!(volume = outer.name, dir = %inside.dir.display(), reason, "a file system inside the volume is not served");
}

/// The volume of a file system inside another volume, or the reason why it cannot be served.
fn volume_of(outer: &VolumeSettings, inside: &Inside, others: usize) -> Result<VolumeSettings, &'static str> {
    if others >= EXPORTS_MAX {
        return Err("the filer has as many volumes as it can serve");
    }
    let below = inside.below.to_str().ok_or("its path is not UTF-8")?;
    let identity = inside.identity.as_deref().map_err(|reason| *reason)?;
    let options = outer.volume.options;
    let state_dir = outer.volume.state_dir.join(STATE).join(state_name(identity));
    Ok(VolumeSettings {
        name: format!("{}:{below}", outer.name),
        path: format!("{}/{below}", outer.path.trim_end_matches('/')),
        policy: outer.policy.clone(),
        quota: None,
        volume: volume::Config { dir: inside.dir.clone(), state_dir, loss: None, options },
        medium: outer.medium.clone(),
        faults: Vec::new(),
        line: outer.line,
        crossmnt: false,
        inside_of: Some(outer.name.clone()),
    })
}

/// The name of the state directory. Another file system at the same place has another name, and so another key for handles.
fn state_name(identity: &str) -> String {
    let mut hash = SipHasher24::new();
    hash.write(identity.as_bytes());
    format!("{:016x}", hash.finish())
}
