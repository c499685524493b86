//! Gets the guest's kernel: a package of the distribution, unpacked into the cache and never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::LabError;
use crate::guest::cache::{Cache, Kernel};
use crate::guest::programs::{APT_CACHE, APT_GET, DEPMOD, DPKG_DEB, QEMU};
use crate::guest::unpacking::{self, UNPACK_MAX, Unpacking};
use crate::guest::{kvm, modules, programs, vmlinux};
use crate::host::interrupt;
use crate::placement::workdir::{make_directory, remove_tree};

const NAME_PACKAGE: &str = "name the file of a kernel's Debian package, as `apt-get download` writes it (of linux-image-VERSION, not of the \
                            metapackage linux-image-amd64); without --package the command fetches one";
const NO_SPACE: &str = "check that the directory of the kernel has 600 MB free, then run the command again";

/// The package that depends on the newest kernel of the distribution.
const META_PACKAGE: &str = "linux-image-amd64";
/// Longest download: 70 MB from a slow mirror.
const DOWNLOAD_MAX: Duration = Duration::from_secs(1800);

/// Result of fetching a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The kernel that guests boot from now on.
    pub kernel: Kernel,
    /// Whether it already existed.
    pub was_there: bool,
    /// Whether guests run with KVM, and the observed behaviour.
    pub kvm: (bool, String),
}

/// Fetches and unpacks the kernel, unless the newest one exists, and tests KVM.
///
/// With `packages`, files of a kernel's packages, nothing is fetched.
///
/// # Errors
/// A program is missing, the package cannot be fetched or is not a kernel's, or a signal was received. The existing kernel
/// is kept.
pub fn fetch(cache: &Cache, packages: &[PathBuf], say: &mut dyn FnMut(&str)) -> Result<Fetched, LabError> {
    interrupt::catch();
    if let Some(missing) = packages.iter().find(|file| !file.is_file()) {
        return Err(LabError::plan(format!("unpack {}: no such file", missing.display()), NAME_PACKAGE));
    }
    cache.make()?;
    unpacking::sweep(cache);
    programs::static_busybox()?;
    let qemu = QEMU.require()?;
    let newest = if packages.is_empty() { Some(newest_package()?) } else { None };
    let there = cache.kernel().filter(|kernel| newest.as_ref() == Some(&kernel.package));
    let was_there = there.is_some();
    let kernel = match there {
        Some(kernel) => kernel,
        None => bring(cache, packages, newest.as_deref(), say)?,
    };
    if !cache.plain_image(&kernel).is_file()
        && let Some(why) = vmlinux::extract(cache, &kernel)?
    {
        say(&format!("guests boot the compressed kernel, some seconds longer: {why}"));
    }
    say("trying whether a guest starts with KVM");
    let tried = kvm::choose(cache, &kernel, &qemu)?;
    Ok(Fetched { kernel, was_there, kvm: (tried.works, tried.found) })
}

/// Unpacks into a separate directory, and moves the needed files to their place.
fn bring(cache: &Cache, packages: &[PathBuf], newest: Option<&str>, say: &mut dyn FnMut(&str)) -> Result<Kernel, LabError> {
    let unpacking = Unpacking::make(cache)?;
    let files = match newest {
        Some(package) => {
            say(&format!("fetching {package}"));
            vec![download(&unpacking, package)?]
        }
        None => packages.to_vec(),
    };
    let root = unpacking.path("root");
    for file in &files {
        say(&format!("unpacking {}", file.display()));
        let mut command = Command::new(DPKG_DEB.require()?);
        command.arg("-x").arg(file).arg(&root);
        let hint = if newest.is_some() { NO_SPACE } else { NAME_PACKAGE };
        unpacking.run_or("dpkg-deb", command, UNPACK_MAX, hint.to_owned())?;
    }
    let names: Vec<String> = files.iter().filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned())).collect();
    let package = newest.map_or_else(|| names.join(" "), str::to_owned);
    let kernel = install(cache, &unpacking, &root, package)?;
    cache.write("kernel.json", &kernel)?;
    remove_others(cache, &kernel);
    Ok(kernel)
}

/// Moves image and modules into the directory of their version.
fn install(cache: &Cache, unpacking: &Unpacking, root: &Path, package: String) -> Result<Kernel, LabError> {
    let no_kernel = |what: &str| LabError::Missing {
        what: format!("find {what} in {package}"),
        hint: "name the files of a kernel's packages, image and modules, with --package FILE".to_owned(),
    };
    let above = ["lib/modules", "usr/lib/modules"].map(|path| root.join(path));
    let modules = above.iter().find(|path| path.is_dir()).ok_or_else(|| no_kernel("modules"))?;
    let version = only_name(modules).ok_or_else(|| no_kernel("the modules of one kernel"))?;
    let image = root.join(format!("boot/vmlinuz-{version}"));
    if !image.is_file() {
        return Err(no_kernel(&format!("boot/vmlinuz-{version}")));
    }
    let (kernel, whole) = (Kernel { version, package: package.clone() }, unpacking.path("kernel"));
    make_directory(&whole, 0o755)?;
    make_directory(&whole.join("lib"), 0o755)?;
    let moved = |from: &Path, to: &Path| fs::rename(from, to).map_err(LabError::file("move", from));
    moved(modules, &whole.join("lib/modules"))?;
    moved(&image, &whole.join("vmlinuz"))?;
    let directory = whole.join("lib/modules").join(&kernel.version);
    depmod(unpacking, &whole, &kernel.version)?;
    if decompress(unpacking, &directory)? {
        depmod(unpacking, &whole, &kernel.version)?;
    }
    let place = cache.directory_of(&kernel.version);
    remove_tree(&place)?;
    moved(&whole, &place)?;
    Ok(kernel)
}

/// Writes modules.dep, which is normally done when the package is installed.
fn depmod(unpacking: &Unpacking, base: &Path, version: &str) -> Result<(), LabError> {
    let mut command = Command::new(DEPMOD.require()?);
    command.arg("-b").arg(base).arg(version);
    unpacking.run("depmod", command, UNPACK_MAX)
}

/// Decompresses the modules of the initial root, because its insmod accepts only uncompressed ones. Returns whether there were any.
fn decompress(unpacking: &Unpacking, modules: &Path) -> Result<bool, LabError> {
    let mut any = false;
    for file in modules::in_load_order(modules, &modules::NEEDED)? {
        any |= unpacking.decompress(&file)?;
    }
    Ok(any)
}

/// The name of the single entry of a directory.
fn only_name(directory: &Path) -> Option<String> {
    let mut entries = fs::read_dir(directory).ok()?.flatten();
    let first = entries.next()?.file_name().into_string().ok()?;
    entries.next().is_none().then_some(first)
}

/// The package of the distribution's newest kernel, as `NAME=VERSION`.
fn newest_package() -> Result<String, LabError> {
    let program = APT_CACHE.find().filter(|_| APT_GET.find().is_some()).ok_or_else(|| LabError::Missing {
        what: "fetch a kernel: there is no apt-get".to_owned(),
        hint: "name the files of a kernel's packages of Debian with --package FILE".to_owned(),
    })?;
    let ask = |arguments: [&str; 3]| {
        let output = Command::new(&program).args(arguments).env("LC_ALL", "C").output();
        let output = output.map_err(|source| LabError::Start { program: program.display().to_string(), source })?;
        Ok::<_, LabError>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let unknown = || LabError::Missing {
        what: format!("find the package {META_PACKAGE} in the lists of packages"),
        hint: "apt-get update, as root; or name the files of a kernel's packages with --package FILE".to_owned(),
    };
    let name = dependency(&ask(["depends", "--important", META_PACKAGE])?).ok_or_else(unknown)?;
    let version = field(&ask(["show", "--no-all-versions", &name])?, "Version").ok_or_else(unknown)?;
    Ok(format!("{name}={version}"))
}

/// The first image that a meta package depends on.
fn dependency(text: &str) -> Option<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.filter(|name| name.starts_with("linux-image-")).map(str::to_owned).next()
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.trim().to_owned()))
}

/// Fetches a package with the distribution's own tool, which also verifies it.
fn download(unpacking: &Unpacking, package: &str) -> Result<PathBuf, LabError> {
    let folder = unpacking.path("package");
    make_directory(&folder, 0o755)?;
    let mut command = Command::new(APT_GET.require()?);
    // As this user: _apt may not write into a directory of this user only.
    command.args(["download", "-q", "-o", "APT::Sandbox::User=root", package]).current_dir(&folder);
    unpacking.run("apt-get", command, DOWNLOAD_MAX)?;
    only_name(&folder).map(|name| folder.join(name)).ok_or_else(|| LabError::Missing {
        what: format!("find what apt-get fetched as {package}"),
        hint: "apt-get update, as root".to_owned(),
    })
}

/// Removes kernels that no guest will boot.
fn remove_others(cache: &Cache, kernel: &Kernel) {
    let stays = cache.directory_of(&kernel.version);
    for entry in fs::read_dir(cache.root()).into_iter().flatten().flatten() {
        let path = entry.path();
        // A running guest keeps what it has read; the next boot uses the new kernel.
        if entry.file_name().to_string_lossy().starts_with("kernel-") && path.is_dir() && path != stays {
            let _ = remove_tree(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_what_the_meta_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(dependency(text).as_deref(), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(dependency("linux-image-amd64\n  Conflicts: x\n"), None);
        assert_eq!(field("Package: a\nVersion: 6.1.192-2\n", "Version").as_deref(), Some("6.1.192-2"));
    }

    #[test]
    fn a_package_without_a_kernel_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(folder.path().join("guest"))).unwrap();
        cache.make().unwrap();
        let unpacking = Unpacking::make(&cache).unwrap();
        let root = unpacking.path("root");
        fs::create_dir_all(root.join("lib/modules/6.1.0-1")).unwrap();
        let error = install(&cache, &unpacking, &root, "p".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "find boot/vmlinuz-6.1.0-1 in p");
        drop(unpacking);
        assert_eq!(fs::read_dir(cache.root()).unwrap().count(), 0);
    }
}
