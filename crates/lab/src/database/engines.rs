//! Finds the programs of a database.

use std::path::Path;
use std::rc::Rc;

use crate::database::engine::Engine;
use crate::database::kind::DatabaseKind;
use crate::database::mariadb::MariaDb;
use crate::database::postgres::Postgres;
use crate::error::LabError;

/// The programs of a database: in `chosen`, else in the usual places.
///
/// # Errors
/// [`LabError::Missing`] with the package, or with the programs that `chosen` lacks.
pub(crate) fn find(kind: DatabaseKind, chosen: Option<&Path>) -> Result<Rc<dyn Engine>, LabError> {
    Ok(match kind {
        DatabaseKind::Postgresql => Rc::new(Postgres::find(chosen)?),
        DatabaseKind::MariaDb => Rc::new(MariaDb::find()?),
    })
}

/// Missing packages by Debian's names; empty if the database's programs are installed, or a directory is given.
#[must_use]
pub fn missing_packages(kind: DatabaseKind, chosen: Option<&Path>) -> Vec<&'static str> {
    if chosen.is_some() || find(kind, None).is_ok() { Vec::new() } else { vec![kind.package()] }
}
