//! `millrace lun`: the LUNs of a running filer, over its admin socket.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use filer::limits::{LUN_NUMBER_MAX, LUN_PHYSICAL_BLOCK_BYTES_MAX};
use results::luns::LunStatus;
use results::sizes::{about_text, bytes_text, parse_bytes};
use serde_json::{Value, json};

use super::values::whole;
use super::volume::order;
use crate::error_printing::refusal;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    operation: Operation,
    /// The filer's admin socket; `millrace serve` prints its path [default: MILLRACE_ADMIN, else the socket of the only filer
    /// that this user runs]
    #[arg(long, value_name = "PATH", global = true)]
    admin: Option<PathBuf>,
    /// Print the filer's reply, one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Operation {
    /// Create a LUN
    Create(Create),
    /// List all LUNs: URL, size and sessions
    List,
    /// Set the size of a LUN; initiators are notified
    Resize {
        /// The LUN
        #[arg(value_name = "VOLUME/NAME")]
        lun: String,
        /// Such as 2GiB
        size: String,
        /// Allow a smaller size: data beyond it is lost
        #[arg(long)]
        shrink: bool,
    },
    /// Let initiators use a LUN, by name or group
    Map {
        /// The LUN
        #[arg(value_name = "VOLUME/NAME")]
        lun: String,
        /// Names of initiators (iqn.…) or groups of filer.toml; needed without --all
        #[arg(value_name = "INITIATOR")]
        initiators: Vec<String>,
        /// All initiators that may log in
        #[arg(long, conflicts_with = "initiators")]
        all: bool,
    },
    /// Remove initiators from a LUN
    Unmap {
        /// The LUN
        #[arg(value_name = "VOLUME/NAME")]
        lun: String,
        /// Names of initiators or groups; needed without --all
        #[arg(value_name = "INITIATOR")]
        initiators: Vec<String>,
        /// All initiators
        #[arg(long, conflicts_with = "initiators")]
        all: bool,
    },
    /// Delete a LUN and its data
    Delete {
        /// The LUN
        #[arg(value_name = "VOLUME/NAME")]
        lun: String,
        /// Delete it even if initiators are logged in; their I/O then fails
        #[arg(long)]
        force: bool,
    },
}

#[derive(clap::Args)]
struct Create {
    /// The volume, and the new LUN's name in it: letters, digits, . _ -
    #[arg(value_name = "VOLUME/NAME")]
    lun: String,
    /// Such as 100GiB: a whole number of blocks. Units are KiB, MiB, GiB and TiB, or k, M, G and T
    #[arg(long)]
    size: String,
    /// Bytes of a logical block: 512 or 4096
    #[arg(long, value_name = "BYTES", default_value_t = 512,
          value_parser = whole::<u32>("bytes", 512..=4096, 4096))]
    block_size: u32,
    /// Alignment reported to initiators, in bytes: a power of two
    #[arg(long, value_name = "BYTES", default_value_t = 4096,
          value_parser = whole("bytes", 512..=LUN_PHYSICAL_BLOCK_BYTES_MAX, 4096))]
    physical_block_size: u32,
    /// LUN number, 0 to 255 [default: the first free one]
    #[arg(long = "lun", value_name = "N", value_parser = whole("", 0..=LUN_NUMBER_MAX, 3))]
    number: Option<u16>,
    /// Allocate all its space now
    #[arg(long)]
    thick: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Give it a volatile write cache: writes are durable only after SYNCHRONIZE CACHE. The initiator must handle the loss of
    /// this cache
    #[arg(long)]
    write_cache: bool,
    /// Let only this initiator or group use it; may be given several times [default: all that may log in]
    #[arg(long, value_name = "INITIATOR")]
    initiator: Vec<String>,
    /// Map it to no initiator yet
    #[arg(long, conflicts_with = "initiator")]
    unmapped: bool,
}

const AFTER_HELP: &str = "\
Examples:
  millrace lun create vol/db --size 1GiB            (the only filer that this user runs)
  millrace lun create vol/log --size 1GiB --initiator iqn.1993-08.org.debian:01:db1
  millrace lun list
  millrace lun list --json --admin /run/filer.sock
  millrace lun resize vol/db 2GiB
  millrace lun map vol/db iqn.1993-08.org.debian:01:db1 iqn.1993-08.org.debian:01:db2
  millrace lun unmap vol/db iqn.1993-08.org.debian:01:db2
  millrace lun delete vol/log

A LUN is a part of its volume that NFS clients do not see. If the filer serves iSCSI (`serve
--iscsi`, or [iscsi] in its file, docs/filer.md), initiators reach it at the URL that `list` shows.

Exit codes: 0 done; 1 the filer refused, and nothing has changed; 2 no filer answers, several run
and --admin does not choose one, or an argument is wrong.";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (phrase, request) = args.operation.request()?;
    let Some(reply) = order(args.admin, args.json, &phrase, &request)? else { return Ok(ExitCode::from(1)) };
    if !args.json {
        args.operation.print(reply)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Operation {
    /// The phrase for its errors, and the request to the filer.
    fn request(&self) -> anyhow::Result<(String, Value)> {
        Ok(match self {
            Self::List => ("list the LUNs of the filer".into(), json!({"op": "lun-list"})),
            Self::Create(create) => create.request()?,
            Self::Resize { lun, size, shrink } => {
                let phrase = format!("resize LUN {lun}");
                let size_bytes = bytes(&phrase, size)?;
                let request = json!({"op": "lun-resize", "lun": path(&phrase, lun)?, "size_bytes": size_bytes, "shrink": shrink});
                (phrase, request)
            }
            Self::Map { lun, initiators, all } => {
                let phrase = format!("map LUN {lun}");
                require_initiators(&phrase, initiators, *all)?;
                let request = json!({"op": "lun-map", "lun": path(&phrase, lun)?, "initiators": initiators, "all": all});
                (phrase, request)
            }
            Self::Unmap { lun, initiators, all } => {
                let phrase = format!("unmap LUN {lun}");
                require_initiators(&phrase, initiators, *all)?;
                let request = json!({"op": "lun-unmap", "lun": path(&phrase, lun)?, "initiators": initiators, "all": all});
                (phrase, request)
            }
            Self::Delete { lun, force } => {
                let phrase = format!("delete LUN {lun}");
                let request = json!({"op": "lun-delete", "lun": path(&phrase, lun)?, "force": force});
                (phrase, request)
            }
        })
    }

    fn print(&self, mut reply: Value) -> anyhow::Result<()> {
        match self {
            Self::List => {
                let luns: Vec<LunStatus> = serde_json::from_value(reply["luns"].take()).context("read the LUNs")?;
                print_list(&luns);
            }
            Self::Delete { lun, .. } => println!("{lun} deleted"),
            _ => print_lun(&serde_json::from_value(reply["lun"].take()).context("read the LUN")?),
        }
        Ok(())
    }
}

impl Create {
    fn request(&self) -> anyhow::Result<(String, Value)> {
        let phrase = format!("create LUN {}", self.lun);
        let request = json!({
            "op": "lun-create",
            "lun": path(&phrase, &self.lun)?,
            "size_bytes": bytes(&phrase, &self.size)?,
            "block_bytes": self.block_size,
            "physical_block_bytes": self.physical_block_size,
            "number": self.number,
            "thick": self.thick,
            "read_only": self.read_only,
            "write_cache": self.write_cache,
            "initiators": self.initiator,
            "unmapped": self.unmapped,
        });
        Ok((phrase, request))
    }
}

/// Checks that the path of a LUN is VOLUME/NAME.
fn path<'p>(phrase: &str, lun: &'p str) -> anyhow::Result<&'p str> {
    let has_form =
        lun.split_once('/').is_some_and(|(volume, name)| !volume.is_empty() && !name.is_empty() && !name.contains('/'));
    if has_form {
        Ok(lun)
    } else {
        Err(refusal(format!("{phrase}: not VOLUME/NAME"), "as in vol/db; `millrace volume list` has the volumes"))
    }
}

/// Fails unless the user named initiators or all of them.
fn require_initiators(phrase: &str, initiators: &[String], all: bool) -> anyhow::Result<()> {
    if initiators.is_empty() && !all {
        let hint = "name one as in iqn.1993-08.org.debian:01:db1, or a group of filer.toml; --all means all initiators";
        return Err(refusal(format!("{phrase}: no initiator is named"), hint));
    }
    Ok(())
}

fn bytes(phrase: &str, size: &str) -> anyhow::Result<u64> {
    parse_bytes(size).map_err(|error| refusal(format!("{phrase}: {error}"), "as in 100GiB or 2TiB"))
}

fn print_list(luns: &[LunStatus]) {
    let names = luns.iter().map(|lun| lun.name.len()).max().unwrap_or(0).max(4);
    println!("{:names$}  {:>9}  {:>9}  {:>10}  {:>8}  URL", "LUN", "size", "used", "block size", "sessions");
    for lun in luns {
        if let Some(reason) = &lun.failed {
            println!("{:names$}  NOT SERVED: {reason}", lun.name);
            continue;
        }
        let used = lun.used_bytes.map_or_else(|| "?".to_owned(), about_text);
        let url = lun.url.as_deref().unwrap_or("(iSCSI is not served: start the filer with --iscsi)");
        let (size, sessions) = (bytes_text(lun.size_bytes), lun.sessions.len());
        println!("{:names$}  {size:>9}  {used:>9}  {:>10}  {sessions:>8}  {url}", lun.name, lun.block_bytes);
        for session in &lun.sessions {
            println!(
                "{:names$}  logged in: {} at {}, portal group {}",
                "", session.initiator, session.address, session.portal_group_tag
            );
        }
    }
}

fn print_lun(lun: &LunStatus) {
    let kind = |is: bool, yes, no| if is { yes } else { no };
    println!("{}: {} in blocks of {} bytes", lun.name, bytes_text(lun.size_bytes), lun.block_bytes);
    println!(
        "{}, {}, write cache {}",
        kind(lun.thin, "thin", "thick"),
        kind(lun.read_only, "read-only", "read and write"),
        kind(lun.write_cache, "on", "off")
    );
    println!("serial {}, NAA {}", lun.serial, lun.naa);
    let initiators = if lun.initiators.is_empty() { "nobody".to_owned() } else { lun.initiators.join(", ") };
    println!("mapped to {}", if initiators == "*" { "every initiator that may log in" } else { &initiators });
    match &lun.url {
        Some(url) => println!("{url}"),
        None => println!("iSCSI is not served: start the filer with --iscsi"),
    }
}
