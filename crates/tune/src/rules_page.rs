//! The page of all rules, `docs/rules.md`: `cargo run -p tune --example renew` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::describe;
use crate::facts::Value;
use crate::rule::{Fix, Rule};
use crate::rules::{LAYERS, Loaded, RuleSet};
use crate::shown_value::shown;

const HEAD: &str = "\
# Rules

What the tuner asks of a stack from the database down to the disk. This page is written from `rules/` by
`cargo run -p tune --example renew`: change the rules, not the page. [rule-schema.md](rule-schema.md) says what a rule is
made of and explains the language of its conditions.

A rule applies where its platform, its role and its condition hold. Its test is then true, false or not known, and what is
not known is reported, never passed. *Status* says what has become of advice since it was printed: who supersedes, reverses
or contests it. A rule asks for what holds today, and names the old advice.

";

/// The complete page. Equal rules give the same text.
#[must_use]
pub fn rules_page(rules: &RuleSet) -> String {
    let mut page = HEAD.to_owned();
    let layers = layers(rules);
    contents(&mut page, &layers, rules);
    for (layer, loaded) in &layers {
        page += &format!("\n## {}\n", describe::layer(layer));
        loaded.iter().for_each(|loaded| chapter(&mut page, loaded));
    }
    references(&mut page, rules);
    not_testable(&mut page, rules);
    rows(&mut page, rules);
    page
}

/// The layers that have rules, in their order, with the rules by ID.
fn layers(rules: &RuleSet) -> Vec<(&'static str, Vec<&Loaded>)> {
    let mut layers = Vec::new();
    for layer in LAYERS {
        let mut loaded: Vec<&Loaded> = rules.rules().iter().filter(|loaded| loaded.layer == layer).collect();
        loaded.sort_by(|a, b| a.rule.id.cmp(&b.rule.id));
        if !loaded.is_empty() {
            layers.push((layer, loaded));
        }
    }
    layers
}

fn contents(page: &mut String, layers: &[(&str, Vec<&Loaded>)], rules: &RuleSet) {
    let count = rules.rules().len();
    *page += &format!("## Contents\n\n{count} rules.\n\n");
    for (layer, loaded) in layers {
        let heading = describe::layer(layer);
        *page += &format!("- [{heading}](#{}): {}\n", anchor(heading), loaded.len());
        for loaded in loaded {
            let Rule { id, title, .. } = &loaded.rule;
            *page += &format!("  - [{id}](#{id}): {}\n", inline(title));
        }
    }
    if !rules.references().is_empty() {
        page.push_str("- [Values of the reports' tests](#values-of-the-reports-tests)\n");
    }
    if !rules.not_testable().is_empty() {
        page.push_str("- [Advice that no fact can decide](#advice-that-no-fact-can-decide)\n");
    }
    if !rules.catalogue().is_empty() {
        page.push_str("- [Rows of the reports](#rows-of-the-reports)\n");
    }
}

fn chapter(page: &mut String, loaded: &Loaded) {
    let rule = &loaded.rule;
    *page += &format!("\n### {}\n\n**{}.** Severity {}.\n\n", rule.id, inline(&rule.title), describe::severity(rule.severity));
    let mut line = |head: &str, text: &str| {
        let _ = writeln!(page, "- *{head}*: {text}");
    };
    line("Applies to", &applies(rule));
    line("Why", &inline(&rule.reason));
    if let Some(effect) = &rule.effect {
        line("Effect", &inline(effect));
    }
    line("Test", &code(&rule.test));
    if let Some(finding) = &rule.finding {
        line("Finding", &code(finding));
    }
    if let Some(fix) = &rule.fix {
        line("Fix", &set_right(fix, rule));
    }
    let mut today = describe::status(rule.status).to_owned();
    for standing in &rule.standing {
        today += &format!("; {}", inline(&describe::standing(standing)));
    }
    line("Status", &today);
    let sources: Vec<String> = rule.sources.iter().map(|source| inline(&describe::source(source))).collect();
    line("Sources", &sources.join("; "));
    if !rule.covers.is_empty() {
        line("Rows", &rule.covers.join(", "));
    }
}

fn applies(rule: &Rule) -> String {
    let platforms: Vec<&str> = rule.platforms.iter().map(|platform| describe::platform(platform)).collect();
    let mut text = if platforms.is_empty() { "every platform".to_owned() } else { platforms.join(", ") };
    if !rule.roles.is_empty() {
        text += &format!("; role {}", rule.roles.join(" or "));
    }
    if let Some(kind) = &rule.each {
        text += &format!("; each {kind}");
    }
    if let Some(when) = &rule.when {
        text += &format!("; when {}", code(when));
    }
    text
}

fn set_right(fix: &Fix, rule: &Rule) -> String {
    let platform = rule.platforms.first().map(String::as_str);
    let mut parts: Vec<String> = describe::before(&fix.needs).map(|step| inline(&step)).collect();
    for setting in &fix.settings {
        let computed = setting.value_of.as_ref().map(|value| format!("({value})"));
        let value = computed.as_deref().or(setting.value.as_deref());
        parts.push(code(&describe::setting(setting, value, None, platform)));
    }
    parts.extend(fix.by_hand.as_ref().map(|text| inline(text.trim_end_matches('.'))));
    parts.extend(describe::after(&fix.after).map(|step| inline(&step)));
    let careful = if fix.loses_durability { " **This may lose data that was acknowledged.**" } else { "" };
    format!("{}. In force {}.{careful}", parts.join("; ").trim_end_matches('.'), describe::activation(fix.activation))
}

fn references(page: &mut String, rules: &RuleSet) {
    if rules.references().is_empty() {
        return;
    }
    page.push_str(
        "\n## Values of the reports' tests\n\nWhat the reports set when they measured, and do not advise. No finding comes \
         from here; plans that run the experiments again do.\n",
    );
    for file in rules.references() {
        *page +=
            &format!("\n### Tests of {}\n\n| row | on | parameter | value | where | section | remark |\n", inline(&file.report));
        page.push_str("|---|---|---|---|---|---|---|\n");
        for setting in &file.settings {
            let value = match &setting.value {
                Value::Text(text) if text.is_empty() => "-".to_owned(),
                value => code(&shown(value)),
            };
            let cells = [
                setting.row.clone(),
                inline(&setting.platform),
                code(&setting.parameter),
                value,
                inline(setting.place.as_deref().unwrap_or("-")),
                inline(&setting.section),
                inline(setting.note.as_deref().unwrap_or("-")),
            ];
            *page += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
    }
}

fn not_testable(page: &mut String, rules: &RuleSet) {
    if rules.not_testable().is_empty() {
        return;
    }
    page.push_str("\n## Advice that no fact can decide\n\n");
    for entry in rules.not_testable() {
        *page += &format!("- {}: {}\n", entry.row, inline(&entry.reason));
    }
}

/// A table that says which rule or file covers each row of the reports.
fn rows(page: &mut String, rules: &RuleSet) {
    if rules.catalogue().is_empty() {
        return;
    }
    let mut gone = BTreeMap::new();
    for loaded in rules.rules() {
        for row in &loaded.rule.covers {
            gone.insert(row.as_str(), format!("[{0}](#{0})", loaded.rule.id));
        }
    }
    for setting in rules.references().iter().flat_map(|file| &file.settings) {
        gone.insert(&setting.row, "value of the test".to_owned());
    }
    for entry in rules.not_testable() {
        gone.insert(&entry.row, "no fact can tell".to_owned());
    }
    page.push_str("\n## Rows of the reports\n\n| row | report | section | here |\n|---|---|---|---|\n");
    for row in rules.catalogue() {
        let here = gone.get(row.id.as_str()).map_or("missing", String::as_str);
        *page += &format!("| {} | {} | {} | {here} |\n", row.id, row.report, row.section);
    }
}

/// Text in one line, with Markdown characters escaped.
fn inline(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '_' | '<' | '>' | '`' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Text as code. It may contain backquotes.
fn code(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_everything_a_rule_says() {
        let text = "schema = 1\nlayer = \"nfs-mount\"\n[[rule]]\nid = \"linux-a\"\ntitle = \"Mounts are wide\"\ncovers = [\"X-1\"]\n\
            platforms = [\"linux\"]\nroles = [\"rac\"]\neach = \"mount\"\nwhen = \"mount.x\"\ntest = \"`mount.a-b` > 1\"\nseverity = \"high\"\n\
            reason = \"Because of *this*.\"\neffect = \"Twice\"\nsources = [{ name = \"TR-1\", section = \"2\", year = 2009 }]\n\
            status = \"reversed\"\nstanding = [{ kind = \"reversed-by\", by = \"nfs(5)\", says = \"not so\" }]\nfires = [{}]\nsilent = [{}]\n\
            [rule.fix]\nactivation = \"remount\"\nneeds = [\"unmount\"]\nset = [{ kind = \"fstab-option\", key = \"rsize\", value = \"1\" }]\n";
        let page = rules_page(&RuleSet::from_texts([("a.toml", text)]).unwrap());
        for wanted in [
            "- [NFS mounts](#nfs-mounts): 1\n  - [linux-a](#linux-a): Mounts are wide\n",
            "### linux-a\n\n**Mounts are wide.** Severity high.\n",
            "- *Applies to*: Linux; role rac; each mount; when `mount.x`\n",
            "- *Why*: Because of \\*this\\*.\n- *Effect*: Twice\n- *Test*: `` `mount.a-b` > 1 ``\n",
            "- *Fix*: first unmount; `mount option rsize=1 in /etc/fstab`. In force when the file system is unmounted and mounted again.\n",
            "- *Status*: reversed: the opposite is advised today; reversed by nfs(5): not so\n- *Sources*: TR-1, 2 (2009)\n- *Rows*: X-1\n",
        ] {
            assert!(page.contains(wanted), "{wanted}\nin\n{page}");
        }
    }
}
