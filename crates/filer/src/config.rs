//! `filer.toml`: what a filer serves and to which clients. The file is read and checked completely before any of it takes
//! effect.

mod addresses;
mod clients;
pub mod edit;
mod error;
mod file;
mod iscsi;
mod keys;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use volume::LossConfig;
use volume::faults::FaultSpec;

pub use error::ConfigError;

use crate::limits::{EXPORTS_MAX, VOLUME_NAME_BYTES_MAX};
use crate::listener::address_or_port;
use crate::nfs::policy::{Client, Policy, Rights, Rule, TlsRule};
use crate::tls::TlsFiles;
use addresses::AddressText;
use file::{FilerTable, RightsKeys, VolumeTable};

/// The default port of NFS.
const NFS_PORT: u16 = 2049;

/// The settings of a configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The file.
    pub file: PathBuf,
    /// The addresses on which the filer serves NFS.
    pub listen: Vec<SocketAddr>,
    /// The addresses on which the filer serves portmap, besides those of `listen`.
    pub portmap: Vec<SocketAddr>,
    /// The directory where the filer keeps its records about volumes.
    pub state: PathBuf,
    /// The path of the admin socket.
    pub admin: PathBuf,
    /// Certificate and key files. `None` if TLS is off.
    pub tls: Option<TlsFiles>,
    /// The address on which the filer serves metrics. `None` if metrics are off.
    pub metrics: Option<SocketAddr>,
    /// The settings of iSCSI, which is served only if they name portals.
    pub iscsi: crate::iscsi::Settings,
    /// The volumes, in the order of the file.
    pub volumes: Vec<VolumeSettings>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSettings {
    /// Its name.
    pub name: String,
    /// The path that clients mount.
    pub path: String,
    /// Which clients may use it. The policy and the quota can change while clients are connected.
    pub policy: Policy,
    /// Limit for the sum of its file sizes, in bytes. `None` if there is no quota.
    pub quota: Option<u64>,
    /// How the volume is opened.
    pub volume: volume::Config,
    /// The modelled medium, as written in the file.
    pub medium: Option<String>,
    /// Faults that are set when the volume is opened.
    pub faults: Vec<FaultSpec>,
    /// The line of the file on which the volume begins.
    pub line: usize,
    /// Whether file systems that are mounted inside the volume are served too.
    pub crossmnt: bool,
    /// The outer volume, if this is a file system inside it. `None` if the configuration file names this volume.
    pub inside_of: Option<String>,
}

/// Finds the addresses of a host name.
pub type Resolve<'r> = &'r dyn Fn(&str) -> std::io::Result<Vec<IpAddr>>;

/// Resolves a name as the host does: `/etc/hosts`, then DNS.
///
/// # Errors
/// The host's.
pub fn resolve(name: &str) -> std::io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

impl Settings {
    /// Reads and checks a file. `state` is the directory for records if the file names none.
    ///
    /// # Errors
    /// The first fault of the file, with its line. [`ConfigError::Exposed`] if all users of the host may read or write its CHAP secrets.
    pub fn read(file: &Path, state: &Path) -> Result<Self, ConfigError> {
        let (text, mode) = read_with_mode(file).map_err(|source| ConfigError::Read { file: file.to_path_buf(), source })?;
        let settings = Self::parse(&text, file, state, &resolve)?;
        if mode & OTHERS != 0 && settings.iscsi.has_secrets() {
            return Err(ConfigError::Exposed { file: file.to_path_buf(), mode: mode & 0o7777 });
        }
        Ok(settings)
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn parse(text: &str, file: &Path, state: &Path, resolve: Resolve<'_>) -> Result<Self, ConfigError> {
        let mut reader = Reader { text, file, resolve, tls: None };
        let parsed: file::File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.of_line(at, keys::in_words(error.message(), keys::key_at(text, at)))
        })?;
        let filer = parsed.filer.unwrap_or_default();
        let state = match &filer.state {
            Some(state) => reader.absolute(state)?,
            None => state.to_path_buf(),
        };
        reader.tls = reader.tls_files(&filer)?;
        let admin = filer.admin.as_ref().map(|path| reader.absolute(path)).transpose()?;
        if parsed.volume.is_empty() {
            return Err(reader.of_line(text.len(), "no [[volume]]: a filer needs at least one".into()));
        }
        if let Some(further) = parsed.volume.get(EXPORTS_MAX) {
            return Err(reader.wrong(further.span().start, format!("a filer serves {EXPORTS_MAX} volumes at most")));
        }
        let volumes: Vec<_> = parsed.volume.iter().map(|table| reader.volume(table, &state)).collect::<Result<_, _>>()?;
        reader.no_twins(&parsed.volume, &volumes)?;
        let iscsi = parsed.iscsi.map_or_else(|| Ok(crate::iscsi::Settings::default()), |table| iscsi::read(&reader, table))?;
        let addresses = |key: &str, written: &Option<Vec<_>>| written.as_ref().map(|all| reader.addresses(key, all)).transpose();
        let (listen, portmap) = (addresses("listen", &filer.listen)?, addresses("portmap", &filer.portmap)?);
        let metrics = filer.metrics.as_ref().map(|address| reader.address("metrics", address)).transpose()?;
        let default_listen = || vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), NFS_PORT)];
        Ok(Self {
            file: file.to_path_buf(),
            listen: listen.unwrap_or_else(default_listen),
            portmap: portmap.unwrap_or_default(),
            metrics,
            admin: admin.unwrap_or_else(|| state.join("admin.sock")),
            state,
            tls: reader.tls,
            iscsi,
            volumes,
        })
    }
}

/// The read and write bits of users who neither own the file nor are in its group.
const OTHERS: u32 = 0o006;

/// Reads a file. Returns its text and its mode.
fn read_with_mode(file: &Path) -> std::io::Result<(String, u32)> {
    let mut opened = File::open(file)?;
    let (mode, mut text) = (opened.metadata()?.mode(), String::new());
    opened.read_to_string(&mut text)?;
    Ok((text, mode))
}

/// Converts the tables of the file to settings.
struct Reader<'r> {
    text: &'r str,
    file: &'r Path,
    resolve: Resolve<'r>,
    tls: Option<TlsFiles>,
}

impl Reader<'_> {
    /// An error at a byte offset of the text, with the key that is there.
    fn wrong(&self, at: usize, reason: String) -> ConfigError {
        let reason = match keys::key_at(self.text, at) {
            Some(key) if !reason.starts_with(key) => format!("{key}: {reason}"),
            _ => reason,
        };
        self.of_line(at, reason)
    }

    fn of_line(&self, at: usize, reason: String) -> ConfigError {
        ConfigError::Line { file: self.file.to_path_buf(), line: self.line(at), reason }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|&byte| byte == b'\n').count()
    }

    /// The address of a key.
    fn address(&self, key: &str, written: &Spanned<AddressText>) -> Result<SocketAddr, ConfigError> {
        let text = written.get_ref().as_str();
        address_or_port(text).map_err(|reason| self.wrong(written.span().start, format!("{key} {text:?}: {reason}")))
    }

    /// The addresses of a key.
    fn addresses(&self, key: &str, written: &[Spanned<AddressText>]) -> Result<Vec<SocketAddr>, ConfigError> {
        written.iter().map(|address| self.address(key, address)).collect()
    }

    fn absolute(&self, path: &Spanned<PathBuf>) -> Result<PathBuf, ConfigError> {
        if path.get_ref().is_absolute() {
            return Ok(path.get_ref().clone());
        }
        Err(self.wrong(path.span().start, format!("{} is not an absolute path: begin it with /", path.get_ref().display())))
    }

    fn tls_files(&self, table: &FilerTable) -> Result<Option<TlsFiles>, ConfigError> {
        let path = |key: &Option<Spanned<PathBuf>>| key.as_ref().map(|path| self.absolute(path)).transpose();
        let (certificate, key, client_ca) = (path(&table.tls_cert)?, path(&table.tls_key)?, path(&table.tls_client_ca)?);
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key, client_ca })),
            (None, None) if client_ca.is_none() => Ok(None),
            _ => {
                let given = [&table.tls_cert, &table.tls_key, &table.tls_client_ca].into_iter().flatten().next();
                let at = given.map_or(0, |key| key.span().start);
                Err(self.wrong(at, "TLS takes tls_cert and tls_key together, and tls_client_ca beside them".into()))
            }
        }
    }

    /// The TLS rule of a key, or `other` if the key is not set. An error if the rule needs files that `[filer]` does not
    /// name.
    fn tls_rule(&self, key: &Option<Spanned<TlsRule>>, other: TlsRule) -> Result<TlsRule, ConfigError> {
        let Some(key) = key else { return Ok(other) };
        let missing = match key.get_ref() {
            TlsRule::Required | TlsRule::Mutual if self.tls.is_none() => "tls_cert and tls_key",
            TlsRule::Mutual if self.tls.as_ref().is_some_and(|files| files.client_ca.is_none()) => "tls_client_ca",
            rule => return Ok(*rule),
        };
        Err(self.wrong(key.span().start, format!("this needs {missing} in [filer]")))
    }

    fn volume(&self, spanned: &Spanned<VolumeTable>, state: &Path) -> Result<VolumeSettings, ConfigError> {
        let table = spanned.get_ref();
        let name = table.name.get_ref().clone();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > VOLUME_NAME_BYTES_MAX || name.starts_with('.') || !name.bytes().all(plain) {
            let reason = format!("{name:?} is not a volume name: use up to {VOLUME_NAME_BYTES_MAX} letters, digits, . _ and -");
            return Err(self.wrong(table.name.span().start, reason));
        }
        let path = match &table.path {
            None => format!("/{name}"),
            Some(path) if path.get_ref().starts_with('/') && !path.get_ref().split('/').any(|part| part == "..") => {
                path.get_ref().clone()
            }
            Some(path) => {
                let reason = format!("{:?} is not an export path: begin it with /, leave out ..", path.get_ref());
                return Err(self.wrong(path.span().start, reason));
            }
        };
        if table.loss_seed.is_some() && !table.loss_layer {
            return Err(self.wrong(spanned.span().start, format!("volume {name:?}: loss_seed without loss_layer = true")));
        }
        let rights = self.rights(&table.rights(), Rights::default())?;
        let mut rules = Vec::new();
        for rule in &table.rule {
            rules.push(self.rule(&rule.clients, self.rights(&rule.rights(), rights)?)?);
        }
        rules.push(self.rule(&table.clients, rights)?);
        let state_dir = table.state.as_ref().map(|path| self.absolute(path)).transpose()?;
        let volume = volume::Config {
            dir: self.absolute(&table.dir)?,
            state_dir: state_dir.unwrap_or_else(|| state.join(&name)),
            loss: table.loss_layer.then(|| LossConfig { seed: table.loss_seed.unwrap_or(0) }),
            options: volume::Options {
                durability: self.word("durability", table.durability.as_ref())?,
                cache: self.word("cache", table.cache.as_ref())?,
                read_ahead: self.word("read_ahead", table.read_ahead.as_ref())?,
                exclusive: table.exclusive,
                boot_id: None,
            },
        };
        if volume.loss.is_some() && volume.options.durability == volume::Durability::Battery {
            let reason = format!("volume {name:?}: durability = \"battery\" loses nothing that loss_layer could take back");
            return Err(self.wrong(spanned.span().start, reason));
        }
        if table.crossmnt && table.loss_layer {
            let reason = format!("volume {name:?}: loss_layer works on one file system: remove crossmnt or loss_layer");
            return Err(self.wrong(spanned.span().start, reason));
        }
        let quota = table.quota.as_ref().map(|quota| self.quota(quota)).transpose()?;
        let medium = table.medium.as_ref().map(|medium| self.medium(medium)).transpose()?;
        let faults = table.faults.iter().map(|fault| self.fault(fault)).collect::<Result<_, _>>()?;
        let line = self.line(spanned.span().start);
        let (policy, crossmnt) = (Policy { rules }, table.crossmnt);
        Ok(VolumeSettings { name, path, policy, quota, volume, medium, faults, line, crossmnt, inside_of: None })
    }

    fn rule(&self, clients: &Spanned<Vec<Spanned<String>>>, rights: Rights) -> Result<Rule, ConfigError> {
        Ok(Rule { clients: self.clients(clients)?, rights })
    }

    fn clients(&self, clients: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<Client>, ConfigError> {
        if clients.get_ref().is_empty() {
            let reason = "clients is empty: write [\"10.0.0.0/8\", \"host.example\"], or [\"*\"] for everybody";
            return Err(self.wrong(clients.span().start, reason.into()));
        }
        let client = |written: &Spanned<String>| {
            clients::client(written.get_ref(), self.resolve).map_err(|reason| self.wrong(written.span().start, reason))
        };
        clients.get_ref().iter().map(client).collect()
    }

    /// The rights that these keys give. An unset key keeps the value of `others`.
    fn rights(&self, keys: &RightsKeys<'_>, others: Rights) -> Result<Rights, ConfigError> {
        let id = |key: &Option<Spanned<u32>>, other| match key {
            // In a SETATTR and in chown(2) this value means "do not change".
            Some(id) if *id.get_ref() == u32::MAX => Err(self.wrong(id.span().start, format!("{} is not a valid id", u32::MAX))),
            Some(id) => Ok(*id.get_ref()),
            None => Ok(other),
        };
        Ok(Rights {
            read_only: keys.access.map_or(others.read_only, |access| access == file::Access::Ro),
            squash: keys.squash.unwrap_or(others.squash),
            anonymous_uid: id(keys.anonymous_uid, others.anonymous_uid)?,
            anonymous_gid: id(keys.anonymous_gid, others.anonymous_gid)?,
            privileged_ports: keys.privileged_ports.unwrap_or(others.privileged_ports),
            tls: self.tls_rule(keys.tls, others.tls)?,
        })
    }

    /// The value of a key that takes one of a few words.
    fn word<W>(&self, key: &str, written: Option<&Spanned<String>>) -> Result<W, ConfigError>
    where
        W: std::str::FromStr<Err = volume::UnknownOption> + Default,
    {
        let Some(written) = written else { return Ok(W::default()) };
        written.get_ref().parse().map_err(|error| self.wrong(written.span().start, format!("{key}: {error}")))
    }

    fn quota(&self, written: &Spanned<String>) -> Result<u64, ConfigError> {
        let size = written.get_ref();
        match results::sizes::parse_bytes(size) {
            Ok(0) => {
                let reason = format!("quota {size:?} refuses every write: write a larger one, or remove the key");
                Err(self.wrong(written.span().start, reason))
            }
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(self.wrong(written.span().start, format!("quota: {error}, as in 500GiB or 2TiB"))),
        }
    }

    fn medium(&self, written: &Spanned<String>) -> Result<String, ConfigError> {
        match volume::medium::Profile::parse(written.get_ref()) {
            Ok(_) => Ok(written.get_ref().clone()),
            Err(error) => {
                Err(self.wrong(written.span().start, format!("medium {:?}: {error}; {}", written.get_ref(), error.hint())))
            }
        }
    }

    fn fault(&self, written: &Spanned<String>) -> Result<FaultSpec, ConfigError> {
        let wrong = |error| self.wrong(written.span().start, format!("fault {:?}: {error}", written.get_ref()));
        FaultSpec::parse(written.get_ref()).map_err(wrong)
    }

    /// Refuses two volumes with the same name, path or directory, or with directories inside each other. One file would
    /// have two sets of rules.
    fn no_twins(&self, tables: &[Spanned<VolumeTable>], volumes: &[VolumeSettings]) -> Result<(), ConfigError> {
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (table, volume) in tables.iter().zip(volumes) {
            let at = table.span().start;
            if let Some(line) = names.insert(&volume.name, volume.line) {
                return Err(self.wrong(at, format!("volume {:?} is already defined on line {line}", volume.name)));
            }
            let others = || volumes.iter().filter(|other| other.line < volume.line);
            if let Some(other) = others().find(|other| other.path.trim_end_matches('/') == volume.path.trim_end_matches('/')) {
                return Err(self.wrong(at, format!("path {:?} is already used by volume {:?}", volume.path, other.name)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
