//! The report in a real browser: it prints no error on the console, fetches nothing and fits the
//! screen, in light and dark, on a phone, a wide screen and paper. The test leaves pictures in
//! `target/tmp`.

#[path = "../../../lab/src/report/example.rs"]
mod example;

use std::path::{Path, PathBuf};

use crate::support::browser::{Browser, installed};
use crate::support::{Scratch, millrace, skip, succeed};
use example::Size;
use results::compare::Comparison;
use serde_json::Value;

/// Screens: a phone, a window that shares the screen, and a large display.
pub(crate) const SCREENS: [(u32, u32); 3] = [(400, 800), (1200, 900), (1600, 1000)];

/// A script that returns the faults of the layout as lines of text: parts outside the screen or
/// their drawing, words that overlap, missing names.
pub(crate) const FAULTS: &str = r##"(() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`page is ${root.scrollWidth} wide on ${root.clientWidth}`);
  for (const svg of document.querySelectorAll('main svg')) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    if (!svg.getAttribute('aria-label')) faults.push('a drawing without a name');
    const words = [...svg.querySelectorAll('text')].map((text) => [text, text.getBoundingClientRect()]);
    for (const [text, box] of words) {
      if (box.left < frame.left - 3 || box.right > frame.right + 3 || box.top < frame.top - 3 || box.bottom > frame.bottom + 3)
        faults.push(`"${text.textContent}" sticks out of "${svg.getAttribute('aria-label')}"`);
    }
    words.forEach(([one, a], place) => words.slice(place + 1).forEach(([two, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 4) faults.push(`"${one.textContent}" lies on "${two.textContent}" in "${svg.getAttribute('aria-label')}"`);
    }));
  }
  if (root.clientWidth > 640)
    for (const box of document.querySelectorAll('.scroll'))
      if (box.scrollWidth > box.clientWidth) faults.push(`the table "${box.getAttribute('aria-label')}" is cut off: ${box.scrollWidth} in ${box.clientWidth}`);
  for (const table of document.querySelectorAll('table'))
    if (!table.caption || !table.querySelector('th[scope=col]') || !table.querySelector('th[scope=row]')) faults.push('a table without caption or heads');
  for (const link of document.querySelectorAll('a[href^="#"]'))
    if (!document.querySelector(link.getAttribute('href'))) faults.push(`nothing at ${link.getAttribute('href')}`);
  return faults;
})()"##;

/// Opens the folded record and compares the shown text with the record in the page.
const RECORD_OPENS: &str = r"(async () => {
  const raw = document.getElementById('raw');
  raw.open = true;
  await new Promise((done) => setTimeout(done, 50));
  const shown = JSON.parse(raw.querySelector('pre').textContent);
  const same = JSON.stringify(shown) === JSON.stringify(JSON.parse(document.getElementById('results').textContent));
  raw.open = false;
  return same && !document.getElementById('save').hidden ? shown.schema : 'not the record';
})()";

fn drawn(scratch: &Scratch, name: &str, record: &str) -> PathBuf {
    let folder = scratch.folder(name);
    std::fs::write(folder.join("results.json"), record).unwrap();
    succeed(millrace().arg("report").arg(&folder));
    folder.join("report.html")
}

fn example_of(size: Size) -> String {
    let comparison: Comparison = example::comparison(7, size);
    serde_json::to_string(&comparison).unwrap()
}

fn example_with_regimes() -> String {
    let comparison: Comparison = example::with_regimes(example::comparison(7, Size { seconds: 30, repeats: 3, media: false }));
    serde_json::to_string(&comparison).unwrap()
}

#[test]
#[ignore = "nightly: four reports on each screen in a browser, forty seconds"]
fn report_stands_in_a_browser_on_any_screen_in_light_and_dark_and_on_paper() {
    let Some(program) = installed() else {
        skip("no Chromium: the report is not looked at (scripts/setup peers)");
        return;
    };
    let scratch = Scratch::new("browser");
    let pages = [
        ("example", drawn(&scratch, "example", &example_of(Size { seconds: 40, repeats: 3, media: false }))),
        ("facets", drawn(&scratch, "facets", &example_of(Size { seconds: 3_600, repeats: 1, media: true }))),
        ("regimes", drawn(&scratch, "regimes", &example_with_regimes())),
        ("first", drawn(&scratch, "first", include_str!("../records/first-slice.json"))),
    ];
    let mut browser = Browser::start(&program, &scratch.folder("profile"));
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut faults = Vec::new();
    for (name, page) in &pages {
        for screen in SCREENS {
            for scheme in ["light", "dark"] {
                browser.open(page, screen, scheme);
                let place = format!("{name} at {} px, {scheme}", screen.0);
                let found = browser.evaluate(FAULTS);
                faults.extend(found.as_array().unwrap().iter().map(|fault| format!("{place}: {fault}")));
                faults.extend(browser.complaints().into_iter().map(|complaint| format!("{place}: {complaint}")));
                if *name != "facets" {
                    browser.picture(&pictures.join(format!("report-{name}-{}-{scheme}.png", screen.0)));
                }
            }
        }
        assert_eq!(browser.evaluate(RECORD_OPENS), Value::from(1), "{name}");
    }
    let dark = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(dark, Value::from("rgb(19, 22, 26)"), "the dark background was not used");
    browser.print(&pictures.join("report-first.pdf"));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
