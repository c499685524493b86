//! What SET PERSIST of MySQL 8 wrote: `mysqld-auto.cnf` in the data directory. It takes precedence
//! over option files and the command line.

use serde_json::Value as Json;

use super::groups::Identity;
use super::options::Flavor;
use super::read::{Found, option};

/// Notes each variable with its value. In both versions of the format a variable is an object with
/// a member `Value`.
pub(super) fn read(text: &str, path: &str, identity: &Identity, found: &mut Found) {
    let identity = Identity { flavor: Some(Flavor::MySql), ..identity.clone() };
    match serde_json::from_str(text) {
        Ok(json) => variables(&json, path, &identity, found),
        Err(fault) => found.gap(format!("{path} is not what SET PERSIST writes ({fault})")),
    }
}

fn variables(json: &Json, path: &str, identity: &Identity, found: &mut Found) {
    for (name, member) in json.as_object().into_iter().flatten() {
        match member.get("Value").and_then(Json::as_str) {
            Some(said) => option(name, Some(said), path, identity, found),
            // serde_json limits the depth of this recursion.
            None => variables(member, path, identity, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_noted_in_both_versions_of_the_format() {
        for text in [
            r#"{"Version":2,"mysql_dynamic_variables":{"sync_binlog":{"Value":"0","Metadata":{"Timestamp":1,"User":"r","Host":"h"}}}}"#,
            r#"{ "Version" : 1 , "mysql_server" : { "sync_binlog" : { "Value" : "0" , "Metadata" : { "User" : "r" } } } }"#,
        ] {
            let mut found = Found::default();
            read(text, "/d/mysqld-auto.cnf", &Identity::default(), &mut found);
            assert_eq!(found.get("sync_binlog"), Some(&(0.into(), "/d/mysqld-auto.cnf".to_owned())));
        }
        let mut found = Found::default();
        read("{", "/d/mysqld-auto.cnf", &Identity::default(), &mut found);
        assert!(found.is_unknown("sync_binlog"));
    }
}
