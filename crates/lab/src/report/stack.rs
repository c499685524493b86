//! The stack picture: each path from the driver to the medium, and the distribution of its sessions' time.

use super::layers::{self, Layer, TIMES};
use super::section::{Section, Table, arm_cell, facet_heading, swatch};
use super::svg::{LINE, Svg, width_of};
use super::view::{Arm, View};
use super::words::{cut, escape};

const LEAD: &str = "Each path from the driver down to the medium. The bar at the top is where the database's sessions spent their \
    time, sampled while it was measured; waiting for reads, log and writes happens in the boxes of the same colour family below \
    the database. Figures in the boxes are per order.";

const WIDTH: f64 = 272.0;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let mut body = String::new();
    for facet in view.facets() {
        body += &facet_heading(facet.title);
        let pictures: String = facet.arms.iter().map(|arm| picture(arm, view)).collect();
        if !pictures.is_empty() {
            body += &format!("<div class=\"stacks\">{pictures}</div>\n");
        }
    }
    if body.contains("time-") {
        body = legend() + &body + &table(view).html();
    }
    Section::new("paths", "The paths, layer by layer", LEAD, body)
}

fn picture(arm: &Arm<'_>, view: &View<'_>) -> String {
    let layers = layers::of(arm, view.comparison);
    let drawing = draw(arm, &layers).finish(&format!("Layers of {} and where its time goes", arm.name));
    format!("<figure class=\"stack\"><figcaption>{}{}</figcaption>{drawing}</figure>\n", swatch(&arm.class()), escape(arm.name))
}

fn draw(arm: &Arm<'_>, layers: &[Layer]) -> Svg {
    let height_of = |layer: &Layer| LINE * (1.0 + layer.facts.len() as f64) + 14.0;
    let gap = 14.0;
    let times = layers::session_time(&arm.result.runs);
    let head = if times.is_empty() { 2.0 } else { 40.0 };
    let height = head + layers.iter().map(|layer| height_of(layer) + gap).sum::<f64>() - gap + 4.0;
    let mut svg = Svg::new(WIDTH, height);
    let mut x = 2.0;
    for (place, share) in &times {
        let (words, kind) = TIMES.get(*place).map_or(("other", "other"), |(_, words, kind)| (words, kind));
        let width = share * (WIDTH - 4.0);
        svg.rect(&format!("time-{kind}"), (x, 2.0), (width, 24.0), &format!("{words}: {:.0} %", share * 100.0));
        let percent = format!("{:.0} %", share * 100.0);
        if width > width_of(&percent) + 4.0 {
            svg.text(&format!("on-time-{kind} middle"), (x + width / 2.0, 19.0), &percent);
        }
        x += width;
    }
    let mut y = head;
    for (place, layer) in layers.iter().enumerate() {
        let tall = height_of(layer);
        if place > 0 {
            svg.line("wire", (WIDTH / 2.0, y - gap), (WIDTH / 2.0, y));
        }
        svg.rect("box", (2.0, y), (WIDTH - 4.0, tall), "");
        svg.rect(&format!("side-{}", layer.kind), (2.0, y), (7.0, tall), "");
        svg.text("box-name", (18.0, y + LINE + 2.0), &cut(&layer.name, 31));
        for (line, fact) in layer.facts.iter().enumerate() {
            svg.text("box-fact", (18.0, y + LINE * (line as f64 + 2.0) + 2.0), &cut(fact, 36));
        }
        y += tall + gap;
    }
    svg
}

fn legend() -> String {
    let items: String =
        TIMES.iter().map(|(_, words, kind)| format!("<span>{}{words}</span> ", swatch(&format!("time-{kind}")))).collect();
    format!("<p class=\"legend\">{items}</p>\n")
}

fn table(view: &View<'_>) -> Table {
    let mut heads = vec!["path"];
    heads.extend(TIMES.map(|(_, words, _)| words));
    let mut table = Table::new("Share of the sessions' time, %", &heads);
    for arm in &view.arms {
        let times = layers::session_time(&arm.result.runs);
        if times.is_empty() {
            continue;
        }
        let mut cells = vec![arm_cell(arm)];
        cells.extend((0..TIMES.len()).map(|place| {
            let share = times.iter().find(|(at, _)| *at == place).map_or(0.0, |(_, share)| *share);
            format!("{:.1}", share * 100.0)
        }));
        table.row(&cells);
    }
    table
}
