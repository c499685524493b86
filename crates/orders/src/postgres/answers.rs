//! Values of the answer to a transaction's statement.

use tokio_postgres::Row;

use crate::database::Failure;
use crate::error::OrdersError;

/// Column `column` of a row of the answer to `what`.
pub(super) fn read<'row, T: tokio_postgres::types::FromSql<'row>>(
    what: &'static str,
    row: &'row Row,
    column: usize,
) -> Result<T, Failure> {
    row.try_get(column).map_err(|source| Failure::Error(OrdersError::Sql { what: what.to_owned(), source }))
}

/// The answer to `what` is not one that the schema can give.
pub(super) fn unexpected(what: &'static str, detail: String) -> Failure {
    Failure::Error(OrdersError::Answer { what, detail })
}
