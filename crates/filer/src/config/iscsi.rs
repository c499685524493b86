//! The section `[iscsi]`.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use iscsi_proto::chap::Credential;
use iscsi_proto::login::{Name, NameError};
use toml::Spanned;

use super::Reader;
use super::error::ConfigError;
use super::file::{GroupTable, IscsiTable, OwnTable, PortalTable, UserTable};
use crate::iscsi::{Group, Portal, Settings, User};
use crate::limits::{ISCSI_NAMES_MAX, ISCSI_PORTALS_MAX, VOLUME_NAME_BYTES_MAX};

/// Longest prefix of target names, in bytes. A colon and the name of a volume follow (RFC 7143 4.2.7.1).
const BASE_BYTES_MAX: usize = iscsi_proto::limits::NAME_BYTES_MAX - 1 - VOLUME_NAME_BYTES_MAX;

/// Checks the section and converts it to settings.
pub(super) fn read(reader: &Reader<'_>, table: IscsiTable) -> Result<Settings, ConfigError> {
    let portals = portals(reader, &table)?;
    let base_name = table.iqn.as_ref().map(|iqn| base_name(reader, iqn)).transpose()?;
    if table.user.len().max(table.group.len()) > ISCSI_NAMES_MAX {
        return Err(reader.wrong(0, format!("[iscsi] has {ISCSI_NAMES_MAX} users and groups at most")));
    }
    let users = users(reader, &table.user)?;
    let own = table.own.as_ref().map(|table| own(reader, table, &users)).transpose()?;
    let groups = groups(reader, &table.group)?;
    let clients = table.clients.as_ref().map(|clients| reader.clients(clients)).transpose()?;
    Ok(Settings { portals, base_name, users, own, groups, clients })
}

fn portals(reader: &Reader<'_>, table: &IscsiTable) -> Result<Vec<Portal>, ConfigError> {
    let portals: Vec<Portal> = match (&table.listen, table.portal.first()) {
        (Some(listen), Some(_)) => {
            let reason = "write listen = [...] for a portal group each, or [[iscsi.portal]] tables with tags, not both";
            return Err(reader.wrong(listen.span().start, reason.into()));
        }
        (Some(listen), None) => Portal::each(&reader.addresses("listen", listen.get_ref())?),
        (None, _) => {
            let portal = |PortalTable { address, tag }: &PortalTable| {
                reader.address("address", address).map(|address| Portal { address, tag: *tag })
            };
            table.portal.iter().map(|table| portal(table.get_ref())).collect::<Result<_, _>>()?
        }
    };
    let at = table.listen.as_ref().map(Spanned::span).or_else(|| table.portal.first().map(Spanned::span));
    let at = at.map_or(0, |span| span.start);
    if portals.len() > ISCSI_PORTALS_MAX {
        return Err(reader.wrong(at, format!("a filer has {ISCSI_PORTALS_MAX} portals at most")));
    }
    let mut addresses: HashSet<SocketAddr> = HashSet::new();
    let twice = portals.iter().find(|portal| portal.address.port() != 0 && !addresses.insert(portal.address));
    match twice {
        Some(portal) => Err(reader.wrong(at, format!("the portal {} is there twice", portal.address))),
        None => Ok(portals),
    }
}

fn base_name(reader: &Reader<'_>, iqn: &Spanned<String>) -> Result<String, ConfigError> {
    let (text, at) = (iqn.get_ref(), iqn.span().start);
    let reason = |what: &str| {
        format!(
            "iqn {text:?}: {what}; write iqn.YEAR-MONTH and a domain of yours in reverse, as in iqn.2026-11.com.example.filer1"
        )
    };
    if text.len() > BASE_BYTES_MAX {
        return Err(reader.wrong(at, reason(&format!("longer than {BASE_BYTES_MAX} bytes"))));
    }
    let name = Name::of_user(text).map_err(|error| match error {
        NameError::Form => reader.wrong(at, reason("not the start of an iSCSI name")),
        other => reader.wrong(at, reason(&other.to_string())),
    })?;
    if !name.as_str().starts_with("iqn.") || text.ends_with(':') {
        return Err(reader.wrong(at, reason("not the start of an iSCSI name")));
    }
    Ok(name.as_str().to_owned())
}

/// The CHAP users. Two users of one name are refused, because either secret would be accepted.
fn users(reader: &Reader<'_>, tables: &[UserTable]) -> Result<Vec<User>, ConfigError> {
    let mut lines: HashMap<&str, usize> = HashMap::new();
    let user = |table| {
        let UserTable { name, secret, initiators }: &UserTable = table;
        let at = name.span().start;
        if let Some(line) = lines.insert(name.get_ref(), reader.line(at)) {
            return Err(reader.wrong(at, format!("user {:?} is already defined on line {line}", name.get_ref())));
        }
        Ok(User { credential: credential(reader, name, secret)?, initiators: names(reader, initiators)? })
    };
    tables.iter().map(user).collect()
}

fn own(reader: &Reader<'_>, table: &OwnTable, users: &[User]) -> Result<Credential, ConfigError> {
    let own = credential(reader, &table.name, &table.secret)?;
    if users.iter().any(|user| user.credential.shares_secret(&own)) {
        let reason = "[iscsi.own] has the secret of a user: an initiator could have the filer answer its own challenge (RFC 7143 9.2.1); choose another";
        return Err(reader.of_line(table.name.span().start, reason.into()));
    }
    Ok(own)
}

fn credential(reader: &Reader<'_>, name: &Spanned<String>, secret: &str) -> Result<Credential, ConfigError> {
    let wrong = |error| reader.of_line(name.span().start, format!("user {:?}: {error}", name.get_ref()));
    Credential::new(name.get_ref(), secret.as_bytes()).map_err(wrong)
}

fn groups(reader: &Reader<'_>, tables: &[GroupTable]) -> Result<Vec<Group>, ConfigError> {
    let mut groups: Vec<Group> = Vec::new();
    for GroupTable { name, initiators } in tables {
        let (text, at) = (name.get_ref(), name.span().start);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > VOLUME_NAME_BYTES_MAX || !text.bytes().all(plain) || has_form(text) {
            let reason = format!(
                "group name {text:?} is not valid: use letters, digits, . _ and -, and not the form of an iSCSI name (iqn., eui., naa.)"
            );
            return Err(reader.wrong(at, reason));
        }
        if groups.iter().any(|group| group.name == *text) {
            return Err(reader.wrong(at, format!("group {text:?} is there twice")));
        }
        groups.push(Group { name: text.clone(), initiators: names(reader, initiators)? });
    }
    Ok(groups)
}

fn names(reader: &Reader<'_>, written: &[Spanned<String>]) -> Result<Vec<Name>, ConfigError> {
    let name = |written: &Spanned<String>| {
        let reason = |error| format!("initiator name {:?} is not valid: {error}", written.get_ref());
        Name::of_user(written.get_ref()).map_err(|error| reader.wrong(written.span().start, reason(error)))
    };
    written.iter().map(name).collect()
}

/// Whether a name has the form of an iSCSI name. A group cannot have such a name.
fn has_form(name: &str) -> bool {
    Name::new(name).is_ok_and(|name| name.has_form())
}
