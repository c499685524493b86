//! Other programs that tests search for. Under CI, a test fails if one is missing, so
//! `scripts/setup` must install each of them.

use crate::tree::{read, report, root, rust_files, shown};

/// Programs that need no row of their own, by their package. Each Debian has the package, or it has a row.
const COME_WITH: [(&str, &[&str]); 5] = [
    ("coreutils", &["true"]),
    ("util-linux", &["flock", "losetup", "script", "setpriv"]),
    ("e2fsprogs", &["chattr"]),
    ("postgresql", &["psql", "pgbench", "pg_createcluster"]),
    ("mariadb-server-core", &["mariadbd", "mariadb-install-db", "innochecksum"]),
];

#[test]
fn each_program_that_a_test_looks_for_is_installed_by_the_setup() {
    let setup = read(&root().join("scripts/setup"));
    let mut faults = Vec::new();
    let mut looked_for = 0;
    for file in rust_files() {
        let text = read(&file);
        for program in text.split("find_program(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            looked_for += 1;
            if !is_installed(program, &setup) {
                faults.push(format!("{}: {program} has no row in scripts/setup", shown(&file)));
            }
        }
    }
    assert!(looked_for > 40, "only {looked_for} programs found: is find_program called by another name?");
    report("programs that nothing installs", &faults);
}

/// Whether the setup names the program by a path, or by a command with exactly this name.
fn is_installed(program: &str, setup: &str) -> bool {
    let asked_for = [format!("command -v {program} "), format!("bin/{program} ]")];
    asked_for.iter().any(|row| setup.contains(row)) || COME_WITH.iter().any(|(_, programs)| programs.contains(&program))
}
