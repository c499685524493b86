//! MariaDB as a database of comparisons: its names, settings, wait events and advice.

use std::path::Path;
use std::rc::Rc;

use results::compare::SessionState;

use super::MariaDb;
use super::programs::PACKAGE;
use crate::database::engine::Engine;
use crate::database::system::{Advice, System};
use crate::error::LabError;
use crate::plan::{Knob, Knobs};

/// MariaDB, on InnoDB.
pub(crate) struct MariaDbSystem;

impl System for MariaDbSystem {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn title(&self) -> &'static str {
        "MariaDB"
    }

    fn user_name(&self) -> &'static str {
        "mysql"
    }

    fn package(&self) -> &'static str {
        PACKAGE
    }

    fn find(&self, _chosen: Option<&Path>) -> Result<Rc<dyn Engine>, LabError> {
        Ok(Rc::new(MariaDb::find()?))
    }

    fn tuned_settings(&self) -> Knobs {
        [
            // With this size, sessions rarely have to write the log because its buffer is full.
            ("innodb_log_buffer_size", Knob::Text("64M".to_owned())),
            // Changed pages are written in advance, outside the sessions: the default of 200 per second is that of a few disks
            // (rules mysql-io-capacity-on-flash, mysql-io-capacity-max-above).
            ("innodb_io_capacity", Knob::Number(2000)),
            ("innodb_io_capacity_max", Knob::Number(4000)),
            // Pages beside a changed one are not written with it: that would save seeks on disks, but costs writes elsewhere.
            ("innodb_flush_neighbors", Knob::Number(0)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn is_past_page_cache(&self, settings: &Knobs) -> bool {
        let of = |name: &str| settings.get(name).map(|value| value.to_string().to_ascii_lowercase()).unwrap_or_default();
        of("innodb_flush_method").starts_with("o_direct") || of("innodb_data_file_buffering") == "off"
    }

    /// Calls on InnoDB's files with their operation, and states.
    fn activity(&self, event: &str) -> Option<SessionState> {
        Some(match event {
            "innodb_data_file:read" => SessionState::BlockReads,
            "commit" => SessionState::Log,
            "row lock" | "table lock" => SessionState::Locks,
            "client" => SessionState::Client,
            _ if event.starts_with("innodb_data_file:") => SessionState::DataWrites,
            _ => return None,
        })
    }

    fn advice(&self) -> Advice {
        Advice {
            log_flush: "put the log on a volume of its own (layout split) or on a medium with non-volatile write memory",
            data_writes: "let the page cleaner do it: innodb_io_capacity and innodb_log_file_size up",
        }
    }
}
