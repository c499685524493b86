//! Millrace's initiator with other targets: CHAP algorithms, redirects, LUNs that are not disks.

use crate::support::redirector::Redirector;
use crate::support::target::Target;
use crate::support::tgt::Tgt;
use crate::support::{Scratch, await_until, millrace, text};
use initiator::{Blocking, Device, IscsiUrl, Options, PathState, discover};
use iscsi_proto::login::LoginStatus;
use std::time::Duration;

fn options() -> Options {
    Options::for_portals(1)
}

fn refusal(url: &str) -> String {
    Device::open(&url.parse().unwrap(), options()).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn chap_works_with_a_target_that_numbers_the_algorithms_differently() {
    let scratch = Scratch::new("peers-chap");
    let Some(tgt) = Tgt::start(&scratch, Some(("bob", "secret/1?2@34"))) else { return };
    let url: IscsiUrl = tgt.url("bob%secret%2F1%3F2%4034@", 1).parse().unwrap();
    let mut lun = Blocking::open(&url, options()).unwrap();
    lun.write(0, &[7; 4096], true).unwrap();
    assert_eq!(lun.read(0, 4096).unwrap(), [7; 4096]);
    lun.close();
    let alone: IscsiUrl = format!("{}?chap_algs=md5", tgt.url("bob%secret%2F1%3F2%4034@", 1)).parse().unwrap();
    Blocking::open(&alone, options()).unwrap().close();
    let chosen = format!("{}?chap_algs=sha256", tgt.url("bob%secret%2F1%3F2%4034@", 1));
    assert!(refusal(&chosen).contains("refused the login"), "only the chosen algorithm is used");
    assert!(refusal(&tgt.url("bob%another-secret@", 1)).contains("refused the login"));
}

#[test]
fn the_error_about_a_lun_that_is_not_a_disk_lists_the_luns_of_the_target() {
    let scratch = Scratch::new("peers-luns");
    let Some(tgt) = Tgt::start(&scratch, None) else { return };
    let said = refusal(&tgt.url("", 0));
    assert!(said.contains("storage array controller") && said.contains("the target has the LUNs 1:"), "{said}");
    let said = refusal(&tgt.url("", 5));
    assert!(said.contains("no such LUN") && said.contains("LUNs 0, 1:"), "{said}");
}

#[test]
fn a_temporary_redirect_is_followed_at_each_login_and_a_permanent_one_is_remembered() {
    for (status, most) in [(LoginStatus::MOVED_TEMPORARILY, usize::MAX), (LoginStatus::MOVED_PERMANENTLY, 1)] {
        let scratch = Scratch::new("peers-redirect");
        let mut target = Target::start(&scratch, &[]);
        let lun = target.create("db", "1MiB", &[]);
        let to = target.portal(0);
        let portal = Redirector::start(status, most, move |_| format!("{to},1"));
        let url: IscsiUrl = format!("iscsi://127.0.0.1:{}/{}/{lun}", portal.port, target.iqn()).parse().unwrap();
        let mut device = Device::open(&url, options()).unwrap();
        assert_eq!((portal.logins(), device.paths()[0].failures), (1, 0), "a redirect does not count as a failure");
        target.kill();
        target.restart();
        await_until("the path", Duration::from_secs(20), || {
            device.turn(Some(Duration::from_millis(20)), None).unwrap();
            let path = &device.paths()[0];
            (path.state == PathState::Up && path.failures > 0).then_some(())
        });
        assert_eq!(portal.logins() == 1, most == 1, "{status}: {} logins at the portal", portal.logins());
        device.close();
    }
}

#[test]
fn discovery_follows_redirects_and_the_error_about_a_loop_names_the_cause() {
    let scratch = Scratch::new("peers-discover");
    let target = Target::start(&scratch, &[]);
    target.create("db", "1MiB", &[]);
    let to = target.portal(0);
    let portal = Redirector::start(LoginStatus::MOVED_TEMPORARILY, usize::MAX, move |_| to.to_string());
    let found = discover(&format!("iscsi://127.0.0.1:{}", portal.port).parse().unwrap(), &options()).unwrap();
    assert_eq!(found[0].target, target.iqn());
    let circle = Redirector::start(LoginStatus::MOVED_PERMANENTLY, usize::MAX, |own| format!("127.0.0.1:{own}"));
    for command in ["discover", "bench"] {
        let url = format!("iscsi://127.0.0.1:{}/{}/0", circle.port, target.iqn());
        let output = millrace().args(["iscsi", command, &url]).output().unwrap();
        assert!(text(&output).contains("redirects in a row"), "{}", text(&output));
        assert_eq!(output.status.code(), Some(1));
    }
    let nowhere = Redirector::start(LoginStatus::MOVED_TEMPORARILY, usize::MAX, |_| String::new());
    assert!(refusal(&format!("iscsi://127.0.0.1:{}/{}/0", nowhere.port, target.iqn())).contains("did not name HOST"));
}
