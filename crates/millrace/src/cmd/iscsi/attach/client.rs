//! Chooses the initiator that attaches LUNs.

use crate::error_printing::refusal;
use initiator::IscsiUrl;
use initiator::kernel::{self, KernelError};

/// What `--client` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Asked {
    Auto,
    OpenIscsi,
    Millrace,
}

/// An initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    OpenIscsi,
    Millrace,
}

/// An initiator and the reason for choosing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) client: Client,
    pub(super) reason: String,
}

/// A reason that prevents the use of open-iscsi, and its fix.
struct Obstacle {
    what: String,
    fix: String,
}

impl Choice {
    pub(super) fn millrace(reason: String) -> Self {
        Self { client: Client::Millrace, reason }
    }

    /// The line that names the client on stderr.
    pub(super) fn line(&self) -> String {
        let client = match self.client {
            Client::OpenIscsi => "open-iscsi",
            Client::Millrace => "millrace, its own initiator",
        };
        format!("client: {client}: {}", self.reason)
    }
}

/// Chooses the client of all LUNs of one command.
pub(super) fn choose(asked: Asked, initiator: Option<&str>, urls: &[IscsiUrl]) -> anyhow::Result<Choice> {
    let portals = urls.iter().map(|url| url.portals.len()).max().unwrap_or(1);
    decide(asked, portals, || obstacle(initiator, portals))
}

fn decide(asked: Asked, portals: usize, obstacle: impl FnOnce() -> Option<Obstacle>) -> anyhow::Result<Choice> {
    if asked == Asked::Millrace {
        return Ok(Choice::millrace("as --client asks".to_owned()));
    }
    match (asked, obstacle()) {
        (Asked::Auto, Some(Obstacle { what, fix })) => Ok(Choice::millrace(format!("{what}; {fix}"))),
        (_, Some(Obstacle { what, fix })) => Err(refusal(format!("use open-iscsi: {what}"), fix)),
        (Asked::Auto, None) => {
            let daemons = if portals > 1 { "iscsi_tcp, iscsid and multipathd" } else { "iscsi_tcp and iscsid" };
            Ok(Choice { client: Client::OpenIscsi, reason: format!("this host has {daemons}") })
        }
        (_, None) => Ok(Choice { client: Client::OpenIscsi, reason: "as --client asks".to_owned() }),
    }
}

fn obstacle(initiator: Option<&str>, portals: usize) -> Option<Obstacle> {
    let host = initiator::default_name();
    let other_name = initiator.filter(|name| *name != host.as_str()).map(|name| Obstacle {
        what: format!("open-iscsi logs in as {host}, and not as {name}"),
        fix: "leave out --initiator, or write that name to /etc/iscsi/initiatorname.iscsi and restart iscsid".to_owned(),
    });
    other_name.or_else(|| kernel::why_not(portals).map(|lack| Obstacle { what: lack.what(), fix: lack.fix() }))
}

/// The client to use after open-iscsi failed. `None` if the user chose a client, and if the other
/// client would fail too: because of the target, of what is on the LUN, or of how the LUN is used.
pub(super) fn instead(asked: Asked, error: &anyhow::Error) -> Option<Choice> {
    let of_open_iscsi = error.downcast_ref::<KernelError>().filter(|_| asked == Asked::Auto)?;
    let hint = of_open_iscsi.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(Choice::millrace(format!("{of_open_iscsi}{hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};

    fn lack() -> Option<Obstacle> {
        Some(Obstacle { what: "iscsid does not run".into(), fix: "systemctl start iscsid".into() })
    }

    #[test]
    fn auto_takes_open_iscsi_where_nothing_is_in_the_way_and_says_what_it_has() {
        let choice = |portals| decide(Asked::Auto, portals, || None).unwrap();
        assert_eq!(choice(2).line(), "client: open-iscsi: this host has iscsi_tcp, iscsid and multipathd");
        assert_eq!(choice(1).line(), "client: open-iscsi: this host has iscsi_tcp and iscsid");
    }

    #[test]
    fn auto_takes_its_own_client_with_what_is_missing_and_the_command_that_helps() {
        let choice = decide(Asked::Auto, 2, lack).unwrap();
        assert_eq!(choice.line(), "client: millrace, its own initiator: iscsid does not run; systemctl start iscsid");
    }

    #[test]
    fn a_client_that_is_asked_for_is_used_or_refused_and_the_other_does_not_stand_in() {
        let error = decide(Asked::OpenIscsi, 2, lack).unwrap_err();
        assert_eq!(error.to_string(), "use open-iscsi: iscsid does not run");
        assert_eq!(decide(Asked::OpenIscsi, 2, || None).unwrap().client, Client::OpenIscsi);
        let own = decide(Asked::Millrace, 2, || unreachable!("nobody asks what open-iscsi needs")).unwrap();
        assert_eq!((own.client, own.reason.as_str()), (Client::Millrace, "as --client asks"));
    }

    #[test]
    fn another_name_than_the_hosts_is_in_the_way_of_open_iscsi() {
        let other = obstacle(Some("iqn.2026-11.org.example:other"), 1).unwrap();
        assert!(other.what.ends_with("and not as iqn.2026-11.org.example:other"), "{}", other.what);
    }

    #[test]
    fn what_open_iscsi_alone_fails_at_is_tried_by_the_own_client_and_what_the_target_refuses_is_not() {
        let others = || KernelError::OthersSession { target: "iqn.a".into(), number: 3 };
        let failed = anyhow!(others()).context("attach iscsi://h/iqn.a/0").context("attach 2 LUNs");
        let choice = instead(Asked::Auto, &failed).unwrap();
        assert!(choice.reason.contains("session 3 with iqn.a") && choice.reason.ends_with("iscsiadm -m session -r 3 --logout"));
        assert_eq!(instead(Asked::OpenIscsi, &failed), None);
        let refused = anyhow!(initiator::Error::NoLun { url: "iscsi://h".into() }).context("attach iscsi://h");
        assert_eq!(instead(Asked::Auto, &refused), None);
        let taken: anyhow::Result<()> = Err(anyhow!("the LUN has xfs"));
        assert_eq!(instead(Asked::Auto, &taken.context("attach it").unwrap_err()), None);
    }
}
