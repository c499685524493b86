//! The name that the user probably meant.

use strsim::levenshtein;

/// Letters that may be wrong in a name of this length.
const fn wrong_max(letters: usize) -> usize {
    // A typing error in a short name, a word left out or swapped in a long one.
    1 + letters / 4
}

/// Longest name that is compared: a longer one is not a typing error.
const NAME_LETTERS_MAX: usize = 100;

/// The known name that is nearest to `word`. A name is near if few letters differ, also from the beginning of the name,
/// or if `word` is a part of it. `None` if there is no near name.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    if letters == 0 || letters > NAME_LETTERS_MAX {
        return None;
    }
    let rank = |name: &'a str| {
        let begins: String = name.chars().take(letters).collect();
        // A name that continues is slightly less near than one that ends there.
        let wrong = levenshtein(word, name).min(levenshtein(word, &begins) + 1);
        let part = letters >= 4 && name.contains(word);
        (part || wrong <= wrong_max(letters)).then_some((wrong, name))
    };
    known.into_iter().filter(|name| name.len() <= NAME_LETTERS_MAX).filter_map(rank).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const KNOWN: [&str; 4] = ["linux-swappiness", "linux-thp-never", "solaris-redo-direct-io", "oracle-setall"];
    const OPTIONS: [&str; 4] = ["mountport", "nfsport", "rsize", "wsize"];

    #[test]
    fn a_typing_error_and_a_part_find_their_name() {
        assert_eq!(nearest("linux-swapiness", KNOWN), Some("linux-swappiness"));
        assert_eq!(nearest("redo-direct", KNOWN), Some("solaris-redo-direct-io"));
        assert_eq!(nearest("orakle-setal", KNOWN), Some("oracle-setall"));
        assert_eq!(nearest("solaris-redo-dirct", KNOWN), Some("solaris-redo-direct-io"));
        assert_eq!(nearest("mount_port", OPTIONS), Some("mountport"));
        assert_eq!(nearest("rszie", OPTIONS), Some("rsize"));
    }

    #[test]
    fn what_is_near_to_nothing_has_no_nearest_name() {
        assert_eq!(nearest("checkpoint-timeout", KNOWN), None);
        assert_eq!(nearest("completely-else", OPTIONS), None);
        assert_eq!(nearest("", KNOWN), None);
        assert_eq!(nearest(&"x".repeat(5_000), KNOWN), None);
    }
}
