//! Path `dnfs`: Direct NFS, the client inside the database's processes. Without a target, Millrace's filer serves directories of
//! the work directory; a target is an existing export.

mod placement;
mod settings;
mod storage;

use crate::error::LabError;
use crate::paths::exec;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, Reported, StoragePath, WhyNot, refused};
use crate::placement::directories::Directories;
use crate::placement::export::ExportDirectory;
use crate::placement::target::{TargetFacts, export_facts};
use crate::plan::Knobs;
use crate::sys::User;
use placement::{Export, Served};
use settings::NAME;

/// Direct NFS.
pub(crate) struct Dnfs;

impl StoragePath for Dnfs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Direct NFS"
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        if exec::preload_library(asked.program).is_none() {
            let place = asked.program.parent().unwrap_or(std::path::Path::new("/")).display();
            let library = exec::PRELOAD_LIBRARY;
            return Some(WhyNot::Lacks(format!("{library} is not beside {place}/millrace; build it (cargo build -p preload)")));
        }
        let twice = asked.medium && asked.target.is_some();
        twice.then_some(WhyNot::NotBuilt("not built yet: a modelled medium below an export that has its own"))
    }

    fn has_settings(&self) -> bool {
        true
    }

    /// The client's defaults are tuned already.
    fn check_settings(&self, settings: &Knobs, tuning: &str) -> Result<(), LabError> {
        settings::check(settings, tuning)
    }

    fn site_facts(&self) -> &'static [&'static str] {
        &["site.direct_nfs"]
    }

    fn slots_setting(&self) -> Option<&'static str> {
        Some("slots")
    }

    fn is_target(&self, text: &str) -> bool {
        text.starts_with("nfs://")
    }

    fn counted_as_database(&self) -> Option<&'static str> {
        Some("The Direct NFS client runs inside the database's processes and is part of the database.")
    }

    /// Orders of Direct NFS over those of kernel NFS: 60,924 and 48,210 OETs. Source: TR-3700 section 3.2, figure 9, and 3.3.
    fn reported_against(&self) -> Option<Reported> {
        Some(Reported { against: "knfs", orders_ratio: "1.264", source: "TR-3700, figure 9" })
    }

    fn more_in_flight(&self) -> Option<&'static str> {
        Some("the mount option slots=N")
    }

    fn more_connections(&self) -> Option<&'static str> {
        Some("channels=N")
    }

    fn layers(&self) -> Layers {
        Layers {
            file_system: None,
            client: "Direct NFS, in the database",
            network: Some("TCP, NFS version 3"),
            server: Some("NFS filer"),
        }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if !target.starts_with("nfs://") {
            return Err(refused(self.name(), target, "the URL of an export", "nfs://filer/vol"));
        }
        target.parse::<dnfs::NfsUrl>().map(|_| ()).map_err(|error| {
            let hint = error.hint().unwrap_or_else(|| "nfs://HOST/EXPORT".to_owned());
            LabError::plan(format!("use {}: {error}", dnfs::url::without_user(target)), &hint)
        })
    }

    fn examine_target(&self, target: &str, user: &User, _overwrite: bool) -> Result<TargetFacts, LabError> {
        export_facts(target, user)
    }

    fn files_lie(&self, named: bool) -> &'static str {
        if named { "directories of one export" } else { "exports of Millrace's own filers on this host, one for each volume" }
    }

    fn page_cache(&self, named: bool) -> PageCache {
        let because = if named {
            "the client keeps no data; what the server has in its memory belongs to the storage measured"
        } else {
            "the client keeps no data; reads may be served from the page cache of the filer's host, which is this host"
        };
        PageCache { may_answer: !named, on_client: false, above_medium: false, filled: !named, because }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        match order.target {
            Some(url) => {
                let (directory, removed) = ExportDirectory::make(url, order.parts, order.user)?;
                Ok((Box::new(Export { directory }), removed))
            }
            None => {
                let directories = Directories::within(order.work, "export", order.parts, order.user)?;
                Ok((Box::new(Served { directories }), Vec::new()))
            }
        }
    }
}
