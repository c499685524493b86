//! The section `[iscsi]`.

use std::collections::HashSet;
use std::net::SocketAddr;

use iscsi_proto::chap::Credential;
use iscsi_proto::login::Name;
use toml::Spanned;

use super::Reader;
use super::error::ConfigError;
use super::file::{GroupTable, IscsiTable, OwnTable, UserTable};
use crate::iscsi::{Group, Portal, Settings, User};
use crate::limits::{ISCSI_NAMES_MAX, ISCSI_PORTALS_MAX, VOLUME_NAME_BYTES_MAX};

/// Longest start of the names of targets, in bytes: a colon and the name of a volume follow (RFC 7143 4.2.7.1).
const BASE_BYTES_MAX: usize = iscsi_proto::limits::NAME_BYTES_MAX - 1 - VOLUME_NAME_BYTES_MAX;

/// Checks the section and makes settings of it.
pub(super) fn read(reader: &Reader<'_>, table: IscsiTable) -> Result<Settings, ConfigError> {
    let portals = portals(reader, &table)?;
    let base_name = table.iqn.as_ref().map(|iqn| base_name(reader, iqn)).transpose()?;
    if table.user.len().max(table.group.len()) > ISCSI_NAMES_MAX {
        return Err(reader.wrong(0, format!("[iscsi] has {ISCSI_NAMES_MAX} users and groups at most")));
    }
    let users: Vec<User> = table.user.iter().map(|table| user(reader, table)).collect::<Result<_, _>>()?;
    let own = table.own.as_ref().map(|table| own(reader, table, &users)).transpose()?;
    let groups = groups(reader, &table.group)?;
    Ok(Settings { portals, base_name, users, own, groups })
}

fn portals(reader: &Reader<'_>, table: &IscsiTable) -> Result<Vec<Portal>, ConfigError> {
    let portals: Vec<Portal> = match (&table.listen, table.portal.first()) {
        (Some(listen), Some(_)) => {
            let reason = "write listen = [...] for a portal group each, or [[iscsi.portal]] tables with tags, not both";
            return Err(reader.wrong(listen.span().start, reason.into()));
        }
        (Some(listen), None) => Portal::each(listen.get_ref()),
        (None, _) => {
            table.portal.iter().map(|portal| Portal { address: portal.get_ref().address, tag: portal.get_ref().tag }).collect()
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
    // RFC 7143 4.2.7.4.
    let date = text.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')).map(|(date, _)| date.as_bytes());
    let is_date = |date: &[u8]| {
        matches!(date, [year @ .., b'-', m1, m2]
        if year.len() == 4 && year.iter().chain([m1, m2]).all(u8::is_ascii_digit))
    };
    if !date.is_some_and(is_date) || text.ends_with(':') {
        return Err(reader.wrong(at, reason("not the start of an iSCSI name")));
    }
    Name::new(text).map(|name| name.as_str().to_owned()).map_err(|error| reader.wrong(at, reason(&error.to_string())))
}

fn user(reader: &Reader<'_>, table: &UserTable) -> Result<User, ConfigError> {
    let credential = credential(reader, &table.name, &table.secret)?;
    Ok(User { credential, initiators: names(reader, &table.initiators)? })
}

fn own(reader: &Reader<'_>, table: &OwnTable, users: &[User]) -> Result<Credential, ConfigError> {
    let own = credential(reader, &table.name, &table.secret)?;
    if users.iter().any(|user| user.credential.shares_secret(&own)) {
        let reason =
            "the filer's own secret is that of a user: an initiator could have it answer its own challenge (RFC 7143 9.2.1)";
        return Err(reader.wrong(table.name.span().start, reason.into()));
    }
    Ok(own)
}

fn credential(reader: &Reader<'_>, name: &Spanned<String>, secret: &str) -> Result<Credential, ConfigError> {
    Credential::new(name.get_ref(), secret.as_bytes()).map_err(|error| reader.wrong(name.span().start, error.to_string()))
}

fn groups(reader: &Reader<'_>, tables: &[GroupTable]) -> Result<Vec<Group>, ConfigError> {
    let mut groups: Vec<Group> = Vec::new();
    for GroupTable { name, initiators } in tables {
        let (text, at) = (name.get_ref(), name.span().start);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > VOLUME_NAME_BYTES_MAX || !text.bytes().all(plain) || is_initiator(text) {
            let reason =
                format!("{text:?} is no name of a group: use letters, digits, . _ and -, and not the form of an iSCSI name");
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
        let name = Name::new(written.get_ref()).ok().filter(|name| is_initiator(name.as_str()));
        let reason = || format!("{:?} is no name of an initiator: they begin with iqn., eui. or naa.", written.get_ref());
        name.ok_or_else(|| reader.wrong(written.span().start, reason()))
    };
    written.iter().map(name).collect()
}

/// Whether a name has the form of an iSCSI name (RFC 7143 4.2.7.3).
pub(crate) fn is_initiator(name: &str) -> bool {
    ["iqn.", "eui.", "naa."].iter().any(|form| name.starts_with(form))
}
