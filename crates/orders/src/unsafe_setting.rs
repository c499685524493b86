//! Possible losses in a crash under a setting of the database, for a warning before a run.

/// `NAME = VALUE: possible loss in a crash`, for a setting that weakens durability.
pub(crate) fn unsafe_setting(name: &str, value: &str) -> String {
    let cost = match name {
        "fsync" => "nothing is flushed: a crash of the host may damage the database beyond repair",
        "full_page_writes" | "innodb_doublewrite" => "a page torn by a crash cannot be repaired: the database may be damaged",
        "innodb_flush_method" => "data files are never flushed: a crash of the host may damage the database beyond repair",
        _ => "an acknowledged order may be lost in a crash",
    };
    format!("{name} = {value}: {cost}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_its_own_risk() {
        for (name, value, cost) in [
            ("innodb_doublewrite", "OFF", "torn"),
            ("full_page_writes", "off", "torn"),
            ("innodb_flush_method", "nosync", "never flushed"),
            ("fsync", "off", "damage"),
            ("synchronous_commit", "off", "acknowledged order"),
            ("innodb_flush_log_at_trx_commit", "2", "acknowledged order"),
        ] {
            let text = unsafe_setting(name, value);
            assert!(text.starts_with(&format!("{name} = {value}: ")) && text.contains(cost), "{text}");
        }
    }
}
