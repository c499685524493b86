//! Settings of Direct NFS in a tuning: options of the mount URL, `[tuning.NAME.dnfs]`.

use crate::error::LabError;
use crate::plan::Knobs;

/// Name of the path, and of the layer of its settings.
pub(super) const NAME: &str = "dnfs";

/// `url` with these options; an option that the URL already has is kept.
pub(super) fn on_url(settings: &Knobs, url: &str) -> String {
    let mut url = url.to_owned();
    let given = url.split_once('?').map_or_else(String::new, |(_, query)| query.to_owned());
    let named = |name: &str| given.split('&').any(|pair| pair.split('=').next() == Some(name));
    for (name, value) in settings.iter().filter(|(name, _)| !named(name)) {
        url.push(if url.contains('?') { '&' } else { '?' });
        url += &format!("{name}={value}");
    }
    url
}

/// Refuses unknown options; `tuning` names the tuning in errors.
pub(super) fn check(settings: &Knobs, tuning: &str) -> Result<(), LabError> {
    let probe = on_url(settings, "nfs://host/export");
    probe.parse::<dnfs::NfsUrl>().map(|_| ()).map_err(|error| {
        let hint = error.hint().unwrap_or_else(|| "they are the options of an NFS URL".to_owned());
        LabError::plan(format!("use the options of tuning.{tuning}.dnfs: {error}"), &hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_options_of_the_user_win_over_those_of_the_tuning() {
        let settings: Knobs = toml::from_str("slots = 4\nstable = \"always\"").unwrap();
        assert_eq!(on_url(&settings, "nfs://h/v"), "nfs://h/v?slots=4&stable=always");
        assert_eq!(on_url(&settings, "nfs://h/v?slots=8"), "nfs://h/v?slots=8&stable=always");
    }

    #[test]
    fn unknown_options_are_refused_by_name() {
        let error = check(&toml::from_str("slotz = 4").unwrap(), "x").unwrap_err();
        assert_eq!(error.to_string(), "use the options of tuning.x.dnfs: unknown option slotz in the URL");
    }
}
