//! Finds the object that a URL names: mounts what can be mounted, then looks up the rest of the path.

use anyhow::{Context, anyhow};
use dnfs::{Attributes, Client, Credentials, Error, FileHandle, FileKind, FsError, NfsUrl};

use crate::error_printing::refusal;

/// Symbolic links followed in one path, as in Linux.
const LINKS_MAX: usize = 40;

/// The object that a URL names.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) url: NfsUrl,
    /// Directory and name, unless the URL names the root of what was mounted.
    pub(super) place: Option<(FileHandle, Vec<u8>)>,
    /// The object, if it exists.
    pub(super) object: Option<(FileHandle, Attributes)>,
}

impl Target {
    /// Finds the object. Only the last component may be missing.
    pub(super) fn find(url: &str) -> anyhow::Result<Self> {
        let url: NfsUrl = url.parse().context("use the URL")?;
        let (client, rest) = Client::mount_prefix(&url, &Credentials::of_process()).with_context(|| format!("mount {url}"))?;
        let target = Self::walk(client, url.clone(), rest).with_context(|| format!("reach {url}"))?;
        Ok(target)
    }

    /// The object, which must exist.
    pub(super) fn existing(&self) -> anyhow::Result<(FileHandle, Attributes)> {
        self.object.ok_or(Error::Fs(FsError::NotFound)).with_context(|| format!("open {}", self.url))
    }

    /// The object, which must be a regular file.
    pub(super) fn file(&self) -> anyhow::Result<(FileHandle, Attributes)> {
        let (handle, attributes) = self.existing()?;
        match attributes.kind {
            FileKind::Regular => Ok((handle, attributes)),
            FileKind::Directory => Err(Error::Fs(FsError::IsDirectory)).with_context(|| format!("open {}", self.url)),
            kind => anyhow::bail!("open {}: not a regular file but {kind:?}", self.url),
        }
    }

    fn walk(client: Client, url: NfsUrl, rest: Vec<Vec<u8>>) -> anyhow::Result<Self> {
        let root = client.parts().root;
        let mut object = Some((root, client.getattr(&root)?));
        let mut place = None;
        let mut links = 0;
        let mut todo: Vec<Vec<u8>> = rest.into_iter().rev().collect();
        while let Some(name) = todo.pop() {
            let last = place.as_ref().map(|(_, name): &(_, Vec<u8>)| String::from_utf8_lossy(name).into_owned());
            let at_last = |error| anyhow!(Error::Fs(error)).context(last.unwrap_or_else(|| "the mounted path".to_owned()));
            let Some((dir, attributes)) = object else { return Err(at_last(FsError::NotFound)) };
            if attributes.kind != FileKind::Directory {
                return Err(at_last(FsError::NotDirectory));
            }
            let found = match client.lookup(&dir, &name) {
                Ok((handle, Some(attributes))) => Some((handle, attributes)),
                Ok((handle, None)) => Some((handle, client.getattr(&handle)?)),
                Err(Error::Fs(FsError::NotFound)) => None,
                Err(error) => return Err(error.into()),
            };
            if let Some((handle, Attributes { kind: FileKind::Symlink, .. })) = found {
                let mut text = Vec::new();
                client.readlink(&handle, &mut text)?;
                links += 1;
                let name = String::from_utf8_lossy(&name);
                if links > LINKS_MAX {
                    let why = format!("{name} is a symbolic link, and more than {LINKS_MAX} links follow one another");
                    return Err(refusal(why, "name the target of the link by its URL"));
                }
                // An absolute link is a path on the host that mounts the export; this command
                // mounts nothing.
                if text.starts_with(b"/") {
                    let why = format!("{name} is a symbolic link to the absolute path {}", String::from_utf8_lossy(&text));
                    return Err(refusal(
                        why,
                        "name the file by its own URL; a program under `millrace exec` can follow the link",
                    ));
                }
                let names = text.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
                todo.extend(names.rev().map(<[u8]>::to_vec));
                continue;
            }
            place = Some((dir, name));
            object = found;
        }
        Ok(Self { client, url, place, object })
    }
}
