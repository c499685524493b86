//! Programs of two containers: each has a runtime directory of its own, as with a /dev/shm of its own, or both have one.

use crate::support::world::World;
use crate::support::{find_program, skip};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program of a container that does what it is told, a line of Python at a time, and answers each with a line.
struct Container {
    program: Child,
    told: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

const LOOP: &str = "import fcntl, os, sys\nfor line in sys.stdin:\n try: print(repr(eval(line)), flush=True)\n \
                    except Exception as error: print(repr(error), flush=True)\n";

impl Container {
    fn start(mut command: Command) -> Self {
        let mut program = command.args(["-c", LOOP]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, answers) = (program.stdin.take(), BufReader::new(program.stdout.take().unwrap()));
        Self { program, told, answers }
    }

    /// What the expression is there.
    fn ask(&mut self, expression: &str) -> String {
        writeln!(self.told.as_mut().unwrap(), "{expression}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    fn end(mut self) {
        drop(self.told.take());
        assert!(self.program.wait().unwrap().success());
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A runtime directory for one user.
fn runtime(world: &World, name: &str) -> PathBuf {
    let folder = world.scratch.path().join(name);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    folder
}

/// Python in a container.
fn python(world: &World, options: &str, runtime_name: &str) -> Option<Command> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    let mut command = world.exec_with(options, python.to_str().unwrap());
    command.env("MILLRACE_RUNTIME_DIR", runtime(world, runtime_name));
    Some(command)
}

#[test]
fn with_noac_programs_of_two_containers_see_each_others_changes_at_once() {
    let world = World::new("containers-noac");
    let start = |name| python(&world, "&noac", name).map(Container::start);
    let (Some(mut one), Some(mut other)) = (start("one"), start("other")) else { return };
    for program in [&mut one, &mut other] {
        assert_eq!(program.ask("os.open('/db/f', os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)"), "3");
    }
    for round in 0..20 {
        assert_eq!(one.ask("os.write(3, b'one')"), "3");
        assert_eq!(other.ask("(os.fstat(3).st_size, os.lseek(3, 0, 2))"), format!("({0}, {0})", round * 8 + 3));
        assert_eq!(other.ask("os.write(3, b'other')"), "5");
        assert_eq!(one.ask("os.pread(3, 8, os.fstat(3).st_size - 8)"), "b'oneother'");
    }
    assert_eq!(one.ask("os.ftruncate(3, 4)"), "None");
    assert_eq!(other.ask("(os.fstat(3).st_size, os.pread(3, 100, 0))"), "(4, b'oneo')");
    assert_eq!(other.ask("os.write(3, b'!')"), "1");
    assert_eq!(one.ask("(os.stat('/db/f').st_size, os.pread(3, 100, 0))"), "(5, b'oneo!')");
    assert_eq!(one.ask("os.mkdir('/db/d') or os.rename('/db/f', '/db/d/g')"), "None");
    assert_eq!(other.ask("(os.listdir('/db'), os.listdir('/db/d'), os.path.exists('/db/f'))"), "(['d'], ['g'], False)");
    assert_eq!(other.ask("os.rename('/db/d', '/db/e')"), "None");
    assert_eq!(one.ask("(os.path.exists('/db/d/g'), open('/db/e/g').read())"), "(False, 'oneo!')");
    assert_eq!(other.ask("os.fchmod(3, 0o600)"), "None");
    assert_eq!(one.ask("oct(os.fstat(3).st_mode)"), "'0o100600'");
    assert_eq!(one.ask("os.unlink('/db/e/g')"), "None");
    assert_eq!(other.ask("os.path.exists('/db/e/g')"), "False");
    assert_eq!(other.ask("os.fstat(3).st_size"), "5", "it lives as long as the one who removed it has it open");
    assert_eq!(one.ask("os.close(3)"), "None");
    assert_eq!(other.ask("os.fstat(3)"), "OSError(116, 'Stale file handle')", "as on a kernel mount of another host");
    other.end();
    one.end();
    world.nothing_left_behind();
}
