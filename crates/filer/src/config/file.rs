//! The tables and keys of the configuration file, as written.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::addresses::AddressText;
use crate::nfs::policy::{Squash, TlsRule};

/// The complete file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) filer: Option<FilerTable>,
    pub(super) iscsi: Option<IscsiTable>,
    #[serde(default)]
    pub(super) volume: Vec<Spanned<VolumeTable>>,
}

/// `[filer]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilerTable {
    pub(super) listen: Option<Vec<Spanned<AddressText>>>,
    pub(super) portmap: Option<Vec<Spanned<AddressText>>>,
    pub(super) state: Option<Spanned<PathBuf>>,
    pub(super) admin: Option<Spanned<PathBuf>>,
    pub(super) tls_cert: Option<Spanned<PathBuf>>,
    pub(super) tls_key: Option<Spanned<PathBuf>>,
    pub(super) tls_client_ca: Option<Spanned<PathBuf>>,
    pub(super) metrics: Option<Spanned<AddressText>>,
}

/// `[iscsi]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IscsiTable {
    pub(super) listen: Option<Spanned<Vec<Spanned<AddressText>>>>,
    pub(super) iqn: Option<Spanned<String>>,
    pub(super) clients: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) portal: Vec<Spanned<PortalTable>>,
    #[serde(default)]
    pub(super) user: Vec<UserTable>,
    pub(super) own: Option<OwnTable>,
    #[serde(default)]
    pub(super) group: Vec<GroupTable>,
}

/// `[[iscsi.portal]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortalTable {
    pub(super) address: Spanned<AddressText>,
    pub(super) tag: u16,
}

/// `[[iscsi.user]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserTable {
    pub(super) name: Spanned<String>,
    pub(super) secret: String,
    #[serde(default)]
    pub(super) initiators: Vec<Spanned<String>>,
}

/// `[iscsi.own]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnTable {
    pub(super) name: Spanned<String>,
    pub(super) secret: String,
}

/// `[[iscsi.group]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    pub(super) name: Spanned<String>,
    pub(super) initiators: Vec<Spanned<String>>,
}

/// `[[volume]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeTable {
    pub(super) name: Spanned<String>,
    pub(super) path: Option<Spanned<String>>,
    pub(super) dir: Spanned<PathBuf>,
    pub(super) state: Option<Spanned<PathBuf>>,
    pub(super) clients: Spanned<Vec<Spanned<String>>>,
    access: Option<Access>,
    squash: Option<Squash>,
    anonymous_uid: Option<Spanned<u32>>,
    anonymous_gid: Option<Spanned<u32>>,
    privileged_ports: Option<bool>,
    tls: Option<Spanned<TlsRule>>,
    #[serde(default)]
    pub(super) rule: Vec<RuleTable>,
    pub(super) quota: Option<Spanned<String>>,
    pub(super) medium: Option<Spanned<String>>,
    pub(super) durability: Option<Spanned<String>>,
    pub(super) cache: Option<Spanned<String>>,
    pub(super) read_ahead: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) exclusive: bool,
    #[serde(default)]
    pub(super) crossmnt: bool,
    #[serde(default)]
    pub(super) faults: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) loss_layer: bool,
    pub(super) loss_seed: Option<u64>,
}

/// `[[volume.rule]]`: rights for some clients.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleTable {
    pub(super) clients: Spanned<Vec<Spanned<String>>>,
    access: Option<Access>,
    squash: Option<Squash>,
    anonymous_uid: Option<Spanned<u32>>,
    anonymous_gid: Option<Spanned<u32>>,
    privileged_ports: Option<bool>,
    tls: Option<Spanned<TlsRule>>,
}

/// What clients may do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Access {
    Ro,
    Rw,
}

/// The keys that a volume and a rule share.
pub(super) struct RightsKeys<'k> {
    pub(super) access: Option<Access>,
    pub(super) squash: Option<Squash>,
    pub(super) anonymous_uid: &'k Option<Spanned<u32>>,
    pub(super) anonymous_gid: &'k Option<Spanned<u32>>,
    pub(super) privileged_ports: Option<bool>,
    pub(super) tls: &'k Option<Spanned<TlsRule>>,
}

macro_rules! rights_keys {
    ($table:ty) => {
        impl $table {
            pub(super) const fn rights(&self) -> RightsKeys<'_> {
                RightsKeys {
                    access: self.access,
                    squash: self.squash,
                    anonymous_uid: &self.anonymous_uid,
                    anonymous_gid: &self.anonymous_gid,
                    privileged_ports: self.privileged_ports,
                    tls: &self.tls,
                }
            }
        }
    };
}

// serde cannot refuse unknown keys of a table that is flattened into another.
rights_keys!(VolumeTable);
rights_keys!(RuleTable);
