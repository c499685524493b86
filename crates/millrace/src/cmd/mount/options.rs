//! Options of fstab(5) and mount(8), and the forms in which those call `millrace`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Name by which mount(8) finds the helper for mounts of the type `fuse.millrace`.
const HELPER: &str = "mount.fuse.millrace";

/// The options of a text such as `ro,noexec,_netdev`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) read_only: bool,
    pub(super) no_exec: bool,
    pub(super) allow_other: bool,
    pub(super) group: Option<String>,
    pub(super) log: Option<String>,
}

const REMOUNT: &str = "a mount of millrace cannot be changed: unmount it, and mount it again with the other options";

impl std::str::FromStr for Options {
    /// The reason why an option is refused.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value.to_owned())));
            match (name, value) {
                ("ro", None) => options.read_only = true,
                ("rw", None) => options.read_only = false,
                ("noexec", None) => options.no_exec = true,
                ("exec", None) => options.no_exec = false,
                ("allow_other", None) => options.allow_other = true,
                ("group", value @ Some(_)) => options.group = value,
                ("log", value @ Some(_)) => options.log = value,
                ("remount", None) => return Err(REMOUNT.into()),
                (name, _) if is_for_others(name) => {}
                _ => return Err(unknown(option)),
            }
        }
        Ok(options)
    }
}

fn unknown(option: &str) -> String {
    // The option may be one of nfs(5) that a URL accepts, or refuses with a reason.
    let url = format!("nfs://HOST/EXPORT?{option}");
    match url.parse::<dnfs::NfsUrl>() {
        Ok(_) => return format!("{option} is an option of the client: write it into the URL, as in {url}"),
        Err(error @ dnfs::UrlError::Value { .. }) => return error.to_string().replace(" in the URL", ""),
        Err(_) => {}
    }
    format!(
        "unknown option {option}; known are ro, rw, exec, noexec, allow_other, group=GROUP, log=FILE, and the options that mount(8) reads \
         itself (fstab(5)); options of the client go into the URL, as in nfs://HOST/EXPORT?rsize=65536"
    )
}

/// Whether an option is for mount(8) or systemd, or describes every mount of Millrace. mount(8) passes `dev` and `suid` to each
/// helper; the mount is `nodev,nosuid` in any case.
fn is_for_others(name: &str) -> bool {
    const NAMES: [&str; 24] = [
        "defaults",
        "auto",
        "noauto",
        "nofail",
        "_netdev",
        "user",
        "nouser",
        "users",
        "owner",
        "group",
        "dev",
        "nodev",
        "suid",
        "nosuid",
        "async",
        "atime",
        "noatime",
        "diratime",
        "nodiratime",
        "relatime",
        "norelatime",
        "strictatime",
        "lazytime",
        "comment",
    ];
    NAMES.contains(&name) || name.starts_with("x-") || name.starts_with("X-")
}

/// The arguments of this process, in the form of `millrace mount` if mount(8) or mount.fuse(8)
/// called it. mount(8) calls `mount.fuse.millrace URL DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t
/// TYPE]` (mount(8), "external helpers"). mount.fuse(8) calls the program that a type names:
/// `millrace URL DIR [-o OPTIONS]`.
pub(crate) fn of_mount_program(arguments: Vec<OsString>) -> Vec<OsString> {
    let is_helper = arguments.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(HELPER)));
    let is_url = arguments.get(1).is_some_and(|argument| argument.as_encoded_bytes().starts_with(b"nfs://"));
    if !is_helper && !is_url {
        return arguments;
    }
    let mut translated: Vec<OsString> = ["millrace", "mount", "--by-mount"].map(OsString::from).into();
    let mut plain = Vec::new();
    let mut rest = arguments.into_iter().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_encoded_bytes() {
            b"-o" => translated.extend([Some(argument), rest.next()].into_iter().flatten()),
            // The type is known here, so the option is dropped.
            b"-t" => drop(rest.next()),
            [b'-', flags @ ..] if !flags.is_empty() && flags.iter().all(|flag| b"snv".contains(flag)) => {}
            [b'-', ..] => translated.push(argument),
            _ => plain.push(argument),
        }
    }
    translated.push("--".into());
    translated.extend(plain);
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_fstab_are_taken_and_unknown_ones_named() {
        let parsed: Options = "ro,_netdev,dev,suid,noexec,x-systemd.automount,group=mysql".parse().unwrap();
        assert_eq!(parsed, Options { read_only: true, no_exec: true, group: Some("mysql".into()), ..Options::default() });
        assert_eq!("ro,rw,noexec,exec,group,defaults".parse(), Ok(Options::default()));
        assert_eq!("remount,ro".parse::<Options>(), Err(REMOUNT.into()));
        let refused = |text: &str| text.parse::<Options>().unwrap_err();
        assert!(refused("rsize=8192").contains("nfs://HOST/EXPORT?rsize=8192"));
        assert!(refused("sec=krb5").contains("xprtsec=tls") && refused("vers=4.2").contains("expected 3"));
        assert!(refused("rozo").contains("unknown option rozo; known are ro, rw"));
    }

    #[test]
    fn what_mount_programs_pass_becomes_millrace_mount() {
        let translated = |arguments: &str| {
            let words = of_mount_program(arguments.split(' ').map(OsString::from).collect());
            words.join(OsStr::new(" ")).into_string().unwrap()
        };
        let wanted = "millrace mount --by-mount -o ro,_netdev -- nfs://filer/vol /mnt";
        assert_eq!(translated("millrace nfs://filer/vol /mnt -o ro,_netdev"), wanted);
        assert_eq!(translated("/sbin/mount.fuse.millrace nfs://filer/vol /mnt -sn -v -o ro,_netdev -t fuse.millrace"), wanted);
        assert_eq!(
            translated("mount.fuse.millrace nfs://filer/vol /mnt -f"),
            "millrace mount --by-mount -f -- nfs://filer/vol /mnt"
        );
        assert_eq!(translated("millrace mount nfs://filer/vol /mnt"), "millrace mount nfs://filer/vol /mnt");
    }
}
