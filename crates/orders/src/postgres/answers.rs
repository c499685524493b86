//! Reads values of a transaction's result.

use tokio_postgres::Row;

use crate::database::Failure;
use crate::error::OrdersError;

/// Column `column` of a row in the result of `what`.
pub(super) fn read<'row, T: tokio_postgres::types::FromSql<'row>>(
    what: &'static str,
    row: &'row Row,
    column: usize,
) -> Result<T, Failure> {
    row.try_get(column).map_err(|source| Failure::Error(OrdersError::Sql { what: what.to_owned(), source }))
}

/// The error for a result of `what` that the schema does not allow.
pub(super) fn unexpected(what: &'static str, detail: String) -> Failure {
    Failure::Error(OrdersError::Answer { what, detail })
}
