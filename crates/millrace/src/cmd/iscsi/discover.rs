//! `discover`: SendTargets.

use anyhow::Context as _;
use serde::Serialize;

#[derive(clap::Args)]
pub(super) struct Discover {
    /// URL of a portal: iscsi://HOST or iscsi://HOST:PORT
    url: String,
    /// Name of this initiator; the target lists what this name may see [default: the host's]
    #[arg(long, value_name = "IQN")]
    initiator: Option<String>,
    /// Print one JSON array on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Target<'a> {
    target: &'a str,
    portals: Vec<Portal<'a>>,
}

#[derive(Serialize)]
struct Portal<'a> {
    address: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    portal_group: Option<u16>,
}

pub(super) fn run(args: &Discover) -> anyhow::Result<()> {
    let (url, options) = super::url_and_options(&args.url, args.initiator.as_deref())?;
    let found = initiator::discover(&url, &options).with_context(|| format!("discover the targets of {}", url.portals_text()))?;
    let targets: Vec<Target<'_>> = found
        .iter()
        .map(|one| Target { target: &one.target, portals: one.addresses.iter().map(|address| portal(address)).collect() })
        .collect();
    if args.json {
        println!("{}", serde_json::to_string(&targets)?);
        return Ok(());
    }
    if targets.is_empty() {
        eprintln!(
            "the portal lists no target for {}: no LUN exists, or no LUN is mapped to this initiator (millrace lun map)",
            options.name
        );
    }
    for target in &targets {
        println!("{}", target.target);
        for Portal { address, portal_group } in &target.portals {
            match portal_group {
                Some(group) => println!("  {address}  portal group {group}"),
                None => println!("  {address}"),
            }
        }
    }
    Ok(())
}

/// `HOST:PORT,GROUP` (RFC 7143 13.8).
fn portal(address: &str) -> Portal<'_> {
    match address.rsplit_once(',').map(|(address, group)| (address, group.parse().ok())) {
        Some((address, portal_group @ Some(_))) => Portal { address, portal_group },
        _ => Portal { address, portal_group: None },
    }
}
