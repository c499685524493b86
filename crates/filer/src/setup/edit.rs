//! Changes of the configuration by command. The file is changed, checked, applied and stored completely, or nothing is changed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use super::{Quotas, Reloaded, Setup};
use crate::config::edit::EditError;
use crate::config::{ConfigError, Settings};
use crate::nfs::filer::Filer;

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The file cannot be used as it is, or with the change.
    #[error("{}", without_line(.0))]
    Config(#[from] ConfigError),
    /// The change is invalid.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The file cannot be replaced.
    #[error("write {file}: {source}")]
    Write {
        /// The file.
        file: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
}

/// The message without the line number: the user has not seen the text in which the line is.
fn without_line(error: &ConfigError) -> String {
    match error {
        ConfigError::Line { reason, .. } => reason.clone(),
        ConfigError::Volume { name, reason, hint: Some(hint), .. } => format!("serve volume {name:?}: {reason}; {hint}"),
        ConfigError::Volume { name, reason, hint: None, .. } => format!("serve volume {name:?}: {reason}"),
        other => other.to_string(),
    }
}

impl Setup {
    /// Changes the text of the file, makes the filer serve by it, and stores it. Other changes in the file since it was last read take
    /// effect too, its quotas if `quotas` accepts them. Creates the directory of the volume `new` if it is missing.
    ///
    /// # Errors
    /// Neither the file nor what is served has changed.
    pub(crate) fn edit(
        &mut self,
        filer: &Filer,
        new: Option<&str>,
        quotas: Quotas,
        change: impl FnOnce(&str) -> Result<String, EditError>,
    ) -> Result<Reloaded, ChangeError> {
        let file = self.settings.file.clone();
        let read = |source| ConfigError::Read { file: file.clone(), source };
        let text = fs::read_to_string(&file).map_err(read)?;
        Settings::parse(&text, &file, &self.default_state, &crate::config::resolve).map_err(|error| self.broken(error))?;
        let changed = change(&text)?;
        let settings = Settings::parse(&changed, &file, &self.default_state, &crate::config::resolve)?;
        let failed = |source| ChangeError::Write { file: file.clone(), source };
        let replacement = Replacement::write(&file, &changed).map_err(failed)?;
        let created = CreatedDirectory::directory(new, &settings);
        let before = self.settings.clone();
        let done = self.apply(settings, filer, quotas)?;
        if let Err(source) = replacement.replace() {
            // This configuration was in force a moment ago.
            if let Err(error) = self.apply(before, filer, Quotas::Any) {
                tracing::error!(%error, "failed to restore the configuration: the one in force differs from the file");
            }
            return Err(failed(source));
        }
        created.keep();
        Ok(done)
    }

    /// An error that the file had before the change. It keeps its line number, which helps the user here.
    fn broken(&self, error: ConfigError) -> ChangeError {
        match error {
            ConfigError::Line { file, line, reason } => {
                ChangeError::Edit(EditError::Toml(format!("{}:{line}: {reason}", file.display())))
            }
            other => other.into(),
        }
    }
}

/// A directory that was created. It is removed on drop, unless it is kept.
struct CreatedDirectory(Option<PathBuf>);

impl CreatedDirectory {
    /// Creates the directory of this volume if it is missing. An error is reported later, when the volume is opened.
    fn directory(name: Option<&str>, settings: &Settings) -> Self {
        let volume = settings.volumes.iter().find(|volume| Some(volume.name.as_str()) == name);
        let dir = volume.map(|volume| volume.volume.dir.clone());
        Self(dir.filter(|dir| fs::create_dir(dir).is_ok()))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CreatedDirectory {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            // Removes only an empty directory.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// The new text in a durable file in the same directory as the old one. The file is removed on drop.
struct Replacement {
    new: PathBuf,
    file: PathBuf,
}

impl Replacement {
    fn write(file: &Path, text: &str) -> io::Result<Self> {
        // A symbolic link to the file remains a link.
        let file = file.canonicalize()?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let replacement = Self { new: file.with_file_name(format!(".{name}.new")), file };
        let mut new = File::create(&replacement.new)?;
        let before = fs::metadata(&replacement.file)?;
        new.set_permissions(before.permissions())?;
        let created = new.metadata()?;
        if (created.uid(), created.gid()) != (before.uid(), before.gid()) {
            fchown(&new, Some(before.uid()), Some(before.gid()))?;
        }
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        Ok(replacement)
    }

    fn replace(self) -> io::Result<()> {
        fs::rename(&self.new, &self.file)?;
        self.file.parent().map_or(Ok(()), |above| File::open(above)?.sync_all())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.new);
    }
}
