//! Tablespaces: spreads the load's tables and indexes evenly over several volumes by their size.

use std::path::PathBuf;

use crate::database::postgres::session::PostgresSession;
use crate::error::LabError;

/// Tables and indexes of the load: object type for `alter`, name, bytes.
const RELATIONS: &str = "select case c.relkind when 'i' then 'index' else 'table' end, c.oid::regclass::text, \
     pg_relation_size(c.oid)::int8 from pg_class c join pg_namespace n on n.oid = c.relnamespace \
     where c.relkind in ('r', 'i') and n.nspname = 'millrace_orders' order by 3 desc, 2";

/// Creates a tablespace for each share of the data except the first, which stays in place, in the directory that `place`
/// returns, and moves each share's tables and indexes there.
pub(crate) fn spread(
    session: &mut PostgresSession,
    shares: u32,
    place: &dyn Fn(u32) -> Result<PathBuf, LabError>,
) -> Result<(), LabError> {
    for number in 1..shares {
        let location = place(number)?.display().to_string().replace('\'', "''");
        session.run("make a tablespace", &format!("create tablespace millrace_{number} location '{location}'"))?;
    }
    let relations = session.relations(RELATIONS)?;
    let bytes: Vec<u64> = relations.iter().map(|(.., bytes)| *bytes).collect();
    for ((kind, name, _), share) in relations.iter().zip(shares_of(&bytes, shares as usize)) {
        if share > 0 {
            session.run("move a table", &format!("alter {kind} {name} set tablespace millrace_{share}"))?;
        }
    }
    Ok(())
}

/// The share for each size, with the largest sizes first: each is assigned to the share that is smallest so far.
fn shares_of(bytes: &[u64], shares: usize) -> Vec<usize> {
    let mut filled = vec![0; shares.max(1)];
    let mut of = Vec::new();
    for size in bytes {
        let least = filled.iter().enumerate().min_by_key(|(_, filled)| **filled).map_or(0, |(share, _)| share);
        if let Some(filled) = filled.get_mut(least) {
            *filled += size;
        }
        of.push(least);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_data_are_about_equal() {
        // Tables and indexes of one warehouse, in MiB.
        let sizes = [39, 34, 20, 14, 8, 3, 3, 2, 1, 1, 0];
        for (count, most) in [(2, 64), (3, 45)] {
            let mut filled = vec![0; count];
            sizes.iter().zip(shares_of(&sizes, count)).for_each(|(size, share)| filled[share] += size);
            assert!(filled.iter().all(|filled| *filled <= most && *filled >= most / 2), "{filled:?}");
        }
        assert_eq!(shares_of(&[5, 4], 1), [0, 0]);
    }
}
