//! The URL of a MariaDB or MySQL server: the client library's parameters, and MySQL's own names for TLS.

use std::path::{Path, PathBuf};

use mysql_async::{Opts, OptsBuilder, SslOpts};

use crate::error::OrdersError;
use crate::postgres::decoded;

/// When a connection over TCP is encrypted, and which checks are made (MySQL 8.0, `--ssl-mode`). A Unix socket has no TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SslMode {
    /// Never.
    Disabled,
    /// If the server offers TLS and the handshake succeeds.
    Preferred,
    /// Always; the server's certificate is not checked.
    Required,
    /// Always; a trusted authority must have signed the certificate, and it must match the host name.
    VerifyIdentity,
}

const MODES: [(&str, SslMode); 4] = [
    ("DISABLED", SslMode::Disabled),
    ("PREFERRED", SslMode::Preferred),
    ("REQUIRED", SslMode::Required),
    ("VERIFY_IDENTITY", SslMode::VerifyIdentity),
];

/// A server, from its URL.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Options of the client library, with TLS unless the mode is [`SslMode::Disabled`].
    pub(super) opts: Opts,
    pub(super) mode: SslMode,
}

/// Parses `mysql://USER:PASSWORD@HOST:PORT/?socket=PATH&ssl-mode=MODE&ssl-ca=FILE`.
///
/// # Errors
/// [`OrdersError::MySqlDsn`], [`OrdersError::MySqlUrl`], and [`OrdersError::File`] for a certificate that cannot be read. No
/// error contains text that may be a part of a password.
pub(super) fn parse(dsn: &str) -> Result<Target, OrdersError> {
    let url = dsn.replacen("mariadb://", "mysql://", 1);
    let after_scheme = url.strip_prefix("mysql://").unwrap_or(&url);
    let authority_bytes = after_scheme.find(['/', '?', '#']).unwrap_or(after_scheme.len());
    if after_scheme[authority_bytes..].contains('@') {
        return Err(OrdersError::MySqlUrl { what: "there is an @ after the host".to_owned() });
    }
    let (base, query) = url.split_once('?').unwrap_or((&url, ""));
    let (tls, rest): (Vec<&str>, Vec<&str>) = query.split('&').filter(|pair| !pair.is_empty()).partition(|pair| is_tls(pair));
    let opts = Opts::from_url(&format!("{base}?{}", rest.join("&"))).map_err(OrdersError::MySqlDsn)?;
    // A TCP address is not replaced by a Unix socket: the path to the server is part of the measurement.
    let prefer_socket = opts.socket().is_some();
    let tls = Tls::of(&tls, opts.ssl_opts().is_some())?;
    let mode = if prefer_socket { SslMode::Disabled } else { tls.mode };
    let ssl = (mode != SslMode::Disabled).then(|| opts.ssl_opts().cloned().unwrap_or_else(|| tls.options()));
    let opts = OptsBuilder::from_opts(opts).db_name(None::<String>).prefer_socket(prefer_socket).ssl_opts(ssl).into();
    Ok(Target { opts, mode })
}

fn is_tls(pair: &str) -> bool {
    pair.starts_with("ssl-") || pair.starts_with("ssl_")
}

/// The TLS parameters of the URL.
struct Tls {
    mode: SslMode,
    authorities: Option<PathBuf>,
}

impl Tls {
    /// `required`: the URL has the client library's own parameter `require_ssl`.
    fn of(pairs: &[&str], required: bool) -> Result<Self, OrdersError> {
        let (mut mode, mut authorities) = (required.then_some(SslMode::Required), None);
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value).map_err(|_| wrong(format!("the value of {name} is not percent-encoded")))?;
            match name.replace('_', "-").as_str() {
                "ssl-mode" => mode = Some(mode_of(&value)?),
                "ssl-ca" => authorities = Some(readable(value.into())?),
                _ => return Err(wrong("it has a parameter of TLS other than ssl-mode and ssl-ca".to_owned())),
            }
        }
        let usual = if authorities.is_some() { SslMode::VerifyIdentity } else { SslMode::Preferred };
        let mode = mode.unwrap_or(usual);
        if authorities.is_some() && mode != SslMode::VerifyIdentity {
            return Err(wrong("ssl-ca needs ssl-mode=VERIFY_IDENTITY".to_owned()));
        }
        Ok(Self { mode, authorities })
    }

    fn options(&self) -> SslOpts {
        let checks = self.mode == SslMode::VerifyIdentity;
        let options = SslOpts::default().with_danger_accept_invalid_certs(!checks);
        match &self.authorities {
            Some(path) => options.with_root_certs(vec![path.clone().into()]).with_disable_built_in_roots(true),
            None => options,
        }
    }
}

fn mode_of(value: &str) -> Result<SslMode, OrdersError> {
    let found = MODES.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
    found.map(|(_, mode)| *mode).ok_or_else(|| {
        let names: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
        wrong(format!("ssl-mode is not one of {}", names.join(", ")))
    })
}

fn readable(path: PathBuf) -> Result<PathBuf, OrdersError> {
    let opened = std::fs::File::open(Path::new(&path));
    opened.map_err(|source| OrdersError::File { what: "read the certificates of ssl-ca, file", path: path.clone(), source })?;
    Ok(path)
}

fn wrong(what: String) -> OrdersError {
    OrdersError::MySqlUrl { what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_preferred_over_tcp_and_never_used_on_a_socket() {
        let mode = |dsn: &str| parse(dsn).unwrap().mode;
        assert_eq!(mode("mysql://root@localhost/?socket=/run/x.sock&ssl-mode=REQUIRED"), SslMode::Disabled);
        assert_eq!(mode("mysql://root@db1/"), SslMode::Preferred);
        assert_eq!(mode("mariadb://root@db1/?ssl_mode=required"), SslMode::Required);
        assert_eq!(mode("mysql://root@db1/?require_ssl=true"), SslMode::Required);
        assert!(parse("mysql://root@db1/?ssl-mode=DISABLED").unwrap().opts.ssl_opts().is_none());
        let checked = parse("mysql://root@db1/?ssl-ca=/dev/null").unwrap();
        let options = checked.opts.ssl_opts().unwrap();
        assert_eq!(checked.mode, SslMode::VerifyIdentity);
        assert!(options.disable_built_in_roots() && !options.accept_invalid_certs());
    }

    #[test]
    fn an_error_of_a_url_repeats_no_part_of_a_password() {
        for dsn in [
            "mysql://clerk:se/cret@db1/",
            "mysql://clerk:se?cret@db1/",
            "mysql://clerk:se/?#%cret@db1",
            "mysql://db1/?ssl-mode=cret",
            "mysql://db1/?ssl-mode=REQUIRED&ssl-ca=/dev/null",
            "mysql://db1/?ssl-cret=1",
        ] {
            let error = parse(dsn).unwrap_err();
            assert!(matches!(error, OrdersError::MySqlUrl { .. }), "{dsn}: {error}");
            assert!(!error.to_string().contains("cret") && error.hint().is_some(), "{dsn}: {error}");
        }
    }
}
