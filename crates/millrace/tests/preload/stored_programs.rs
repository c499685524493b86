//! Programs and libraries on a mount run and load as from a local disk.

use crate::support::world::{World, compile};
use crate::support::{find_program, skip, succeed, text};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload").join(name)
}

fn built(world: &World, name: &str, options: &[&str], text: &str) -> Option<PathBuf> {
    let Some(compiler) = find_program("cc") else {
        skip("no C compiler");
        return None;
    };
    let source = world.scratch.path().join(format!("{name}.c"));
    std::fs::write(&source, text).unwrap();
    let made = world.scratch.path().join(name);
    succeed(Command::new(compiler).args(options).arg("-o").arg(&made).arg(source));
    Some(made)
}

#[test]
fn stored_programs_and_libraries_run_as_from_a_local_disk() {
    let world = World::new("stored");
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let Some(starter) = compile(&world.scratch, "exec", &["-O1"]) else { return };
    let printing =
        "#include <stdio.h>\nint main(int n, char **a) { for (int i = 0; i < n; i++) printf(\"<%s>\", a[i]); return 7; }\n";
    let Some(printing) = built(&world, "printing", &[], printing) else { return };
    let Some(library) = built(&world, "library.so", &["-shared", "-fPIC"], "int next(void) { static int n; return ++n; }\n")
    else {
        return;
    };
    let given = |command: &mut Command, folder: &Path| {
        command.arg(beside("stored_programs.py")).arg(folder).args([&starter, &printing, &library]).output().unwrap()
    };
    let local = world.scratch.folder("local");
    let expected = given(&mut Command::new(&python), Path::new(&local));
    assert!(expected.status.success(), "{}", text(&expected));
    std::fs::create_dir(Path::new(&world.filer.export()).join("programs")).unwrap();
    let output = given(&mut world.exec(python.to_str().unwrap()), Path::new("/db/programs"));
    assert!(output.status.success(), "{}", text(&output));
    let (expected, got) = (String::from_utf8_lossy(&expected.stdout), String::from_utf8_lossy(&output.stdout));
    for (expected, got) in expected.lines().zip(got.lines()) {
        assert_eq!(got, expected);
    }
    assert_eq!(got.lines().count(), expected.lines().count());
    assert!(got.lines().count() > 70, "{got}");
    assert!(!Path::new("/db").exists(), "a program went past the mount");
}

#[test]
fn exec_runs_a_program_that_is_stored_on_its_mount() {
    let world = World::new("stored-first");
    let print =
        "#include <stdio.h>\nint main(int n, char **a) { for (int i = 0; i < n; i++) printf(\"<%s>\", a[i]); return 7; }\n";
    let Some(program) = built(&world, "first", &[], print) else { return };
    let stored = |name: &str| world.filer.export().join(name);
    std::fs::copy(program, stored("first")).unwrap();
    std::fs::write(stored("script"), "#!/bin/sh\necho \"$0 $1\"; exec /db/first again\n").unwrap();
    std::fs::write(stored("plain"), "no program").unwrap();
    for (name, mode) in [("script", 0o755), ("plain", 0o644)] {
        std::fs::set_permissions(stored(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let ran = |program: &str| {
        let output = world.exec(program).arg("a b").env("PATH", "/usr/bin:/bin:/db").output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(ran("/db/first"), (Some(7), "</db/first><a b>".into(), String::new()));
    assert_eq!(ran("/db/script"), (Some(7), "/db/script a b\n</db/first><again>".into(), String::new()));
    assert_eq!(ran("first"), (Some(7), "<first><a b>".into(), String::new()), "found in PATH");
    for (program, code, said) in
        [("/db/plain", 126, "cannot run /db/plain"), ("/db/none", 127, "cannot run /db/none: no such file")]
    {
        let output = ran(program);
        assert!(output.0 == Some(code) && output.2.contains(said), "{output:?}");
    }
}

#[test]
fn a_python_environment_and_a_compiled_program_on_a_mount_work() {
    let world = World::new("stored-python");
    if find_program("cc").is_none() || !Path::new("/usr/bin/python3").exists() {
        return skip("no /usr/bin/python3 or no C compiler");
    }
    let script = r#"
        mkdir /db/built && cd /db/built
        printf '#include <stdio.h>\nint main(void) { return puts("compiled") < 0; }\n' >main.c
        printf 'main: main.c\n\tcc -o $@ $<\ncheck: main\n\t./main\n' >Makefile
        cc -o main main.c && ./main
        /usr/bin/python3 -m venv --without-pip /db/environment
        cd / && /db/environment/bin/python -c 'import sys; print(sys.prefix, sys.executable)'
        printf '#!/db/environment/bin/python\nimport sys; print(sys.prefix, *sys.argv)\n' >/db/environment/bin/tool
        chmod 755 /db/environment/bin/tool
        . /db/environment/bin/activate && tool argument && env -i /db/environment/bin/tool bare
    "#;
    let environment = "/db/environment";
    let tool = format!("{environment} {environment}/bin/tool");
    let expected = format!("compiled\n{environment} {environment}/bin/python\n{tool} argument\n{tool} bare\n");
    assert_eq!(world.shell(script), expected);
    assert!(!Path::new("/db").exists(), "a program went past the mount");
}

#[test]
fn libraries_on_a_mount_that_programs_and_libraries_are_linked_with_are_found() {
    let world = World::new("stored-linked");
    if find_program("cc").is_none() {
        return skip("no C compiler");
    }
    let script = r#"
        mkdir -p /db/app/bin /db/app/lib/deep && cd /db/app
        echo 'int inner(void) { return 40; }' >inner.c
        echo 'int inner(void); int outer(void) { return inner() + 2; }' >outer.c
        cat >main.c <<'END'
#include <stdio.h>
#include <stdlib.h>
int outer(void);
int main(void) { printf("%d\n", outer()); fflush(stdout); return system("ls -d /db/app; find /proc/self/fd -lname \"*memfd*\" | wc -l; echo $LD_PRELOAD | grep -c /proc/self"); }
END
        cat >load.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) { puts(dlerror()); return 1; }
    printf("%d\n", ((int (*)(void))dlsym(library, "outer"))());
    return 0;
}
END
        cc -shared -fPIC -Wl,-soname,libinner.so.1 -o lib/deep/libinner.so.1 inner.c
        cc -shared -fPIC -Wl,-soname,libouter.so.1 -Wl,-rpath,'$ORIGIN/deep' -o lib/libouter.so.1 outer.c lib/deep/libinner.so.1
        cc -Wl,-rpath,'$ORIGIN/../lib' -o bin/by-origin main.c lib/libouter.so.1 -Wl,-rpath-link,lib/deep
        cc -o bin/by-variable main.c lib/libouter.so.1 -Wl,-rpath-link,lib/deep
        cc -o bin/load load.c
        bin/by-origin || true
        LD_LIBRARY_PATH=/db/app/lib bin/by-variable || true
        bin/load /db/app/lib/libouter.so.1
        cd /tmp && /db/app/bin/load /db/app/lib/../lib/libouter.so.1
        rm /db/app/lib/deep/libinner.so.1
        /db/app/bin/load /db/app/lib/libouter.so.1 || true
    "#;
    let printed = world.shell(script);
    // A child gets nothing of what the loader was given.
    let children = "/db/app\n0\n0\n";
    let (found, missing) = printed.rsplit_once("libinner.so.1: ").unwrap_or((&printed, ""));
    assert!(found.starts_with(&format!("42\n{children}42\n{children}42\n42\n")), "{printed}");
    assert!(missing.starts_with("cannot open shared object file"), "{printed}");
}
