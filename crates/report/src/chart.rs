//! One chart as inline SVG: a figure of every trial over its rate, with the goal's bound and the interval found.
//!
//! Verdicts differ by shape and not only by colour; colours come from the page's style, so that they follow its
//! light and dark themes.

use std::fmt::{self, Write};

use crate::number::grouped_thin;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 220.0;
/// About as many ticks as an axis should have.
const TICKS: f64 = 6.0;

/// A marker's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A filled circle.
    Pass,
    /// A cross.
    Fail,
    /// A hollow diamond.
    Invalid,
}

impl Mark {
    fn class(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
        }
    }
}

/// One trial in a chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// Per shard, transfers per second.
    pub(crate) rate: u64,
    /// In the chart's unit.
    pub(crate) value: f64,
    pub(crate) mark: Mark,
    /// For the tooltip.
    pub(crate) label: String,
}

/// A chart of one figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// Distinguishes the chart's ids in the page.
    pub(crate) id: &'static str,
    /// What it shows, in one sentence.
    pub(crate) title: String,
    /// Name and unit of the vertical axis.
    pub(crate) axis: String,
    pub(crate) points: Vec<Point>,
    /// The goal's bound, in the chart's unit.
    pub(crate) bound: Option<f64>,
    /// The interval found; open upwards where the search's own bound passed.
    pub(crate) interval: Option<(u64, Option<u64>)>,
    /// Whether the vertical axis begins at 0, or near the smallest value.
    pub(crate) from_zero: bool,
}

/// Maps values to places on the drawing.
struct Scale {
    low: f64,
    high: f64,
    step: f64,
    at_low: f64,
    at_high: f64,
}

impl Scale {
    /// A scale whose ends are ticks of a round step (1, 2 or 5 times a power of ten).
    fn new(low: f64, high: f64, at_low: f64, at_high: f64) -> Self {
        let width = if high > low { high - low } else { 1.0 };
        let rough = width / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(10.0 * power);
        let low = (low / step + 1e-9).floor() * step;
        let high = ((low + width).max(high) / step - 1e-9).ceil() * step;
        Self { low, high, step, at_low, at_high }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.at_low + share * (self.at_high - self.at_low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as u32;
        (0..=count).map(|tick| self.low + f64::from(tick) * self.step)
    }

    /// Digits after the point that tell two ticks apart.
    fn digits(&self) -> usize {
        (-self.step.log10().floor()).max(0.0) as usize
    }
}

/// Draws the chart. All text is either escaped or made of numbers.
pub(crate) fn svg(chart: &Chart) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    if draw(&mut out, chart).is_err() {
        out.clear();
    }
    out
}

fn draw(out: &mut String, chart: &Chart) -> fmt::Result {
    let id = chart.id;
    let (title, axis) = (escape(&chart.title), escape(&chart.axis));
    writeln!(
        out,
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{id}-title"><title id="{id}-title">{title}</title>"#
    )?;
    writeln!(out, r#"<text class="axis" x="{LEFT}" y="16">{axis}</text>"#)?;
    if chart.points.is_empty() {
        writeln!(
            out,
            r#"<text class="axis" x="{}" y="{}" text-anchor="middle">no trial to draw</text>"#,
            WIDTH / 2.0,
            HEIGHT / 2.0
        )?;
        return writeln!(out, "</svg>");
    }
    let (across, up) = scales(chart);
    interval(out, chart, &across)?;
    axes(out, &across, &up)?;
    if let Some(bound) = chart.bound {
        let y = up.place(bound);
        writeln!(out, r#"<line class="bound" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/>"#)?;
    }
    for point in &chart.points {
        let (x, y) = (across.place(point.rate as f64), up.place(point.value));
        mark(out, point.mark, (x, y), Some(&point.label))?;
    }
    legend(out, chart)?;
    writeln!(out, "</svg>")
}

fn scales(chart: &Chart) -> (Scale, Scale) {
    let rates = chart.points.iter().map(|point| point.rate).chain(chart.interval.and_then(|(_, high)| high));
    let rate_max = rates.max().unwrap_or(0).max(1) as f64;
    let values = || chart.points.iter().map(|point| point.value).chain(chart.bound);
    let high = values().fold(f64::MIN, f64::max);
    let low = if chart.from_zero { 0.0 } else { values().fold(f64::MAX, f64::min) };
    // A flat line needs some room around it to have a scale at all.
    let (low, high) = if high - low > 1e-9 { (low, high) } else { (low, low + 1.0) };
    (Scale::new(0.0, rate_max, LEFT, RIGHT), Scale::new(low, high, BOTTOM, TOP))
}

fn interval(out: &mut String, chart: &Chart, across: &Scale) -> fmt::Result {
    let Some((low, high)) = chart.interval else { return Ok(()) };
    let from = across.place(low as f64);
    let to = high.map_or(RIGHT, |high| across.place(high as f64)).max(from + 2.0);
    writeln!(
        out,
        r#"<rect class="interval" x="{from:.1}" y="{TOP}" width="{:.1}" height="{}"/>"#,
        to - from,
        BOTTOM - TOP
    )
}

fn axes(out: &mut String, across: &Scale, up: &Scale) -> fmt::Result {
    for tick in up.ticks() {
        let y = up.place(tick);
        let digits = up.digits();
        writeln!(out, r#"<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/>"#)?;
        writeln!(
            out,
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            y + 4.0,
            grouped_thin(tick, digits)
        )?;
    }
    for tick in across.ticks() {
        let x = across.place(tick);
        writeln!(out, r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{BOTTOM}" y2="{}"/>"#, BOTTOM + 5.0)?;
        let text = grouped_thin(tick, across.digits());
        writeln!(
            out,
            r#"<text class="tick" x="{x:.1}" y="{}" text-anchor="middle">{text}</text>"#,
            BOTTOM + 20.0
        )?;
    }
    writeln!(
        out,
        r#"<text class="axis" x="{}" y="{}" text-anchor="middle">configured rate per shard, transfers/s</text>"#,
        f64::midpoint(LEFT, RIGHT),
        HEIGHT - 8.0
    )
}

fn mark(out: &mut String, mark: Mark, (x, y): (f64, f64), label: Option<&str>) -> fmt::Result {
    let class = mark.class();
    write!(out, r#"<g class="mark {class}">"#)?;
    if let Some(label) = label {
        write!(out, "<title>{}</title>", escape(label))?;
    }
    match mark {
        Mark::Pass => write!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="5"/>"#)?,
        Mark::Fail => write!(out, r#"<path d="M{:.1} {:.1}l10 10m0 -10l-10 10"/>"#, x - 5.0, y - 5.0)?,
        Mark::Invalid => write!(out, r#"<path d="M{x:.1} {:.1}l6 6l-6 6l-6 -6z"/>"#, y - 6.0)?,
    }
    writeln!(out, "</g>")
}

/// In one row from the right, above the drawing: only what occurs in it.
fn legend(out: &mut String, chart: &Chart) -> fmt::Result {
    let has = |mark| chart.points.iter().any(|point| point.mark == mark);
    let mut x = RIGHT;
    let mut text = |out: &mut String, words: &str, width: f64| {
        x -= width;
        writeln!(out, r#"<text class="tick" x="{:.1}" y="16">{words}</text>"#, x + 18.0).map(|()| x)
    };
    if chart.bound.is_some() {
        let x = text(out, "goal's bound", 100.0)?;
        writeln!(out, r#"<line class="bound" x1="{:.1}" x2="{:.1}" y1="12" y2="12"/>"#, x - 4.0, x + 14.0)?;
    }
    if chart.interval.is_some() {
        let x = text(out, "limit", 58.0)?;
        writeln!(out, r#"<rect class="interval" x="{:.1}" y="5" width="12" height="14"/>"#, x + 1.0)?;
    }
    for (shape, words, width) in
        [(Mark::Invalid, "invalid", 66.0), (Mark::Fail, "fail", 50.0), (Mark::Pass, "pass", 54.0)]
    {
        if has(shape) {
            let x = text(out, words, width)?;
            mark(out, shape, (x + 7.0, 12.0), None)?;
        }
    }
    Ok(())
}

/// Text that may stand in SVG.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[(u64, f64, Mark)]) -> Chart {
        let point = |(rate, value, mark): &(u64, f64, Mark)| Point {
            rate: *rate,
            value: *value,
            mark: *mark,
            label: format!("{rate} <&> {value}"),
        };
        Chart {
            id: "test",
            title: "missed & <settled>".to_owned(),
            axis: "missed, %".to_owned(),
            points: values.iter().map(point).collect(),
            bound: Some(2.0),
            interval: Some((1_530, Some(1_560))),
            from_zero: true,
        }
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        for (low, high, wanted) in
            [(0.0, 3_200.0, 4_000.0), (0.0, 7.0, 8.0), (0.0, 1.0, 1.0), (0.0, 0.03, 0.03)]
        {
            let scale = Scale::new(low, high, 0.0, 1.0);
            assert!((scale.high - wanted).abs() < 1e-9, "{high}: {}", scale.high);
            assert!((3..=8).contains(&scale.ticks().count()), "{high}");
        }
        let near_the_top = Scale::new(97.3, 100.0, 0.0, 1.0);
        assert!(near_the_top.low <= 97.3 && near_the_top.high >= 100.0 && near_the_top.high < 101.0);
    }

    #[test]
    fn every_point_lies_inside_the_axes() {
        let drawn = chart(&[(0, 0.0, Mark::Pass), (1_600, 61.0, Mark::Fail), (9, 3.0, Mark::Invalid)]);
        let (across, up) = scales(&drawn);
        for point in &drawn.points {
            assert!((LEFT..=RIGHT).contains(&across.place(point.rate as f64)));
            assert!((TOP..=BOTTOM).contains(&up.place(point.value)));
        }
    }

    #[test]
    fn text_is_escaped_and_shapes_differ() {
        let text = svg(&chart(&[(0, 0.0, Mark::Pass), (1_600, 61.0, Mark::Fail), (9, 3.0, Mark::Invalid)]));
        assert!(text.contains("missed &amp; &lt;settled&gt;") && !text.contains("<settled>"));
        assert!(
            text.contains("<circle") && text.contains("m0 -10l-10 10") && text.contains("l6 6l-6 6l-6 -6z")
        );
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn charts_of_nothing_and_of_one_trial() {
        assert!(svg(&chart(&[])).contains("no trial to draw"));
        let mut one = chart(&[(0, 0.0, Mark::Pass)]);
        (one.bound, one.interval, one.from_zero) = (None, None, false);
        let text = svg(&one);
        assert!(text.contains("<circle") && !text.contains("NaN"));
    }
}
