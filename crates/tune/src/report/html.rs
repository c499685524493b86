//! One HTML page for a browser. It fetches nothing, has no script, supports light and dark, and
//! fits a phone's width.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use results::audit::{Audit, Finding, Verdict};

use super::groups::{by_group, heading};
use super::words::{count, escape, status};
use super::{Counts, Look, Weight, by_layer};
use crate::describe::{activation, layer as layer_name, severity};

const STYLE: &str = include_str!("page.css");

/// The audit as a page. Each row of a table links to its rule further down, with reason, sources
/// and fix.
#[must_use]
pub fn html(audit: &Audit, look: &Look<'_>) -> String {
    let counts = Counts::of(audit, look);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{}: {} · Millrace audit</title>\n<style>\n{STYLE}</style></head>\n<body>\n\
         <a class=\"skip\" href=\"#rules\">Skip to the rules</a>\n<main>\n",
        escape(&audit.host),
        escape(&counts.words(look)),
    );
    page += &header(audit, look, &counts);
    page += &findings(audit, look);
    let unknown: Vec<&Finding> = of_verdict(audit, Verdict::Unknown);
    page += &section("unknown", "Not known", "Facts are missing: these checks neither passed nor failed", &unknown, look);
    page += &section("waived", "Waived", "Findings that a waiver covers", &of_verdict(audit, Verdict::Waived), look);
    page += &section("passed", "Passed", "Judgements where all is well", &of_verdict(audit, Verdict::Passed), look);
    page += &remarks(audit);
    page += &rules(audit);
    let _ = write!(page, "<footer class=\"faint\"><p>{}</p></footer>\n</main>\n</body></html>\n", escape(&audit.program));
    page
}

fn of_verdict(audit: &Audit, wanted: Verdict) -> Vec<&Finding> {
    by_layer(audit, |finding| finding.verdict == wanted).into_iter().flat_map(|(_, findings)| findings).collect()
}

fn header(audit: &Audit, look: &Look<'_>, counts: &Counts) -> String {
    let mut words = counts.words(look);
    // A sentence begins with a capital letter. All words of this one are Millrace's, so its first
    // character is ASCII.
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let mut header = format!(
        "<header>\n<h1>Audit of {}</h1>\n<p class=\"verdict\">{}.</p>\n\
         <p class=\"faint\">{} · facts of {}, {} · {}, {}, {}</p>\n",
        escape(&audit.host),
        escape(&words),
        escape(&audit.system),
        escape(&audit.taken),
        escape(&audit.from),
        count(counts.unknown, "check lacks facts", "checks lack facts"),
        count(counts.passed, "passed", "passed"),
        count(counts.not_applicable, "rule does not apply here", "rules do not apply here"),
    );
    if let Some(baseline) = look.baseline {
        let _ = writeln!(
            header,
            "<p class=\"faint\">Against the baseline of {} of {}: {}.</p>",
            escape(&baseline.host),
            escape(&baseline.taken),
            count(baseline.len(), "finding", "findings"),
        );
    }
    header + "</header>\n"
}

/// One table for each group of advice with findings.
fn findings(audit: &Audit, look: &Look<'_>) -> String {
    let mut sections = String::new();
    for (place, (group, findings)) in by_group(audit, |finding| finding.verdict == Verdict::Finding).enumerate() {
        let caption = count(findings.len(), "finding", "findings");
        sections += &section(&format!("group-{place}"), heading(group), &caption, &findings, look);
    }
    sections
}

/// A section with a table; empty if there are no findings.
fn section(id: &str, title: &str, caption: &str, findings: &[&Finding], look: &Look<'_>) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut section = format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{}</h2>\n<table><caption>{}</caption>\n\
         <thead><tr><th scope=\"col\" class=\"severity\">Severity</th><th scope=\"col\" class=\"subject\">Subject</th>\
         <th scope=\"col\" class=\"title\">Finding</th><th scope=\"col\">Found</th></tr></thead>\n<tbody>\n",
        escape(title),
        escape(caption),
    );
    for finding in findings {
        section += &row(finding, look);
    }
    section + "</tbody></table></section>\n"
}

fn row(finding: &Finding, look: &Look<'_>) -> String {
    let (class, word) = match finding.verdict {
        Verdict::Finding => (severity(finding.severity), severity(finding.severity)),
        Verdict::Unknown => ("unknown", severity(finding.severity)),
        Verdict::Waived => ("waived", severity(finding.severity)),
        Verdict::Passed => ("passed", "passed"),
    };
    let known = if look.weight(finding) == Weight::Known { " <span class=\"again\">known</span>" } else { "" };
    let mut found: Vec<String> = finding.found.iter().map(|found| format!("<code>{}</code>", escape(found))).collect();
    found.extend(finding.missing.iter().map(|missing| format!("<code>{}</code> is missing", escape(missing))));
    found.extend(finding.measured.iter().map(|measured| format!("measured: {}", escape(&measured.text))));
    found.extend(finding.waiver.iter().map(|waiver| format!("<span class=\"again\">{}</span>", escape(waiver))));
    format!(
        "<tr><td><span class=\"mark {class}\">{word}</span>{known}</td><td>{}</td>\
         <th scope=\"row\"><a href=\"#{}\">{}</a></th><td>{}</td></tr>\n",
        escape(finding.subject.as_deref().unwrap_or("the host")),
        anchor(&finding.rule),
        escape(&finding.title),
        found.join("<br>"),
    )
}

/// The anchor of a rule. IDs consist of lower case letters, digits and hyphens; any other character
/// becomes its number.
fn anchor(rule: &str) -> String {
    let mut anchor = String::from("rule-");
    for sign in rule.chars() {
        if sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-' {
            anchor.push(sign);
        } else {
            let _ = write!(anchor, "_{:x}", u32::from(sign));
        }
    }
    anchor
}

fn remarks(audit: &Audit) -> String {
    if audit.remarks.is_empty() {
        return String::new();
    }
    let items: String = audit.remarks.iter().map(|remark| format!("<li>{}</li>\n", escape(remark))).collect();
    format!(
        "<section id=\"remarks\" aria-labelledby=\"remarks-title\"><h2 id=\"remarks-title\">Odd about the facts</h2>\n\
         <ul>{items}</ul></section>\n"
    )
}

/// All rules that a row links to, by name.
fn rules(audit: &Audit) -> String {
    let mut rules: BTreeMap<&str, &Finding> = BTreeMap::new();
    for finding in &audit.findings {
        rules.entry(&finding.rule).or_insert(finding);
    }
    let cards: String = rules.values().map(|finding| card(finding)).collect();
    let cards = if cards.is_empty() { "<p>No rule has anything to say.</p>\n".to_owned() } else { cards };
    format!("<section id=\"rules\" aria-labelledby=\"rules-title\"><h2 id=\"rules-title\">The rules</h2>\n{cards}</section>\n")
}

fn card(finding: &Finding) -> String {
    let mut card = format!(
        "<article class=\"rule\" id=\"{}\"><h3>Goal: {}</h3>\n<p class=\"faint\"><code>{}</code> · {} · \
         <span class=\"mark {word}\">{word}</span></p>\n<p>{}</p>\n<dl>",
        anchor(&finding.rule),
        escape(finding.general_title()),
        escape(&finding.rule),
        escape(layer_name(&finding.layer)),
        escape(&finding.reason),
        word = severity(finding.severity),
    );
    let effect: Vec<String> = finding.effect.iter().cloned().collect();
    let measured: Vec<String> = finding.measured.iter().map(|measured| measured.text.clone()).collect();
    let standing = status(finding.status).map(str::to_owned).into_iter().chain(finding.standing.iter().cloned());
    let standing: Vec<String> = standing.collect();
    let takes: Vec<String> = finding.activation.map(|takes| activation(takes).to_owned()).into_iter().collect();
    let rows = [
        ("Effect", &effect),
        ("Measured", &measured),
        ("Status", &standing),
        ("Fix", &finding.fix),
        ("In force", &takes),
        ("Sources", &finding.sources),
    ];
    for (name, lines) in rows {
        if !lines.is_empty() {
            let lines: String = lines.iter().map(|line| format!("<dd>{}</dd>", escape(line))).collect();
            let _ = writeln!(card, "<div><dt>{name}</dt>{lines}</div>");
        }
    }
    card + "</dl></article>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn every_link_has_its_target_and_every_row_a_link() {
        let page = html(&sample::audit(), &Look::default());
        let targets: Vec<&str> = page.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(links.iter().all(|link| targets.contains(link)), "{links:?} in {targets:?}");
        let rows = page.matches("<tr><td>").count();
        assert_eq!(rows, sample::audit().findings.len());
        assert_eq!(page.matches("<th scope=\"row\"><a href=\"#rule-").count(), rows);
        let once: std::collections::BTreeSet<&&str> = targets.iter().collect();
        assert_eq!(once.len(), targets.len(), "an anchor stands twice");
    }

    #[test]
    fn names_from_a_capture_are_text_and_nothing_else() {
        let page = html(&sample::audit(), &Look::default());
        assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(!page.contains("http://") && !page.contains("https://"), "the page fetches nothing");
    }

    #[test]
    fn an_anchor_holds_no_sign_that_a_page_could_misread() {
        assert_eq!(anchor("linux-thp-never"), "rule-linux-thp-never");
        assert_eq!(anchor("A \"x\""), "rule-_41_20_22x_22");
    }
}
