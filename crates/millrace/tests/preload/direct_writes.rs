//! O_DIRECT: written data is on stable storage when the call returns, and the flag belongs to the
//! open file description.

use crate::support::filer::Filer;
use crate::support::{Scratch, find_program, millrace, preload_library, skip, succeed};
use std::process::Command;

#[test]
fn direct_writes_survive_a_power_cut_however_the_description_came_by_the_flag() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new("direct");
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let script = r#"
import fcntl, os, subprocess, sys
def direct(fd): return "direct" if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT else "plain"
def fresh(name, flags=0): return os.open("/db/" + name, os.O_RDWR | os.O_CREAT | flags)
data = b"x" * 8192
fd = fresh("opened", os.O_DIRECT); os.write(fd, data); os.pwrite(fd, data, 8192); os.writev(fd, []); print(direct(fd))
fd = fresh("set"); plain = direct(fd); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT); os.write(fd, data * 2); print(plain, direct(fd))
fd = fresh("copied", os.O_DIRECT); copy = os.dup(fd); os.close(fd)
if os.fork() == 0: os.write(copy, data); os._exit(0)
os.wait(); os.write(copy, data); print(direct(copy))
fd = fresh("inherited", os.O_DIRECT); os.set_inheritable(fd, True)
subprocess.run([sys.executable, "-c", f"import os; os.write({fd}, b'x' * 16384); os._exit(0)"], close_fds=False, check=True)
print(direct(fd))
fd = fresh("appended", os.O_DIRECT | os.O_APPEND); os.write(fd, data); os.write(fd, data); print(direct(fd))
fd = fresh("cleared", os.O_DIRECT); fcntl.fcntl(fd, fcntl.F_SETFL, 0); os.write(fd, data * 2); print(direct(fd))
sys.stdout.flush(); os._exit(0)
"#;
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "90"]).arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
    command.args(["exec", "--mount", &format!("/db={}&close=nothing&retain=0", filer.url), "--"]);
    let out = succeed(command.arg(python).args(["-c", script]));
    assert_eq!(out, "direct\nplain direct\ndirect\ndirect\ndirect\nplain\n");
    assert_eq!(filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    let found = |name: &str| std::fs::metadata(filer.export().join(name)).unwrap().len();
    for name in ["opened", "set", "copied", "inherited", "appended"] {
        assert_eq!(found(name), 16_384, "{name}");
    }
    assert_eq!(found("cleared"), 0, "the power cut took nothing: this test proves nothing");
}
