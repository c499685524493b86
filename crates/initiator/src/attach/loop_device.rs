//! Loop devices and mounts of this host: by util-linux's programs, and by what sysfs and procfs say.

use super::btrfs;
use super::error::AttachError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A loop device has this long to go: udev may still look at it.
const GONE: Duration = Duration::from_secs(5);
/// The pause between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

/// A loop device that stands on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// As in `loop3`.
    name: String,
}

/// A mount of this process' mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Major and minor number of the device, as in `7:3`.
    pub device: String,
    /// Where.
    pub directory: PathBuf,
    /// The file system: `xfs`.
    pub kind: String,
    /// What was mounted: `/dev/loop3`.
    pub source: String,
}

impl LoopDevice {
    /// Makes one with direct I/O, with logical blocks of so many bytes, and with its partitions.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`]; [`AttachError::Buffered`], and there is none left then.
    pub fn attach(file: &Path, block_bytes: u32, read_only: bool) -> Result<Self, AttachError> {
        let mut command = Command::new("losetup");
        command.args(["--direct-io=on", "--partscan", "--find", "--show", "--sector-size", &block_bytes.to_string()]);
        if read_only {
            command.arg("--read-only");
        }
        let said = output("losetup", command.arg(file))?;
        let name = said.trim().trim_start_matches("/dev/").to_owned();
        let device = Self { name };
        // losetup goes on without it where the kernel refuses.
        if device.attribute("loop/dio")?.trim() == "1" {
            return Ok(device);
        }
        device.detach()?;
        Err(AttachError::Buffered { device: device.path() })
    }

    /// All that stand on a file, by the path that it was attached by.
    ///
    /// # Errors
    /// [`AttachError::Read`].
    pub fn of_file(file: &Path) -> Result<Vec<Self>, AttachError> {
        let blocks = Path::new("/sys/block");
        let fault = |source| AttachError::Read { path: blocks.to_owned(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(blocks).map_err(fault)? {
            let name = entry.map_err(fault)?.file_name().to_string_lossy().into_owned();
            let device = Self { name };
            let backing = device.name.starts_with("loop").then(|| device.attribute("loop/backing_file").ok()).flatten();
            if backing.is_some_and(|backing| Path::new(backing.trim_end_matches('\n')) == file) {
                found.push(device);
            }
        }
        Ok(found)
    }

    /// As in `/dev/loop3`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// Major and minor numbers of it and of its partitions.
    fn numbers(&self) -> Vec<String> {
        let own = self.attribute("dev").ok();
        let parts = self.partitions().into_iter().map(|name| self.attribute(&format!("{name}/dev")).ok());
        std::iter::once(own).chain(parts).flatten().map(|text| text.trim().to_owned()).collect()
    }

    /// Partitions that do not begin at a multiple of so many bytes, and where they do.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        let start = |name: &String| self.attribute(&format!("{name}/start")).ok()?.trim().parse::<u64>().ok();
        // In units of 512 bytes, whatever the block is.
        let starts = self.partitions().into_iter().filter_map(|name| start(&name).map(|start| (name, start.saturating_mul(512))));
        starts.filter(|(_, start)| !start.is_multiple_of(bytes.max(1))).collect()
    }

    /// Where its file system, or that of a partition, is mounted; of btrfs also by another of its devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mounted> {
        let (numbers, names, btrfs) = (self.numbers(), self.names(), btrfs::mounted());
        let stands_here = |mount: &Mounted| {
            numbers.contains(&mount.device) || btrfs::devices_below(mount, &btrfs).iter().any(|name| names.contains(name))
        };
        mounts().into_iter().filter(stands_here).collect()
    }

    /// What of this host uses it: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        let nodes: Vec<String> = self.names().iter().map(|name| format!("/dev/{name}")).collect();
        let mounted = self.mounts();
        let mut users: Vec<String> = mounted.iter().map(|mount| format!("a mount at {}", mount.directory.display())).collect();
        users.extend(mounted_apart(&self.numbers()));
        if mounted.is_empty() {
            let names = self.names();
            let of_others = btrfs::mounted().into_iter().find(|(_, devices)| devices.iter().any(|name| names.contains(name)));
            users.extend(of_others.map(|(uuid, _)| format!("btrfs {uuid}, mounted in another mount namespace")));
        }
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        users.extend(nodes.iter().filter(|node| has_first_word(&swaps, node)).map(|node| format!("swap on {node}")));
        for holder in fs::read_dir(self.sys("holders")).into_iter().flatten().flatten() {
            users.push(format!("block device {}", holder.file_name().to_string_lossy()));
        }
        users.extend(processes(|target| nodes.iter().any(|node| target == Path::new(node))));
        users
    }

    /// Detaches it, and waits until it is gone.
    ///
    /// # Errors
    /// [`AttachError::Program`], [`AttachError::Failed`], [`AttachError::Busy`]: it goes when its last user closes it.
    pub fn detach(&self) -> Result<(), AttachError> {
        btrfs::forget(&self.path());
        output("losetup", Command::new("losetup").arg("--detach").arg(self.path()))?;
        let limit = Instant::now() + GONE;
        while self.sys("loop/backing_file").exists() {
            if Instant::now() >= limit {
                return Err(AttachError::Busy { device: self.path(), seconds: GONE.as_secs() });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Its own name, and those of its partitions.
    fn names(&self) -> Vec<String> {
        std::iter::once(self.name.clone()).chain(self.partitions()).collect()
    }

    fn partitions(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sys("")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('p'))).collect()
    }

    fn sys(&self, attribute: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join(attribute)
    }

    fn attribute(&self, attribute: &str) -> Result<String, AttachError> {
        let path = self.sys(attribute);
        fs::read_to_string(&path).map_err(|source| AttachError::Read { path, source })
    }
}

/// Runs a program of the host to its end, without a stdin unless it was given one; what it printed.
pub(super) fn output(program: &'static str, command: &mut Command) -> Result<String, AttachError> {
    let ended = command.output().map_err(|source| AttachError::Program { program, source })?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let arguments: Vec<String> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    let said = if said.is_empty() { ended.status.to_string() } else { said };
    Err(AttachError::Failed { program, arguments: arguments.join(" "), said })
}

/// The mounts of this process' mount namespace (proc(5), mountinfo), in the order in which they were made.
#[must_use]
pub fn mounts() -> Vec<Mounted> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    String::from_utf8_lossy(&table).lines().filter_map(mounted).collect()
}

fn mounted(line: &str) -> Option<Mounted> {
    // Optional fields end with a hyphen.
    let (mount, file_system) = line.split_once(" - ")?;
    let (mut fields, mut file_system) = (mount.split(' '), file_system.split(' '));
    let (device, directory) = (fields.nth(2)?, fields.nth(1)?);
    let (kind, source) = (file_system.next()?, file_system.next()?);
    Some(Mounted {
        device: device.to_owned(),
        directory: unescaped(directory).into(),
        kind: kind.to_owned(),
        source: unescaped(source),
    })
}

/// Whether this is a loop device, or a partition of one, on a file of a FUSE file system whose process has died.
pub(super) fn is_dead(source: &str) -> bool {
    let Some(rest) = source.strip_prefix("/dev/loop") else { return false };
    let number = rest.split('p').next().unwrap_or_default();
    let device = LoopDevice { name: format!("loop{number}") };
    let file = device.attribute("loop/backing_file").unwrap_or_default();
    fs::metadata(file.trim_end_matches('\n')).is_err_and(|error| error.kind() == io::ErrorKind::NotConnected)
}

/// Mounts of these devices in mount namespaces of others that unmounting here does not end: copies without propagation
/// (mount_namespaces(7)), as `unshare --mount` and some containers make of what is mounted when they start.
fn mounted_apart(devices: &[String]) -> Vec<String> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let mut seen = vec![namespace(Path::new("/proc/self"))];
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Some(of) = namespace(&process) else { continue };
        if seen.iter().flatten().any(|known| *known == of) {
            continue;
        }
        seen.push(Some(of));
        let table = fs::read(process.join("mountinfo")).unwrap_or_default();
        let table = String::from_utf8_lossy(&table);
        let apart = table.lines().filter(|line| !is_propagated(line)).filter_map(mounted);
        let (id, name) = (process.file_name().unwrap_or_default(), fs::read_to_string(process.join("comm")).unwrap_or_default());
        found.extend(apart.filter(|mount| devices.contains(&mount.device)).map(|mount| {
            let (directory, id) = (mount.directory.display(), id.display());
            format!("a mount at {directory} in the mount namespace of process {id} ({})", name.trim())
        }));
    }
    found
}

/// Whether a line of mountinfo is of a mount that is unmounted with that of its peers or its master.
fn is_propagated(line: &str) -> bool {
    let optional = line.split(' ').skip(6).take_while(|field| *field != "-");
    optional.into_iter().any(|field| field.starts_with("shared:") || field.starts_with("master:"))
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.into_iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// Other processes that have something open, `process 7 (bash)`, or stand in it, which is said. Not this one: its user cannot end it.
pub(super) fn processes(is_meant: impl Fn(&Path) -> bool) -> Vec<String> {
    let meant = |link: PathBuf| fs::read_link(link).ok().filter(|target| is_meant(target));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if pid == std::process::id() {
            continue;
        }
        let folder = entry.path();
        let descriptors = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten().map(|fd| fd.path());
        let mut links = descriptors.chain(["root", "exe"].into_iter().map(|name| folder.join(name)));
        let has_open = links.any(|link| meant(link).is_some());
        let place = meant(folder.join("cwd"));
        if has_open || place.is_some() {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            let place = place.map(|place| format!("; its working directory is in {}: cd elsewhere", place.display()));
            found.push(format!("process {pid} ({}{})", name.trim(), place.unwrap_or_default()));
        }
    }
    found
}

/// Whether a table has a line with this first column.
fn has_first_word(table: &str, word: &str) -> bool {
    table.lines().any(|line| line.split_whitespace().next() == Some(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_with_a_space_in_its_path_is_read() {
        let line = r"36 35 7:3 / /mnt/a\040b rw,noatime master:1 - ext4 /dev/loop3 rw";
        let (kind, source) = ("ext4".into(), "/dev/loop3".into());
        assert_eq!(mounted(line), Some(Mounted { device: "7:3".into(), directory: "/mnt/a b".into(), kind, source }));
        assert_eq!(mounted("36 35"), None);
        assert!(is_propagated(line) && is_propagated("36 35 7:3 / /a rw shared:5 - ext4 /dev/loop3 rw"));
        assert!(!is_propagated("36 35 7:3 / /a rw - ext4 /dev/loop3 rw"));
    }

    #[test]
    fn this_host_has_a_root_and_no_loop_device_on_a_file_that_does_not_exist() {
        assert!(mounts().iter().any(|mount| mount.directory == Path::new("/")));
        assert_eq!(LoopDevice::of_file(Path::new("/no/such/file")).unwrap(), []);
    }

    #[test]
    fn a_process_that_stands_somewhere_is_told_with_what_to_do_and_never_oneself() {
        let place = std::env::temp_dir().join(format!("millrace-stands-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let open = fs::File::open(&place).unwrap();
        assert_eq!(processes(|target| target == place), Vec::<String>::new(), "only this one has it open");
        drop(open);
        let mut sleeper = Command::new("sleep").arg("60").current_dir(&place).spawn().unwrap();
        let said = processes(|target| target == place);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let expected = format!("process {} (sleep; its working directory is in {}: cd elsewhere)", sleeper.id(), place.display());
        assert_eq!(said, [expected]);
        fs::remove_dir(&place).unwrap();
    }

    #[test]
    fn a_swap_device_is_known_by_its_whole_name() {
        let swaps = "Filename Type\n/dev/loop11 partition\n";
        assert!(has_first_word(swaps, "/dev/loop11") && !has_first_word(swaps, "/dev/loop1"));
    }
}
