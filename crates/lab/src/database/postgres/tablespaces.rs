//! Tablespaces: spreads the load's tables and indexes evenly over several volumes by their size.

/// The share for each size, with the largest sizes first: each is assigned to the share that is smallest so far.
pub(super) fn shares_of(bytes: &[u64], shares: usize) -> Vec<usize> {
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
    pub(super) fn shares_of_the_data_are_about_equal() {
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
