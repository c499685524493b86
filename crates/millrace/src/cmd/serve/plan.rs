//! What a filer serves, from the arguments or from a configuration file.

use std::hash::Hasher;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use filer::Export;
use filer::config::Settings;
use filer::exports::Exports;
use filer::iscsi::Portal;
use filer::policy::{Policy, Rights, Squash};
use filer::setup::Setup;
use rpc_tls::ServerTls;
use volume::faults::FaultSpec;
use volume::medium::{Medium, Profile};
use volume::{LossConfig, OpenError, Volume};

use super::arguments::Args;
use crate::error_printing::{hinted, refusal};

/// The export path of the directory that is served without a configuration file.
const EXPORT: &str = "/vol";

/// What a filer needs to start.
pub(super) struct Plan {
    pub(super) exports: Exports,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) portmap: Vec<SocketAddr>,
    pub(super) admin: PathBuf,
    /// Certificates of the TLS handshake; `None` without TLS.
    pub(super) tls: Option<ServerTls>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) iscsi: filer::iscsi::Settings,
    /// The configuration file, if there is one.
    pub(super) setup: Option<Setup>,
}

/// The plan for one directory, which every client that reaches the port may use.
pub(super) fn from_arguments(args: &Args, uid: u32) -> anyhow::Result<Plan> {
    let Some(dir) = &args.dir else {
        let hint = "millrace serve DIR serves one directory, millrace serve --config FILE the volumes of a file";
        return Err(refusal("serve: neither a directory nor a configuration is named", hint));
    };
    let dir = directory(dir)?;
    let medium = args.medium.as_deref().map(medium).transpose()?;
    let (tls_rule, tls) = args.tls.load()?;
    let state_dir = match &args.state {
        Some(state) => state.clone(),
        None => state_base(uid)?.join(state_name(&dir)),
    };
    let loss = args.loss_layer.then_some(LossConfig { seed: args.loss_seed });
    let Args { durability, cache, read_ahead, exclusive, boot_id, .. } = *args;
    let options = volume::Options { durability, cache, read_ahead, exclusive, boot_id };
    let config = volume::Config { dir: dir.clone(), state_dir: state_dir.clone(), loss, options };
    let volume = Volume::open(config).map_err(|error| cannot_open(&dir, error))?;
    let export = Export::new(EXPORT.trim_start_matches('/'), EXPORT, volume);
    let faults = args.fault.iter().try_for_each(|text| set_fault(&export, text));
    faults.inspect_err(|_| export.volume().discard_new_state())?;
    let export = match medium {
        Some(medium) => export.on_medium(medium),
        None => export,
    };
    let squash = if args.no_root_squash { Squash::None } else { Squash::Root };
    let policy = Policy::open(Rights { squash, tls: tls_rule, ..Rights::default() });
    Ok(Plan {
        exports: Exports::one(export, policy),
        listen: args.listen.clone(),
        portmap: Vec::new(),
        admin: args.admin.clone().unwrap_or_else(|| state_dir.join("admin.sock")),
        tls,
        metrics: args.metrics,
        iscsi: filer::iscsi::Settings { portals: Portal::each(&args.iscsi), ..filer::iscsi::Settings::default() },
        setup: None,
    })
}

/// The plan of a configuration file.
pub(super) fn from_file(file: &Path, uid: u32) -> anyhow::Result<Plan> {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let state = state_base(uid)?;
    let opened = Settings::read(&file, &state).and_then(|settings| Setup::open(settings, state));
    let (setup, exports) = opened?;
    let settings = setup.settings();
    let (listen, portmap, admin) = (settings.listen.clone(), settings.portmap.clone(), settings.admin.clone());
    let (metrics, iscsi) = (settings.metrics, settings.iscsi.clone());
    Ok(Plan { exports, listen, portmap, admin, metrics, iscsi, tls: setup.tls(), setup: Some(setup) })
}

fn set_fault(export: &Export, text: &str) -> anyhow::Result<()> {
    let hint = "as in eio,on=write,path=base/5/1259,rate=0.01,seed=7; more in `millrace help volume fault`";
    let set = FaultSpec::parse(text).map_err(|error| error.to_string()).and_then(|fault| export.set_fault(fault));
    set.map(drop).map_err(|error| refusal(format!("set --fault {text}: {error}"), hint))
}

/// Parses a medium.
fn medium(text: &str) -> anyhow::Result<Medium> {
    let profile = Profile::parse(text).map_err(|error| {
        let hint = error.hint();
        hinted(anyhow!(error).context(format!("use --medium {text}")), hint)
    })?;
    Ok(Medium::new(profile))
}

/// Checks the served directory, and resolves its path.
fn directory(dir: &Path) -> anyhow::Result<PathBuf> {
    let shown = dir.display();
    let path = dir.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => refusal(format!("serve {shown}: no such directory"), format!("mkdir -p {shown}")),
        ErrorKind::PermissionDenied => {
            refusal(format!("serve {shown}: permission denied"), "run as a user who may enter it, or as root")
        }
        _ => anyhow!(error).context(format!("serve {shown}")),
    })?;
    if !path.is_dir() {
        return Err(refusal(format!("serve {shown}: not a directory"), "name the directory the file is in"));
    }
    Ok(path)
}

/// The directory with the state of all filers of this user: /var/lib/millrace for root, else
/// $XDG_STATE_HOME/millrace, by default ~/.local/state/millrace.
fn state_base(uid: u32) -> anyhow::Result<PathBuf> {
    if uid == 0 {
        return Ok("/var/lib/millrace".into());
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let missing = || refusal("choose a state directory: neither XDG_STATE_HOME nor HOME is set", "name one with --state DIR");
    Ok(base.ok_or_else(missing)?.join("millrace"))
}

/// The name of a state directory: the name of the served directory, and a hash of its complete path.
fn state_name(dir: &Path) -> String {
    // FNV-1a: the name must be the same in every later version.
    let mut hash = fnv::FnvHasher::default();
    hash.write(dir.as_os_str().as_encoded_bytes());
    let hash = hash.finish();
    let name = dir.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    format!("{name}-{hash:016x}")
}

fn cannot_open(dir: &Path, error: OpenError) -> anyhow::Error {
    let hint = error.hint().unwrap_or_default();
    let error = anyhow!(error).context(format!("serve {}", dir.display()));
    hinted(error, hint)
}
