//! Resolves the parameters of a connection as libpq does: options, connection string, service, environment, password file
//! and defaults.
//!
//! Each parameter comes from the first of these that has it. The password file is read last, because it depends
//! on all the others.

mod environment;
mod error;
mod keywords;
mod parameter_values;
mod passfile;
mod server;
mod service;
mod text;

use std::fmt;

pub(super) use environment::Environment;
pub use error::ConninfoError;
pub(super) use parameter_values::{Parameters, choice};
pub(super) use server::{Endpoint, Server};
pub(crate) use text::decoded;

use keywords::{KEYWORDS, Support};

/// Connection options of the command line.
#[derive(Clone, Default)]
pub struct ConnectionOptions {
    /// A connection string: a URL, a key=value list, or the name of a database.
    pub dsn: Option<String>,
    /// Host name, address or directory of sockets; several are separated by commas.
    pub host: Option<String>,
    /// Port, or one for each host.
    pub port: Option<String>,
    /// User.
    pub user: Option<String>,
}

impl fmt::Debug for ConnectionOptions {
    /// Without the connection string, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, user, .. } = self;
        f.debug_struct("ConnectionOptions").field("host", host).field("port", port).field("user", user).finish_non_exhaustive()
    }
}

impl ConnectionOptions {
    /// Options that consist only of a connection string.
    #[must_use]
    pub fn of(dsn: &str) -> Self {
        Self { dsn: Some(dsn.to_owned()), ..Self::default() }
    }
}

/// Resolves the options. Does not connect.
pub(super) fn resolve(options: &ConnectionOptions, environment: &Environment<'_>) -> Result<Server, ConninfoError> {
    Server::of(&parameters(options, environment)?, environment)
}

fn parameters(options: &ConnectionOptions, environment: &Environment<'_>) -> Result<Parameters, ConninfoError> {
    let mut found = Parameters::new();
    // Within one text, the last occurrence counts, as in libpq.
    for (keyword, value) in text::parse(options.dsn.as_deref().unwrap_or_default())? {
        found.insert(keyword, value);
    }
    for (keyword, value) in [("host", &options.host), ("port", &options.port), ("user", &options.user)] {
        if let Some(value) = value {
            found.insert(keyword, value.clone());
        }
    }
    if options.host.is_some() {
        // It would take precedence over the host.
        found.remove("hostaddr");
    }
    let from = |found: &Parameters, keyword: &str, variable: &str| {
        found.get(keyword).cloned().or_else(|| environment.get(variable)).filter(|value| !value.is_empty())
    };
    if let Some(name) = from(&found, "service", "PGSERVICE") {
        let file = from(&found, "servicefile", "PGSERVICEFILE");
        for (keyword, value) in service::parameters(&name, file, environment)? {
            // Within a section, the first occurrence counts. Values from before take precedence.
            found.entry(keyword).or_insert(value);
        }
    }
    for keyword in KEYWORDS {
        let Some((variable, value)) = keyword.variable.and_then(|name| Some((name, environment.get(name)?))) else { continue };
        match keyword.support {
            // An address of the environment does not belong to an explicitly given host.
            Support::Full if keyword.name == "hostaddr" && found.contains_key("host") => {}
            Support::Full => {
                found.entry(keyword.name).or_insert(value);
            }
            Support::Ignored => {}
            Support::Refused => {
                return Err(ConninfoError::Unsupported { keyword: keyword.name, origin: format!("the variable {variable}") });
            }
        }
    }
    // An empty value counts as missing.
    found.retain(|_, value| !value.is_empty());
    Ok(found)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The result of these options in this environment.
    fn resolved(options: &ConnectionOptions, variables: &[(&str, &str)]) -> Result<Server, ConninfoError> {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        resolve(options, &Environment(&|name| variables.get(name).map(|value| (*value).to_owned())))
    }

    fn described(server: &Server) -> String {
        let password = server.endpoints.first().and_then(|one| one.password.clone()).unwrap_or_else(|| "-".to_owned());
        format!("{} {} {} {password}", server.address(), server.user(), server.database())
    }

    #[test]
    fn each_place_wins_over_those_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let (passwords, services) = (folder.path().join("pgpass"), folder.path().join("services"));
        std::fs::write(&passwords, "*:*:*:*:of-file\n").unwrap();
        std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&services, "[shop]\nhost=of-service\nport=1002\nuser=of-service\ndbname=of-service\n").unwrap();
        let mut options = ConnectionOptions {
            dsn: Some("host=of-dsn user=of-dsn service=shop".to_owned()),
            host: Some("of-option".to_owned()),
            ..ConnectionOptions::default()
        };
        let variables = [
            ("PGSERVICEFILE", services.to_str().unwrap()),
            ("PGPASSFILE", passwords.to_str().unwrap()),
            ("PGHOST", "of-environment"),
            ("PGPORT", "1003"),
            ("PGUSER", "of-environment"),
            ("PGDATABASE", "of-environment"),
            ("PGPASSWORD", "of-environment"),
        ];
        assert_eq!(described(&resolved(&options, &variables).unwrap()), "of-option:1002 of-dsn of-service of-environment");
        options.host = None;
        options.dsn = Some("dbname=of-dsn".to_owned());
        assert_eq!(
            described(&resolved(&options, &variables[1..6]).unwrap()),
            "of-environment:1003 of-environment of-dsn of-file"
        );
        options.dsn = Some("service=none".to_owned());
        let said = resolved(&options, &variables).unwrap_err().to_string();
        assert!(said.starts_with("service none is not defined in ") && said.contains("services"), "{said}");
    }

    #[test]
    fn without_anything_it_is_the_local_server_as_this_user() {
        let user = whoami::username().unwrap();
        let server = resolved(&ConnectionOptions::default(), &[]).unwrap();
        assert_eq!(described(&server), format!("/var/run/postgresql:5432 {user} {user} -"));
    }

    #[test]
    fn a_restriction_that_would_not_be_kept_is_refused_in_the_environment_too() {
        let said = resolved(&ConnectionOptions::default(), &[("PGREQUIREAUTH", "scram-sha-256")]).unwrap_err().to_string();
        assert_eq!(said, "connection parameter require_auth of the variable PGREQUIREAUTH is not supported");
        resolved(&ConnectionOptions::default(), &[("PGGSSENCMODE", "prefer"), ("PGCLIENTENCODING", "LATIN1")]).unwrap();
    }

    #[test]
    fn gssencmode_is_refused_where_it_requires_an_encryption_that_this_client_does_not_have() {
        let of_environment = [("PGGSSENCMODE", "require")];
        let refused = [
            resolved(&ConnectionOptions::of("host=db1 gssencmode=require"), &[]),
            resolved(&ConnectionOptions::of("postgresql://db1/mill?gssencmode=require"), &[]),
            resolved(&ConnectionOptions::default(), &of_environment),
        ];
        for outcome in refused {
            let error = outcome.unwrap_err();
            assert_eq!(error.to_string(), "gssencmode=require is not supported: this client has no GSSAPI encryption");
            assert!(error.hint().unwrap().starts_with("set gssencmode=disable"), "{:?}", error.hint());
        }
        // As in libpq, the connection string wins over the environment.
        resolved(&ConnectionOptions::of("host=db1 gssencmode=disable"), &of_environment).unwrap();
    }

    #[test]
    fn a_protocol_newer_than_the_clients_is_refused_where_it_is_demanded() {
        for version in ["3.2", "latest"] {
            let error = resolved(&ConnectionOptions::of(&format!("host=db1 min_protocol_version={version}")), &[]).unwrap_err();
            let said = format!("min_protocol_version={version} is not supported: this client speaks version 3.0 of the protocol");
            assert_eq!(error.to_string(), said);
        }
        resolved(&ConnectionOptions::of("host=db1 min_protocol_version=3.0 max_protocol_version=3.2"), &[]).unwrap();
    }

    #[test]
    fn a_password_file_with_group_access_is_not_used_and_a_warning_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        std::fs::write(&path, "*:*:*:*:of-file\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let server = resolved(&ConnectionOptions::default(), &[("PGPASSFILE", path.to_str().unwrap())]).unwrap();
        assert!(server.warning.as_deref().unwrap().contains("has group or world access"), "{:?}", server.warning);
        assert!(server.endpoints[0].password.is_none());
        assert!(!format!("{server:?}").contains("of-file"));
    }
}
