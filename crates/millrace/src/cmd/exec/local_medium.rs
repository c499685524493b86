//! `--local-medium /DIR=MEDIUM` of `millrace exec`: delays I/O in a directory of this host as a
//! modelled medium would.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use media::{Medium, Profile, state_file_name};

use crate::cmd::runtime;
use crate::error_printing::{hinted, refusal};

/// The variable that the library reads: one line for each directory, with tabs between directory,
/// state file and medium.
pub(crate) const VARIABLE: &str = "MILLRACE_LOCAL_MEDIUM";

/// A directory with its medium.
pub(crate) struct LocalMedium {
    directory: PathBuf,
    state: PathBuf,
    profile: Profile,
}

impl LocalMedium {
    /// Parses `/DIR=MEDIUM`. The directory is stored as its real path, because the kernel reports
    /// that path for an open file.
    pub(crate) fn parse(text: &OsStr) -> anyhow::Result<Self> {
        let shown = text.display();
        let bytes = text.as_bytes();
        let at = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
        let Some((directory, medium)) = at.map(|at| (OsStr::from_bytes(&bytes[..at]), &bytes[at + 1..])) else {
            let what = format!("use --local-medium {shown}: not of the form /DIR=MEDIUM");
            return Err(refusal(what, "as in: --local-medium /srv/pg=fc15k,spindles=80"));
        };
        let profile = Profile::parse(&String::from_utf8_lossy(medium)).map_err(|error| {
            let hint = error.hint();
            hinted(anyhow!(error).context(format!("use --local-medium {shown}")), hint)
        })?;
        let directory = Path::new(directory);
        let directory = directory
            .canonicalize()
            .map_err(|error| refusal(format!("use {}: {error}", directory.display()), "make the directory first"))?;
        if !directory.is_dir() {
            return Err(refusal(format!("use {}: not a directory", directory.display()), "name the directory the files are in"));
        }
        if directory.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\t')) {
            bail!("use --local-medium {shown}: the path has a line feed or a tab in it");
        }
        let name = state_file_name(directory.as_os_str().as_bytes(), &profile.to_string());
        Ok(Self { state: dnfs::mount::runtime_root().join(name), directory, profile })
    }

    /// The state file, which all processes of the directory share.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Its line for the library.
    pub(crate) fn line(&self) -> OsString {
        let mut line = self.directory.clone().into_os_string();
        line.push("\t");
        line.push(&self.state);
        line.push("\t");
        line.push(self.profile.to_string());
        line
    }

    /// Makes the state file with all its space allocated. An existing file is kept: a medium
    /// continues in the state in which the last process of its directory left it.
    pub(crate) fn make_state(&self) -> anyhow::Result<()> {
        self.make().with_context(|| format!("make the state of the medium of {}", self.directory.display()))
    }

    fn make(&self) -> anyhow::Result<()> {
        runtime::made(self.state.parent().unwrap_or(Path::new("/")))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut file: File = options.open(&self.state)?;
        file.lock()?; // until it is closed; another exec may make it at this moment
        let wanted = (Medium::new(self.profile.clone()).words() * 8) as u64;
        let there = file.metadata()?.len();
        if there < wanted {
            // Zeros are written instead of a hole, so a full file system fails here and not at a
            // store into the mapping.
            file.seek(SeekFrom::Start(there))?;
            file.write_all(&vec![0; (wanted - there) as usize])?;
        }
        Ok(())
    }
}

/// Parses all of them. Refuses directories that contain one another.
pub(crate) fn parse_all(texts: &[OsString]) -> anyhow::Result<Vec<LocalMedium>> {
    let mut media: Vec<LocalMedium> = Vec::new();
    for text in texts {
        let medium = LocalMedium::parse(text)?;
        let overlaps = |other: &LocalMedium| {
            other.directory.starts_with(&medium.directory) || medium.directory.starts_with(&other.directory)
        };
        if media.iter().any(overlaps) {
            let what = format!("use --local-medium {}: directories overlap", text.display());
            return Err(refusal(what, "choose directories that do not contain one another"));
        }
        media.push(medium);
    }
    Ok(media)
}

/// The variable's value: these media, and those of an outer exec for other directories.
pub(crate) fn lines(media: &[LocalMedium]) -> OsString {
    let outer = std::env::var_os(VARIABLE).unwrap_or_default();
    let inherited = outer.as_bytes().split(|byte| *byte == b'\n').filter(|line| {
        let directory = line.split(|byte| *byte == b'\t').next().unwrap_or_default();
        !line.is_empty() && !media.iter().any(|medium| medium.directory.as_os_str().as_bytes() == directory)
    });
    let inherited = inherited.map(|line| OsStr::from_bytes(line).to_owned());
    let all: Vec<OsString> = media.iter().map(LocalMedium::line).chain(inherited).collect();
    all.join(OsStr::new("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_local_medium_is_refused_with_the_way_out() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().display();
        let refused = |text: String| format!("{:#}", LocalMedium::parse(OsStr::new(&text)).err().unwrap());
        assert!(refused("/tmp".into()).contains("/DIR=MEDIUM"));
        assert!(refused(format!("{place}/absent=sata")).contains("absent"));
        assert!(refused(format!("{place}=satan")).contains("no medium profile is named"));
        std::fs::create_dir(scratch.path().join("below")).unwrap();
        let nested = [OsString::from(format!("{place}/below/..=nvme")), OsString::from(format!("{place}/below=sata"))];
        assert_eq!(LocalMedium::parse(&nested[0]).unwrap().directory, scratch.path().canonicalize().unwrap());
        assert!(format!("{:#}", parse_all(&nested).err().unwrap()).contains("overlap"));
    }

    #[test]
    fn a_line_has_directory_state_and_the_whole_medium() {
        let scratch = tempfile::tempdir().unwrap();
        let medium = LocalMedium::parse(OsStr::new(&format!("{}=fc15k,spindles=80", scratch.path().display()))).unwrap();
        let line = medium.line().into_string().unwrap();
        let words: Vec<&str> = line.split('\t').collect();
        assert_eq!(words.len(), 3);
        assert_eq!(Path::new(words[1]), medium.state());
        assert_eq!(Profile::parse(words[2]).unwrap().spindles, 80);
    }
}
