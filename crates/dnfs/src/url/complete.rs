//! A URL with all its options, for the notes from which observers of a mount read how it is used.

use std::fmt::Write as _;

use super::{NfsUrl, escape};
use crate::options::{ClosePolicy, GonePolicy, Options, StablePolicy, TransportSecurity};

/// The first option of such a query. A URL without it was noted by a version that noted no options.
const FIRST: &str = "close=";

impl NfsUrl {
    /// The URL with every option that has a value, defaults included. Parsing it gives this URL again.
    #[must_use]
    pub fn with_all_options(&self) -> String {
        let text = self.to_string();
        let mark = if self.options.local.is_empty() { '?' } else { '&' };
        format!("{text}{mark}{}", query(&self.options))
    }

    /// Whether [`Self::with_all_options`] wrote this text.
    #[must_use]
    pub fn has_all_options(text: &str) -> bool {
        text.split(['?', '&']).skip(1).any(|option| option.starts_with(FIRST))
    }
}

fn query(options: &Options) -> String {
    let on = |is_on: bool| if is_on { "on" } else { "off" };
    let mut text = format!("{FIRST}{}&gather={}", options.close.name(), on(options.gather));
    let mut add = |key: &str, value: &dyn std::fmt::Display| {
        let _ = write!(text, "&{key}={value}"); // writing to a string cannot fail
    };
    add("retain", &options.retain_bytes);
    add("gone", &options.gone.name());
    add("stable", &options.stable.name());
    add("xprtsec", &options.security.name());
    add("fence_ms", &options.fence.as_millis());
    add("timeo", &(options.resend_after.as_millis() / 100));
    add("retrans", &options.retries);
    add("channels", &options.channel_count);
    add("rsize", &options.read_bytes_max);
    add("owner", &if options.single_owner { "single" } else { "many" });
    add("writers", &if options.one_writer { "one" } else { "many" });
    add("noac", &u8::from(options.no_attribute_cache));
    add("resvport", &u8::from(options.privileged_port));
    let numbers = [
        ("mountport", options.mount_port.map(u32::from)),
        ("wsize", options.write_bytes_max),
        ("split", options.split_bytes),
        ("slots", options.slot_count.and_then(|count| u32::try_from(count).ok())),
        ("uid", options.uid),
        ("gid", options.gid),
    ];
    numbers.iter().filter_map(|(key, value)| Some((*key, (*value)?))).for_each(|(key, value)| add(key, &value));
    let files = [("cacert", &options.trusted), ("cert", &options.certificate), ("key", &options.key)];
    files.iter().filter_map(|(key, path)| Some((*key, path.as_ref()?))).for_each(|(key, path)| add(key, &in_query(path)));
    text.push_str(if options.soft { "&soft" } else { "&hard" });
    text
}

/// A path as a value in a query, where `&` ends it.
fn in_query(path: &str) -> String {
    escape(path).replace('&', "%26")
}

impl ClosePolicy {
    /// Its name in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Nothing => "nothing",
        }
    }
}

impl GonePolicy {
    /// Its name in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            // No URL asks for `Report`, so it has no name of its own.
            Self::Wait | Self::Report => "wait",
            Self::Error => "error",
        }
    }
}

impl StablePolicy {
    /// Its name in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Unstable => "unstable",
        }
    }
}

impl TransportSecurity {
    /// Its name in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Tls => "tls",
            Self::Mutual => "mtls",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_all_its_options_is_read_back_as_it_was() {
        for text in [
            "nfs://filer/vol",
            "nfs://a,[fd00::2]:3049/vol/x%20y?local=10.0.0.1,fd00::1&close=nothing&gather=off&retain=0&gone=error",
            "nfs://filer/vol?soft&timeo=50&retrans=7&noac&owner=single&resvport&fence_ms=0&stable=always&channels=3",
            "nfs://filer/vol?slots=4&split=8k&writers=one&rsize=64k&wsize=32k&mountport=20048&uid=5&gid=6&stable=unstable",
            "nfs://filer/vol?xprtsec=mtls&cacert=/a%26b%25/ca&cert=/c%20d&key=/k",
            "nfs://filer/vol?xprtsec=tls&cacert=/ca.pem",
        ] {
            let url: NfsUrl = text.parse().unwrap();
            let complete = url.with_all_options();
            assert_eq!(complete.parse::<NfsUrl>().as_ref(), Ok(&url), "{complete}");
            assert!(NfsUrl::has_all_options(&complete) && complete.starts_with(&url.to_string()), "{complete}");
            assert!(!NfsUrl::has_all_options(&url.to_string()));
        }
    }
}
