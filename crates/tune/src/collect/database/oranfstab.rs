//! `oranfstab`: servers with their paths and mounts.

use crate::collect::text::{odd, pair, telling, words};
use crate::facts::Facts;

/// Reads a file. Each path of a server becomes a thing named `server#1`, and each mount becomes a
/// thing with its server.
pub(in crate::collect) fn read(text: &str, origin: &str, facts: &mut Facts) {
    let mut server = Server::default();
    for (number, line) in telling(text, &['#']) {
        // A line may contain several pairs: `export: /vol/a mount: /u01`.
        let mut rest = line;
        let mut any = false;
        while let Some((key, tail)) = pair(rest, ':') {
            let key = key.rsplit([' ', '\t']).next().unwrap_or(key);
            let mut tail_words = words(tail);
            let Some(first) = tail_words.next() else { break };
            any = true;
            match key {
                "server" => {
                    std::mem::take(&mut server).put(origin, facts);
                    first.clone_into(&mut server.name);
                }
                "local" => server.locals.push(first.to_owned()),
                "path" => server.paths.push(first.to_owned()),
                "export" => server.exports.push((first.to_owned(), String::new())),
                "mount" => {
                    if let Some((_, mount)) = server.exports.last_mut() {
                        first.clone_into(mount);
                    }
                }
                "nfs_version" => first.clone_into(&mut server.version),
                "dontroute" | "mnt_timeout" | "community" | "management" | "security_default" | "security" | "mount_user"
                | "user" => {}
                _ => {
                    odd(facts, origin, number, line);
                    break;
                }
            }
            rest = tail.trim_start().strip_prefix(first).unwrap_or_default();
        }
        if !any && line != "dontroute" {
            odd(facts, origin, number, line);
        }
    }
    server.put(origin, facts);
}

#[derive(Default)]
struct Server {
    name: String,
    version: String,
    locals: Vec<String>,
    paths: Vec<String>,
    exports: Vec<(String, String)>,
}

impl Server {
    fn put(self, origin: &str, facts: &mut Facts) {
        if self.name.is_empty() {
            return;
        }
        // A client uses at most four paths. The limit keeps a hostile file from creating any number
        // of things.
        for (index, path) in self.paths.iter().take(64).enumerate() {
            let name = format!("{}#{}", self.name, index + 1);
            facts.put_of("oranfstab_path", &name, "server", self.name.as_str(), origin);
            facts.put_of("oranfstab_path", &name, "path", path.as_str(), origin);
            if !self.version.is_empty() {
                facts.put_of("oranfstab_path", &name, "nfs_version", self.version.to_ascii_lowercase(), origin);
            }
            if let Some(local) = self.locals.get(index) {
                facts.put_of("oranfstab_path", &name, "local", local.as_str(), origin);
            }
            if let Some((export, mount)) = self.exports.first() {
                facts.put_of("oranfstab_path", &name, "export", export.as_str(), origin);
                facts.put_of("oranfstab_path", &name, "mount", mount.as_str(), origin);
            }
        }
        for (export, mount) in self.exports.into_iter().filter(|(_, mount)| !mount.is_empty()) {
            facts.put_of("oranfstab_mount", &mount, "server", self.name.as_str(), origin);
            facts.put_of("oranfstab_mount", &mount, "export", export, origin);
            facts.put_of("oranfstab_mount", &mount, "path_count", i64::try_from(self.paths.len()).unwrap_or(i64::MAX), origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_mounts_are_things() {
        let mut facts = Facts::default();
        read(
            "server: f1\nlocal: 10.0.0.1\npath: 10.0.0.9\npath: 10.0.1.9\nexport: /vol/a mount: /u01\nexport: /vol/b  mount: /u02\nnoise\n",
            "/etc/oranfstab",
            &mut facts,
        );
        assert_eq!(facts.value_of("oranfstab_path", "f1#2", "path"), Some(&"10.0.1.9".into()));
        assert_eq!(facts.value_of("oranfstab_path", "f1#1", "local"), Some(&"10.0.0.1".into()));
        assert_eq!(facts.value_of("oranfstab_mount", "/u02", "export"), Some(&"/vol/b".into()));
        assert_eq!(facts.remarks.len(), 1);
    }
}
