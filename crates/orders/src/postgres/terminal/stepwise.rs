//! A terminal's session that stops before the end of its transaction: for the isolation tests.

use std::time::Duration;

use super::{NEW_ORDER, PostgresTerminal, read, unexpected};
use crate::database::{DeliveryAnswer, Failure, NewOrderAnswer};
use crate::inputs::{DeliveryInput, NewOrderInput};
use crate::isolation::Stepwise;

impl Stepwise for PostgresTerminal {
    async fn open_new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderAnswer, Failure> {
        match &self.blocks {
            Some(blocks) => self.enter(blocks, input).await,
            None => Err(unexpected(NEW_ORDER, "a stored function does not stop before its end".to_owned())),
        }
    }

    async fn open_delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer, Failure> {
        const WHAT: &str = "Delivery";
        let Some(blocks) = &self.blocks else {
            return Err(unexpected(WHAT, "a stored function does not stop before its end".to_owned()));
        };
        let (warehouse, carrier) = (input.warehouse as i32, input.carrier as i32);
        self.block(WHAT, "BEGIN").await?;
        self.one(WHAT, &blocks.delivery_turn, &[&warehouse]).await?;
        let row = self.one(WHAT, &self.delivery, &[&warehouse, &carrier]).await?;
        let closed: i64 = read(WHAT, &row, 0)?;
        Ok(DeliveryAnswer { delivered: u32::try_from(closed).unwrap_or(u32::MAX) })
    }

    async fn end(&mut self, commit: bool) -> Result<(), Failure> {
        self.block("ending a transaction", if commit { "COMMIT" } else { "ROLLBACK" }).await
    }

    async fn number(&mut self, text: &str) -> Result<i64, Failure> {
        const WHAT: &str = "reading beside a transaction";
        let row = self.session.client.query_one(&format!("SELECT ({text})::int8"), &[]).await;
        read(WHAT, &row.map_err(|error| self.failure(WHAT, error))?, 0)
    }

    async fn change(&mut self, text: &str) -> Result<(), Failure> {
        const WHAT: &str = "a change beside a transaction";
        self.session.client.batch_execute(text).await.map_err(|error| self.failure(WHAT, error))
    }

    async fn twice(&mut self, text: &str, apart: Duration) -> Result<[i64; 2], Failure> {
        const WHAT: &str = "reading twice";
        // One statement, like Order-Status: the read after the pause uses the same snapshot.
        let text = format!(
            "SELECT one::int8, ({text} AND slept = '')::int8 FROM (SELECT ({text}) AS one, pg_sleep({})::text AS slept) AS first",
            apart.as_secs_f64()
        );
        let row = self.session.client.query_one(&text, &[]).await.map_err(|error| self.failure(WHAT, error))?;
        Ok([read(WHAT, &row, 0)?, read(WHAT, &row, 1)?])
    }
}
