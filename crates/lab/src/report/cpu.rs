//! Processor cost of an order, by owner.

use std::collections::BTreeMap;
use std::fmt::Write;

use results::compare::{Cpu, OwnerCpu, PathResult};

use super::rows::{self, Row};
use super::section::{Section, Table, arm_cell, facet_heading, swatch};
use super::view::View;
use super::words::{CPU, WITHOUT_FILER, escape, figure};
use crate::paths;

fn lead() -> String {
    let in_database: String =
        paths::ALL.iter().filter_map(|path| path.counted_as_database()).map(|text| format!(" {text}")).collect();
    format!(
        "Processor seconds that 1,000 orders cost, by who spent them; full colour is user time, light is time in the \
         kernel.{in_database} Shorter is better."
    )
}

/// Owners in the order of their colours; others follow in order of appearance.
const OWNERS: [&str; 4] = ["database", "client", "filer", "driver"];

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let owners = owners(view);
    let mut body = String::new();
    for facet in view.facets() {
        let bars: Vec<Row> = facet.arms.iter().filter_map(|arm| Some(row(arm.name, arm.result.cpu.as_ref()?, &owners))).collect();
        if !bars.is_empty() {
            body += &facet_heading(facet.title);
            body += &rows::chart("Processor seconds for 1,000 orders by owner", CPU, &bars);
        }
    }
    if !body.is_empty() {
        body = legend(&owners) + &body + &table(view, &owners).html();
    }
    Section::new("cpu", "Processor time for 1,000 orders", lead(), body)
}

fn owners<'a>(view: &View<'a>) -> Vec<&'a str> {
    let seen: BTreeMap<&str, ()> = view
        .arms
        .iter()
        .filter_map(|arm| arm.result.cpu.as_ref())
        .flat_map(|cpu| cpu.by_owner.keys())
        .map(|owner| (owner.as_str(), ()))
        .collect();
    let mut owners: Vec<&str> = seen.into_keys().collect();
    owners.sort_by_key(|owner| OWNERS.iter().position(|known| known == owner).unwrap_or(OWNERS.len()));
    owners
}

/// Class of an owner's colour.
fn colour(owner: &str, place: usize) -> usize {
    OWNERS.iter().position(|known| *known == owner).unwrap_or(OWNERS.len() + place) % 6
}

fn row(name: &str, cpu: &Cpu, owners: &[&str]) -> Row {
    let mut parts = Vec::new();
    for (place, owner) in owners.iter().enumerate() {
        let Some(time) = cpu.by_owner.get(*owner) else { continue };
        let (user, sys) = split(time);
        let hue = colour(owner, place);
        parts.push((format!("fill o{hue}"), user, format!("{owner}, user: {} s per 1,000 orders", figure(user))));
        parts.push((format!("fill kernel o{hue}"), sys, format!("{owner}, kernel: {} s per 1,000 orders", figure(sys))));
    }
    Row { label: name.to_owned(), parts, text: format!("{} s", figure(cpu.s_per_1000_orders)), ..Row::default() }
}

/// User and kernel seconds of an owner per 1,000 orders.
fn split(time: &OwnerCpu) -> (f64, f64) {
    let whole = time.user_s + time.sys_s;
    if whole <= 0.0 {
        return (0.0, 0.0);
    }
    (time.s_per_1000_orders * time.user_s / whole, time.s_per_1000_orders * time.sys_s / whole)
}

/// Seconds per 1,000 orders in which the database's processes were ready to run and had no processor.
fn queue_s(path: &PathResult) -> Option<f64> {
    let orders: u64 = path.runs.iter().map(|run| run.orders).sum();
    let seconds: f64 = path.runs.iter().map(|run| run.processor_queue_s.get("database").copied()).sum::<Option<f64>>()?;
    (orders > 0).then(|| seconds * 1e3 / orders as f64)
}

fn legend(owners: &[&str]) -> String {
    let mut text = String::from("<p class=\"legend\">");
    for (place, owner) in owners.iter().enumerate() {
        let hue = colour(owner, place);
        let (user, kernel) = (swatch(&format!("o{hue}")), swatch(&format!("kernel o{hue}")));
        let _ = write!(text, "<span>{user}{0} user</span> <span>{kernel}{0} kernel</span> ", escape(owner));
    }
    text + "</p>\n"
}

fn table(view: &View<'_>, owners: &[&str]) -> Table {
    let mut heads = vec!["path".to_owned(), "all".to_owned(), WITHOUT_FILER.to_owned()];
    for owner in owners {
        heads.push(format!("{owner} user"));
        heads.push(format!("{owner} kernel"));
    }
    let soft = view.arms.iter().any(|arm| arm.result.cpu.as_ref().is_some_and(|cpu| cpu.softirq_s > 0.0));
    if soft {
        heads.push("soft interrupts*".to_owned());
    }
    let queued = view.arms.iter().any(|arm| queue_s(arm.result).is_some());
    if queued {
        heads.push("database waited for a processor".to_owned());
    }
    heads.extend(["host busy, %", "by others, %"].map(str::to_owned));
    let relative = view.arms.iter().any(|arm| arm.result.relative_cpu_cost.is_some());
    if relative {
        heads.push("relative CPU cost".to_owned());
    }
    let caption =
        if soft { "CPU s/1,000 orders. * of the whole host; the kernel may have charged part of it to an owner" } else { CPU };
    let mut table = Table::new(caption, &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for arm in &view.arms {
        let Some(cpu) = &arm.result.cpu else { continue };
        let mut cells = vec![arm_cell(arm), figure(cpu.s_per_1000_orders), figure(cpu.without_filer_s_per_1000_orders())];
        for owner in owners {
            let (user, sys) = cpu.by_owner.get(*owner).map_or((f64::NAN, f64::NAN), split);
            cells.extend([figure(user), figure(sys)]);
        }
        if soft {
            cells.push(figure(cpu.softirq_s_per_1000_orders));
        }
        if queued {
            cells.push(queue_s(arm.result).map_or_else(|| "–".to_owned(), figure));
        }
        cells.extend([format!("{:.0}", cpu.host_busy_share * 100.0), format!("{:.0}", cpu.foreign_share() * 100.0)]);
        if relative {
            cells.push(arm.result.relative_cpu_cost.map_or_else(|| "–".to_owned(), figure));
        }
        table.row(&cells);
    }
    table
}
