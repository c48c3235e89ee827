// How one chart looks: its card with a legend that carries the newest values, its axes, its lines.

import { element } from "./dom.js";
import { clockTime, dayTime, shown } from "./format.js";
import { stepMs } from "./history.js";
import { decimalsOf } from "./scales.js";
import { nowMs } from "./stream.js";

const DAY_MS = 86_400_000;

/** Build the card around a plot; its legend carries the newest values. */
export function card(id, title, { legend, about = "", name = title }) {
  const plot = element("div", { class: "plot", role: "img", "aria-label": `${name} over time; the tables below carry the values` });
  const heading = element("h3", { title }, title, about && element("span", { class: "dim" }, ` ${about}`));
  return element(
    "figure",
    { class: "chart", id },
    element("figcaption", {}, heading, element("ul", { class: "legend" }, legend.map(key))),
    plot,
  );
}

/** One entry of a legend: colour, name and newest value of a line. */
function key(line) {
  const swatch = element("i", { class: "swatch" });
  swatch.style.background = line.colour;
  const name = line.name ? [line.name, " "] : line.label && element("span", { class: "unseen" }, `${line.label} `);
  return element("li", {}, swatch, name, line.value);
}

/** Return the options of a plot that stay; `left` and `right` are the pixels beside it, `times` labels its time axis. */
export function frame(colour, lines, { small = false, left = 52, right = 14, times = true } = {}) {
  const text = { color: colour("dim"), fontSize: small ? 10 : 11, fontFamily: "inherit" };
  return {
    animation: false,
    grid: { left, right, top: small ? 5 : 22, bottom: !times ? 4 : small ? 18 : 22 },
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    xAxis: {
      type: "value", // the time type takes no interval of ours and crowds its labels
      axisLabel: { ...text, show: times, showMinLabel: false, alignMaxLabel: "right" },
      axisLine: { lineStyle: { color: colour("line") } },
      axisTick: { show: false },
      splitLine: { show: false },
    },
    // Drawn on the canvas: the page's policy allows no styles inside markup.
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      confine: true,
      transitionDuration: 0,
      padding: small ? 4 : 6,
      backgroundColor: colour("card"),
      borderColor: colour("line"),
      textStyle: { color: colour("ink"), fontSize: small ? 11 : 12 },
      formatter: (points) => tooltip(points, lines),
    },
    series: [...lines.map((line, index) => ({
      id: (line.id = `${line.entity.id} ${line.signal}`),
      name: line.name,
      type: "line",
      yAxisIndex: line.axis,
      step: line.step,
      showSymbol: false,
      silent: true,
      z: lines.length - index + 2,
      itemStyle: { color: line.colour },
      lineStyle: { color: line.colour, width: line.width },
      areaStyle: line.area ? { color: line.colour, opacity: 0.12 } : undefined,
      markLine:
        index === 0
          ? { symbol: "none", silent: true, animation: false, z: 1, label: { ...text, formatter: "{b}" } }
          : undefined,
    })), ...lines.map(band)],
  };
}

/** The range between the lowest and the highest value of each step, behind the line of the means. */
function band(line, _, lines) {
  return {
    id: `${line.id} range`,
    type: "custom",
    yAxisIndex: line.axis,
    encode: { x: 0, y: [2, 3] },
    clip: true,
    silent: true,
    z: 1,
    // One shape for every stretch without a gap, all drawn with the first point.
    renderItem: ({ dataIndex }, api) => {
      const style = { fill: line.look?.itemStyle?.color ?? line.colour, opacity: lines.length > 2 ? 0.1 : 0.18 };
      const stretch = (points) => {
        const steps = points.flatMap(([ms, , low, high]) => [[ms, low, high], [ms + stepMs(), low, high]]);
        const edge = [...steps.map(([ms, low]) => [ms, low]), ...steps.map(([ms, , high]) => [ms, high]).reverse()];
        return { type: "polygon", shape: { points: edge.map((at) => api.coord(at)) }, style };
      };
      return dataIndex === 0 ? { type: "group", children: stretches(line.points).map(stretch) } : null;
    },
  };
}

/** Split points where a value is absent. */
function stretches(points) {
  const found = [[]];
  for (const point of points) {
    if (point[1] === null) found.push([]);
    else found.at(-1).push(point);
  }
  return found.filter((stretch) => stretch.length);
}

/** Places on the time axis do not move, so labels are relative: "−15 s", "−6 h", "now". */
export function ago(ms, drawnMs) {
  const seconds = Math.round((drawnMs - ms) / 1000);
  if (seconds <= 3) return "now"; // a chart of days is drawn once a second
  const [size, unit] = [[1, "s"], [60, "min"], [3600, "h"], [86_400, "d"]].findLast(([size]) => seconds >= 2 * size || size === 1);
  return `−${Number((seconds / size).toFixed(1))}\u202f${unit}`;
}

/** Return the looks of a value axis; `placed` gives it its ends and its labels. */
export function valueAxis(colour, { small = false, ruled = true } = {}) {
  return {
    type: "value",
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: colour("dim"), fontSize: small ? 10 : 11 },
    splitLine: { show: ruled, lineStyle: { color: colour("line") } },
  };
}

/** Return the ends of an axis, labelled from and up to a value; a label that the level's own would cover is left out. */
export function placed({ min, max, interval }, unit, { level = null, from = -Infinity, upTo = Infinity } = {}) {
  const decimals = decimalsOf(interval);
  const dust = interval / 1000;
  const left = (value) => value < from - dust || value > upTo + dust || (level !== null && Math.abs(value - level) < 0.6 * interval);
  const formatter = (value) => (left(value) ? "" : `${value.toFixed(decimals)}\u202f${unit}`);
  return { min, max, interval, axisLabel: { formatter } };
}

const MOST_ROWS = 4; // of a tooltip: more do not fit into a small plot

function tooltip(points, lines) {
  const known = points.map((point) => ({ point, line: lines.find((item) => item.id === point.seriesId) })).filter(({ line }) => line);
  const chosen = known.length > MOST_ROWS ? known.filter(({ line }) => line.worst) : known;
  const rows = chosen.map(({ point, line }) => {
    const [value, low, high] = point.value.slice(1).map((one) => shown(one, line.unit, line.unit === "V" ? 3 : undefined));
    const range = low && low.unit ? ` (${low.text} to ${high.text})` : "";
    return `${point.marker ?? ""}${line.name}  ${value.text} ${value.unit}${range}`;
  });
  const ms = points[0].value[0];
  return [nowMs() - ms < DAY_MS / 2 ? clockTime(ms) : dayTime(ms), ...rows].join("\n");
}

/** A line across a plot, with its value among the labels of the axis: dashed, or solid in a colour of its own. */
export const levelOf = (value, unit, { colour, line = null }) => ({
  yAxis: value,
  name: `${Number(value.toFixed(2))}\u202f${unit}`,
  lineStyle: { color: line ?? colour, type: line ? "solid" : "dashed", width: 1 },
  label: { position: "start", distance: 6, color: colour, fontWeight: line ? 400 : 600 },
});
