//! The lines of an order in the request of a New-Order and in its response.

use tokio_postgres::Row;

use super::answers::{read, unexpected};
use super::arrays::{Count, Numbers, Sum};
use crate::database::Failure;
use crate::inputs::LineInput;

/// Lines as arrays for a statement.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) numbers: Numbers,
    pub(super) items: Numbers,
    pub(super) supplies: Numbers,
    pub(super) quantities: Numbers,
}

impl Lines {
    fn with_capacity(lines: usize) -> Self {
        let empty = || Numbers(Vec::with_capacity(lines));
        Self { numbers: empty(), items: empty(), supplies: empty(), quantities: empty() }
    }

    /// Appends `more` to these lines.
    pub(super) fn then(mut self, more: Self) -> Self {
        self.numbers.0.extend(more.numbers.0);
        self.items.0.extend(more.items.0);
        self.supplies.0.extend(more.supplies.0);
        self.quantities.0.extend(more.quantities.0);
        self
    }
}

/// Splits sorted lines into rounds in which no (warehouse, item) occurs twice, because a set-based UPDATE
/// changes each row once. Nearly every order has one round.
pub(super) fn rounds(lines: &[LineInput]) -> Vec<Lines> {
    let mut rounds = vec![Lines::with_capacity(lines.len())];
    let mut round = 0;
    let mut before: Option<&LineInput> = None;
    for line in lines {
        let again = before.is_some_and(|before| (before.supply_warehouse, before.item) == (line.supply_warehouse, line.item));
        round = if again { round + 1 } else { 0 };
        if round == rounds.len() {
            rounds.push(Lines::default());
        }
        let arrays = &mut rounds[round];
        arrays.numbers.0.push(line.number as i32);
        arrays.items.0.push(line.item as i32);
        arrays.supplies.0.push(line.supply_warehouse as i32);
        arrays.quantities.0.push(line.quantity as i32);
        before = Some(line);
    }
    rounds
}

/// The returned values of the lines of one order.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) lines: usize,
    pub(super) amount_cents: i64,
}

impl Shown {
    /// Adds the six arrays that start at `column`; NULL arrays mean that there are no lines.
    pub(super) fn add(&mut self, what: &'static str, row: &Row, column: usize) -> Result<(), Failure> {
        let (Count(names), Count(quantities)) = (read(what, row, column + 1)?, read(what, row, column + 2)?);
        let Sum { count, sum } = read(what, row, column + 5)?;
        if [names, quantities] != [count; 2] {
            return Err(unexpected(what, format!("{names} names and {quantities} quantities of {count} lines")));
        }
        self.lines += count;
        self.amount_cents += sum;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32, supply_warehouse: u32, item: u32) -> LineInput {
        LineInput { number, item, supply_warehouse, quantity: 5 }
    }

    #[test]
    fn lines_without_repeats_are_one_round() {
        let rounds = rounds(&[line(2, 1, 4), line(1, 1, 9), line(3, 2, 4)]);
        assert_eq!(rounds.len(), 1);
        assert_eq!(rounds[0].numbers.0, [2, 1, 3]);
    }

    #[test]
    fn an_item_ordered_three_times_takes_three_rounds_and_loses_no_line() {
        let rounds = rounds(&[line(1, 1, 4), line(2, 1, 4), line(5, 1, 4), line(3, 1, 9), line(4, 1, 9)]);
        let numbers: Vec<_> = rounds.iter().map(|round| round.numbers.0.clone()).collect();
        assert_eq!(numbers, [vec![1, 3], vec![2, 4], vec![5]]);
    }
}
