//! Containers: a compose file and a pod. Both run under any uid, without capabilities, on a
//! read-only root and under the default seccomp filter. The files that a database writes beside its
//! data are in a tmpfs or an emptyDir.

use anyhow::Context;

use super::version::{VERSION, postgres_version};
use super::{Kind, Unit};

/// The path of the binary in an image.
const BINARY: &str = "/usr/bin/millrace";
/// Bytes of /dev/shm beyond unstable data: sizes, attributes and counters, and the database's own
/// segments.
const SHARED_BYTES: u64 = 256 << 20;
/// The time limit of a stop, during which a fast shutdown writes a checkpoint.
const STOP_SECONDS: u32 = 120;

pub(super) fn compose(unit: &Unit) -> anyhow::Result<String> {
    // Compose reads $NAME in every value as a variable.
    let words = |words: &[String]| yaml(&words.iter().map(|word| word.replace('$', "$$")).collect::<Vec<_>>());
    let at = unit.command_at();
    let mut entry = vec![BINARY.to_owned()];
    entry.extend(unit.arguments.iter().take(at).cloned());
    let command: Vec<String> = unit.arguments.iter().skip(at).cloned().collect();
    let memory: Vec<String> = scratch(unit.kind).iter().map(|path| format!("{path}:mode=1777")).collect();
    let label = unit.label();
    let head = notes(unit, "docker compose -f FILE up, or podman-compose");
    let mut text = format!(
        "{head}services:\n  {label}:\n    image: {image}\n    user: {user}\n    entrypoint: {entry}\n    command: {command}\n    \
         read_only: true\n    cap_drop: [\"ALL\"]\n    security_opt: [\"no-new-privileges:true\"]\n    tmpfs: {memory}\n    \
         shm_size: {shared}\n    environment: {environment}\n    restart: unless-stopped\n    stop_grace_period: {STOP_SECONDS}s\n",
        image = yaml(&image(unit))?,
        user = yaml(&format!("{}:{}", unit.user.uid, unit.user.gid))?,
        entry = words(&entry)?,
        command = words(&command)?,
        memory = yaml(&memory)?,
        shared = shared_bytes(unit),
        environment = yaml(&[format!("{}={}", super::super::group::VARIABLE, runtime_directory(unit))])?,
    );
    if unit.kind == Kind::Postgres {
        text += "    stop_signal: SIGINT\n";
    }
    Ok(text)
}

pub(super) fn pod(unit: &Unit) -> anyhow::Result<String> {
    // Kubernetes expands $(NAME) in a command.
    let mut command = vec![BINARY.to_owned()];
    command.extend(unit.arguments.iter().map(|word| word.replace("$(", "$$(")));
    let (label, paths) = (unit.label(), scratch(unit.kind));
    let head = notes(unit, "kubectl apply -f FILE");
    let mut text = format!(
        "{head}# A pod by itself: a Deployment starts the next pod before the last has ended, and both would have the data open.\n\
         # On OpenShift, which assigns the uid, leave runAsUser and runAsGroup out and give that uid the files.\n\
         apiVersion: v1\nkind: Pod\nmetadata:\n  name: {label}\n  labels:\n    app: {label}\nspec:\n  \
         automountServiceAccountToken: false\n  restartPolicy: Always\n  terminationGracePeriodSeconds: {STOP_SECONDS}\n  securityContext:\n    \
         runAsNonRoot: true\n    runAsUser: {uid}\n    runAsGroup: {gid}\n    seccompProfile:\n      type: RuntimeDefault\n  \
         containers:\n    - name: {label}\n      image: {image}\n      command: {command}\n      env:\n        - name: {variable}\n          value: {runtime}\n",
        variable = super::super::group::VARIABLE,
        runtime = yaml(&runtime_directory(unit))?,
        uid = unit.user.uid,
        gid = unit.user.gid,
        image = yaml(&image(unit))?,
        command = yaml(&command)?,
    );
    if unit.kind == Kind::Postgres {
        // SIGTERM, which Kubernetes sends next, would wait for every client. PostgreSQL obeys the
        // first signal.
        text +=
            "      lifecycle:\n        preStop:\n          exec:\n            command: [\"/bin/sh\", \"-c\", \"kill -INT 1\"]\n";
    }
    text += "      securityContext:\n        allowPrivilegeEscalation: false\n        readOnlyRootFilesystem: true\n        \
             capabilities:\n          drop: [\"ALL\"]\n      volumeMounts:\n        - name: shm\n          mountPath: /dev/shm\n";
    for (number, path) in paths.iter().enumerate() {
        text += &format!("        - name: scratch-{number}\n          mountPath: {path}\n");
    }
    text += &format!(
        "  volumes:\n    - name: shm\n      emptyDir:\n        medium: Memory\n        sizeLimit: \"{}\"\n",
        shared_bytes(unit)
    );
    for number in 0..paths.len() {
        text += &format!("    - name: scratch-{number}\n      emptyDir: {{}}\n");
    }
    Ok(text)
}

/// Comments at the head of a compose file and of a pod.
fn notes(unit: &Unit, start: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "# {} over Direct NFS: {start}\n\
         # The image has millrace and the program{}. From an image of the program, and that of millrace:\n\
         #   FROM {}\n\
         #   COPY --from=localhost/millrace:{version} /usr/bin/millrace /usr/bin/\n\
         #   COPY --from=localhost/millrace:{version} /usr/lib/millrace /usr/lib/millrace\n\
         # {}:{} owns the files on the export. Nothing is mounted: {} exists for this program alone.\n\
         # It connects from a port above 1023: an export of knfsd needs the option insecure.\n\
         # No second container may have the same data open. Nothing prevents it: both would write.\n",
        unit.name,
        match unit.kind {
            Kind::Postgres | Kind::Cluster => ", of the version of the data directory (PG_VERSION in it)",
            Kind::MariaDb => ", not older than what wrote the data directory",
            Kind::Other => "",
        },
        match unit.kind {
            Kind::Postgres | Kind::Cluster => {
                format!("postgres:{}", postgres_version(unit.arguments.get(unit.command_at()).map_or("", String::as_str)))
            }
            Kind::MariaDb => format!("mariadb:{VERSION}"),
            Kind::Other => "IMAGE".to_owned(),
        },
        unit.user.uid,
        unit.user.gid,
        unit.paths()
    );
    if unit.mounts.iter().any(|mount| mount.url.server_set().into_iter().any(is_loopback)) {
        text += "# The URL names a loopback address, and that is the container itself: name the server's address on the network, or share\n\
                 # the network of its host (network_mode: host; hostNetwork: true).\n";
    }
    let files = unit.certificates();
    if !files.is_empty() {
        text += &format!("# Put these files into the container, readable by that user: {}\n", files.join(", "));
    }
    text
}

/// `localhost`, `127.0.0.1`, `::1`.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn image(unit: &Unit) -> String {
    unit.image.clone().unwrap_or_else(|| format!("localhost/millrace-{}:{}", unit.label(), env!("CARGO_PKG_VERSION")))
}

/// Directories that a program writes beside its data: sockets, lock files, sorts of its tools.
fn scratch(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Postgres | Kind::Cluster => &["/tmp", "/var/run/postgresql"],
        Kind::MariaDb => &["/tmp", "/var/run/mysqld"],
        Kind::Other => &["/tmp"],
    }
}

/// The runtime directory in the container's /dev/shm. Its name does not depend on the container's uid.
fn runtime_directory(unit: &Unit) -> String {
    format!("/dev/shm/{}", unit.runtime_name())
}

fn shared_bytes(unit: &Unit) -> u64 {
    unit.mounts.iter().map(|mount| mount.url.options.retain_bytes).sum::<u64>() + SHARED_BYTES
}

/// A value as JSON, which is also YAML 1.2.
fn yaml<T: serde::Serialize + ?Sized>(value: &T) -> anyhow::Result<String> {
    serde_json::to_string(value).context("print")
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn addresses_that_are_the_container_itself_are_known() {
        for (host, itself) in
            [("127.0.0.1", true), ("::1", true), ("[::1]", true), ("localhost", true), ("10.0.0.1", false), ("filer", false)]
        {
            assert_eq!(is_loopback(host), itself, "{host}");
        }
    }
}
