//! The page of an audit in a real browser: it prints no error on the console, fetches nothing and
//! fits the screen, in light and dark, on a phone and a wide screen. The test leaves pictures in
//! `target/tmp`.

#[path = "../../../tune/src/report/sample.rs"]
mod sample;

use std::path::Path;

use crate::support::browser::{Browser, installed};
use crate::support::{Scratch, skip};
use results::audit::{Audit, Finding};
use serde_json::Value;
use tune::report::{Look, html};

/// Screens: a phone and a large display.
const SCREENS: [(u32, u32); 2] = [(400, 800), (1600, 1000)];

/// A script that returns the faults of the layout as lines of text.
const FAULTS: &str = r##"(() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`page is ${root.scrollWidth} wide on ${root.clientWidth}`);
  for (const table of document.querySelectorAll('table'))
    if (!table.caption || !table.querySelector('th[scope=col]') || !table.querySelector('th[scope=row]')) faults.push('a table without caption or heads');
  for (const row of document.querySelectorAll('tbody tr'))
    if (!row.querySelector('a[href^="#rule-"]')) faults.push(`a row without a link to its rule: ${row.textContent}`);
  for (const link of document.querySelectorAll('a[href^="#"]'))
    if (!document.querySelector(link.getAttribute('href'))) faults.push(`nothing at ${link.getAttribute('href')}`);
  for (const cell of document.querySelectorAll('td, tbody th, dd, h3, p')) {
    const box = cell.getBoundingClientRect();
    if (box.width > 0 && box.right > root.clientWidth + 1) faults.push(`"${cell.textContent.slice(0, 40)}" sticks out of the screen`);
  }
  if (document.scripts.length) faults.push('a script stands in the page');
  return faults;
})()"##;

/// The sample with a finding that has very long names.
fn long_names() -> Audit {
    let mut audit = sample::audit();
    let long = "a".repeat(240);
    audit.findings.push(Finding {
        subject: Some(format!("mount /{long}")),
        found: vec![format!("mount.options is {long}"), format!("sysctl.net.ipv4.{long} is 1")],
        ..sample::finding("linux-long-names", "nfs-mount")
    });
    audit
}

#[test]
fn the_page_of_an_audit_stands_on_any_screen_in_light_and_dark() {
    let Some(program) = installed() else {
        skip("no Chromium: the page of an audit is not looked at (scripts/setup peers)");
        return;
    };
    let scratch = Scratch::new("audit-browser");
    let page = scratch.path().join("audit.html");
    std::fs::write(&page, html(&long_names(), &Look::default())).unwrap();
    let mut browser = Browser::start(&program, &scratch.folder("profile"));
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut faults = Vec::new();
    for screen in SCREENS {
        for scheme in ["light", "dark"] {
            browser.open(&page, screen, scheme);
            let place = format!("at {} px, {scheme}", screen.0);
            let found = browser.evaluate(FAULTS);
            faults.extend(found.as_array().unwrap().iter().map(|fault| format!("{place}: {fault}")));
            faults.extend(browser.complaints().into_iter().map(|complaint| format!("{place}: {complaint}")));
            browser.picture(&pictures.join(format!("audit-{}-{scheme}.png", screen.0)));
        }
    }
    let dark = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(dark, Value::from("rgb(19, 22, 26)"), "the dark background was not used");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
