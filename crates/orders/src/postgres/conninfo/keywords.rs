//! The parameters of a connection: libpq's keywords, their environment variables, and how this client treats each.
//!
//! Source: PostgreSQL 18, 34.1.2 (Parameter Key Words), 34.15 (Environment Variables).

/// How this client treats a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    /// As in libpq. A value that requires a feature this client does not have is refused.
    Full,
    /// Ignored without loss: the encoding is always UTF-8, GSSAPI and compression are never used.
    Ignored,
    /// Refused, because this client cannot enforce the restriction.
    Refused,
}

/// One parameter.
#[derive(Debug)]
pub(super) struct Keyword {
    pub(super) name: &'static str,
    /// Its environment variable.
    pub(super) variable: Option<&'static str>,
    pub(super) support: Support,
}

const fn row(name: &'static str, variable: &'static str, support: Support) -> Keyword {
    let variable = if variable.is_empty() { None } else { Some(variable) };
    Keyword { name, variable, support }
}

/// Every keyword of libpq.
pub(super) const KEYWORDS: &[Keyword] = &[
    row("service", "PGSERVICE", Support::Full),
    row("servicefile", "PGSERVICEFILE", Support::Full),
    row("host", "PGHOST", Support::Full),
    row("hostaddr", "PGHOSTADDR", Support::Full),
    row("port", "PGPORT", Support::Full),
    row("dbname", "PGDATABASE", Support::Full),
    row("user", "PGUSER", Support::Full),
    row("password", "PGPASSWORD", Support::Full),
    row("passfile", "PGPASSFILE", Support::Full),
    row("channel_binding", "PGCHANNELBINDING", Support::Full),
    row("connect_timeout", "PGCONNECT_TIMEOUT", Support::Full),
    row("options", "PGOPTIONS", Support::Full),
    row("application_name", "PGAPPNAME", Support::Full),
    row("fallback_application_name", "", Support::Full),
    row("keepalives", "", Support::Full),
    row("keepalives_idle", "", Support::Full),
    row("keepalives_interval", "", Support::Full),
    row("keepalives_count", "", Support::Full),
    // The client library's own name for the previous one.
    row("keepalives_retries", "", Support::Full),
    row("tcp_user_timeout", "", Support::Full),
    row("sslmode", "PGSSLMODE", Support::Full),
    row("sslnegotiation", "PGSSLNEGOTIATION", Support::Full),
    row("sslcert", "PGSSLCERT", Support::Full),
    row("sslkey", "PGSSLKEY", Support::Full),
    row("sslrootcert", "PGSSLROOTCERT", Support::Full),
    row("sslsni", "PGSSLSNI", Support::Full),
    row("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", Support::Full),
    row("target_session_attrs", "PGTARGETSESSIONATTRS", Support::Full),
    row("load_balance_hosts", "PGLOADBALANCEHOSTS", Support::Full),
    row("gssencmode", "PGGSSENCMODE", Support::Full),
    row("client_encoding", "PGCLIENTENCODING", Support::Ignored),
    row("sslcompression", "PGSSLCOMPRESSION", Support::Ignored),
    row("gssdelegation", "PGGSSDELEGATION", Support::Ignored),
    row("gsslib", "PGGSSLIB", Support::Ignored),
    row("krbsrvname", "PGKRBSRVNAME", Support::Ignored),
    row("min_protocol_version", "PGMINPROTOCOLVERSION", Support::Full),
    row("max_protocol_version", "PGMAXPROTOCOLVERSION", Support::Ignored),
    row("sslcrl", "PGSSLCRL", Support::Refused),
    row("sslcrldir", "PGSSLCRLDIR", Support::Refused),
    row("sslpassword", "", Support::Refused),
    row("sslcertmode", "PGSSLCERTMODE", Support::Refused),
    row("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", Support::Refused),
    row("requirepeer", "PGREQUIREPEER", Support::Refused),
    row("require_auth", "PGREQUIREAUTH", Support::Refused),
    row("replication", "", Support::Refused),
    row("requiressl", "", Support::Refused),
];

/// The parameter of this name.
pub(super) fn keyword(name: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.name == name)
}
