//! Settings of the iSCSI initiator in a tuning: `[tuning.NAME.iscsi]`.

use std::fmt;

use crate::error::LabError;
use crate::plan::{Knob, Knobs};

/// Name of the path, and of the layer of its settings.
pub(super) const NAME: &str = "iscsi";
/// Setting: commands in flight on one path.
const DEPTH: &str = "depth";
/// Setting: the initiator.
const CLIENT: &str = "client";
/// Setting: portals of the filer, one path each.
const PORTALS: &str = "portals";
/// Default for the commands in flight: that of open-iscsi (node.session.queue_depth).
const UNTUNED_DEPTH: u32 = 32;
/// Most commands of a session. Source: open-iscsi, `QUEUE_DEPTH_MAX` in usr/config.h and README: 1 to 1024.
const DEPTH_MAX: u32 = 1024;
/// Most portals: each is a session, and with open-iscsi a disk of this host.
const PORTALS_MAX: u32 = 4;

/// An initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IscsiClient {
    /// The kernel's, by open-iscsi.
    OpenIscsi,
    /// Millrace's, as a block device by FUSE and a loop device.
    Millrace,
}

impl IscsiClient {
    /// Its name in plans and records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenIscsi => "open-iscsi",
            Self::Millrace => "millrace",
        }
    }

    /// The initiator with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::OpenIscsi, Self::Millrace].into_iter().find(|client| client.name() == name)
    }

    /// Default number of portals: dm-multipath needs at least two paths.
    fn portals(self) -> u32 {
        match self {
            Self::OpenIscsi => 2,
            Self::Millrace => 1,
        }
    }
}

impl fmt::Display for IscsiClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Recommended settings: the depth of a loop device.
pub(super) fn tuned() -> Knobs {
    Knobs::from([(DEPTH.to_owned(), Knob::Number(128))])
}

/// Settings of an initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IscsiSettings {
    /// The requested initiator; `None` for the kernel's if it can be used, else Millrace's.
    pub(crate) client: Option<IscsiClient>,
    portals: Option<u32>,
    /// Commands in flight on one path.
    pub(crate) depth: u32,
    /// Further options of `millrace iscsi attach`.
    further: Vec<String>,
}

impl IscsiSettings {
    /// Parses the settings of a tuning; `tuning` names it in errors.
    ///
    /// # Errors
    /// A value out of range, an unknown client, or options that the requested client does not have.
    pub(crate) fn parse(knobs: &Knobs, tuning: &str) -> Result<Self, LabError> {
        let mut further = Knobs::new();
        let mut settings = Self { client: None, portals: None, depth: UNTUNED_DEPTH, further: Vec::new() };
        let refused =
            |name: &str, value: &Knob, hint: &str| LabError::plan(format!("use {name} = {value} in tuning.{tuning}.iscsi"), hint);
        for (name, value) in knobs {
            let within = |most: u32| match value {
                Knob::Number(number) => u32::try_from(*number).ok().filter(|number| (1..=most).contains(number)),
                _ => None,
            };
            let number =
                |most: u32| within(most).ok_or_else(|| refused(name, value, &format!("{name} is a number from 1 to {most}")));
            match name.as_str() {
                CLIENT => {
                    let found = IscsiClient::named(&value.to_string());
                    settings.client = Some(found.ok_or_else(|| refused(name, value, "clients are open-iscsi and millrace"))?);
                }
                PORTALS => settings.portals = Some(number(PORTALS_MAX)?),
                DEPTH => settings.depth = number(DEPTH_MAX)?,
                _ if settings.client == Some(IscsiClient::OpenIscsi) => {
                    return Err(refused(name, value, "knobs of open-iscsi are depth and portals"));
                }
                _ => drop(further.insert(name.clone(), value.clone())),
            }
        }
        settings.further = Knob::arguments(&further);
        Ok(settings)
    }

    /// Number of portals for a client, one path each.
    pub(crate) fn portals_of(&self, client: IscsiClient) -> u32 {
        self.portals.unwrap_or_else(|| client.portals())
    }

    /// An option that only `millrace iscsi attach` supports.
    pub(crate) fn only_ours(&self) -> Option<&str> {
        self.further.first().map(String::as_str)
    }

    /// The options of `millrace iscsi attach`.
    pub(crate) fn attach_options(&self) -> Vec<String> {
        [format!("--{DEPTH}"), self.depth.to_string()].into_iter().chain(self.further.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<IscsiSettings, LabError> {
        IscsiSettings::parse(&toml::from_str(text).unwrap(), "x")
    }

    #[test]
    fn without_knobs_the_depth_is_that_of_open_iscsi_and_multipath_has_two_paths() {
        let none = parsed("").unwrap();
        assert_eq!((none.client, none.depth, none.only_ours()), (None, 32, None));
        assert_eq!([IscsiClient::OpenIscsi, IscsiClient::Millrace].map(|client| none.portals_of(client)), [2, 1]);
        assert_eq!(none.attach_options(), ["--depth", "32"]);
    }

    #[test]
    fn knobs_choose_the_client_and_what_is_not_of_the_lab_goes_to_ours() {
        let ours = parsed("client = \"millrace\"\ndepth = 64\nportals = 3\ninitiator = \"iqn.x\"").unwrap();
        assert_eq!((ours.client, ours.portals_of(IscsiClient::Millrace)), (Some(IscsiClient::Millrace), 3));
        assert_eq!(ours.attach_options(), ["--depth", "64", "--initiator", "iqn.x"]);
        assert_eq!(ours.only_ours(), Some("--initiator"));
        assert_eq!(parsed("client = \"open-iscsi\"\ndepth = 256").unwrap().depth, 256);
    }

    #[test]
    fn what_is_out_of_range_or_not_of_the_client_is_refused_by_name() {
        for (text, word) in [
            ("client = \"libiscsi\"", "open-iscsi and millrace"),
            ("depth = 0", "from 1 to 1024"),
            ("depth = \"32\"", "from 1 to 1024"),
            ("portals = 5", "from 1 to 4"),
            ("client = \"open-iscsi\"\ninitiator = \"iqn.x\"", "depth and portals"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.hint().unwrap().contains(word), "{text}: {error}: {:?}", error.hint());
            assert!(error.to_string().contains("tuning.x.iscsi"), "{error}");
        }
    }
}
