// The charts: one a supply, one a group of GPU signals, drawn by ECharts out of an installed wheel.

import { byId, element, setText } from "./dom.js";
import { duration, quantity } from "./format.js";
import * as history from "./history.js";
import { markLines } from "./marks.js";
import { frame, furnished, levelStyle, valueAxis } from "./plots.js";
import * as samples from "./samples.js";
import { nowMs, state } from "./stream.js";

const GROUPS = [
  { id: "power", title: "GPU power", signal: "power_w", unit: "W" },
  { id: "clock", title: "SM clock", signal: "sm_clock_mhz", unit: "MHz", step: "end" },
  { id: "heat", title: "GPU temperature", signal: "gpu_temp_c", unit: "°C" },
];
// Time shown, in s. Up to ten minutes the samples of the live stream are drawn, beyond that rollups from the store.
const WINDOWS_S = { 60: "1 min", 120: "2 min", 600: "10 min", 3600: "1 h", 86_400: "1 d", 2_592_000: "30 d" };
const LIVE_S = 600;
const REDRAW_MS = 1000; // of rollups, which move less than a pixel within it
const NEAR_SLOWDOWN_K = 20; // the slowdown line joins the picture once the hottest die is this close

let echarts = null;
let charts = []; // { card, plot, lines: [{ entity, signal, ... }], draw }

let windowS = localStorage.getItem("window_s") in WINDOWS_S ? Number(localStorage.getItem("window_s")) : 60;
let drawnAt = -Infinity;
/** Return a colour of the style sheet, light or dark as the page is. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const onScreen = new Set();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) onScreen[entry.isIntersecting ? "add" : "delete"](entry.target);
});

/** Load ECharts; without it the page shows a notice and its tables. */
export async function loadCharts() {
  try {
    ({ echarts } = await import("/static/echarts/index.js"));
  } catch {
    const note = byId("no-charts");
    note.hidden = false;
    setText(
      note,
      "Charts need the ECharts build that the nicegui package ships, and it is not installed here. The tables below carry the same readings.",
    );
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", layOutCharts);
  addEventListener("resize", () => charts.forEach(({ plot }) => plot.resize()));
  drawWindows();
}

function drawWindows() {
  const choice = (seconds) => {
    const radio = element("input", { type: "radio", name: "window", value: seconds, checked: seconds === windowS });
    radio.addEventListener("change", () => {
      windowS = seconds;
      localStorage.setItem("window_s", seconds);
      redraw();
    });
    return element("label", {}, radio, element("span", {}, WINDOWS_S[seconds]));
  };
  const field = document.querySelector(".windows");
  field.replaceChildren(field.firstElementChild, ...Object.keys(WINDOWS_S).map(Number).map(choice));
}

/** Build the charts for the entities there are. */
export function layOutCharts() {
  if (!echarts || !state.status) return;
  charts.forEach(({ plot }) => plot.dispose());
  observer.disconnect();
  onScreen.clear();
  const supplies = state.entities.filter((entity) => entity.kind === "supply");
  const gpus = state.entities.filter((entity) => entity.kind === "gpu");
  charts = [
    ...supplies.map((supply) => supplyChart(supply)),
    ...(gpus.length ? GROUPS.map((group) => gpuChart(group, gpus)) : []),
  ];
  document.querySelector("#charts .grid").replaceChildren(...charts.map(({ card }) => card));
  for (const chart of charts) {
    const holder = chart.card.querySelector(".plot");
    chart.plot = echarts.init(holder, null, { renderer: "canvas" });
    chart.plot.group = "node";
    chart.plot.setOption(chart.option);
    observer.observe(chart.card);
    onScreen.add(chart.card);
  }
  echarts.connect("node");
  redraw();
}

function redraw() {
  drawnAt = -Infinity;
  drawCharts();
}

/** Draw what is on the screen; nothing while the tab is hidden. */
export function drawCharts() {
  if (document.hidden || !echarts) return;
  const now = nowMs();
  const stored = windowS > LIVE_S;
  if (stored) history.read(windowS, redraw);
  drawNotes(stored);
  const due = !stored || performance.now() - drawnAt >= REDRAW_MS;
  if (due) drawnAt = performance.now();
  const marks = due ? markLines(now - windowS * 1000, now, colour) : [];
  const shown = charts.filter(({ card }) => onScreen.has(card));
  if (due) for (const chart of shown) readData(chart, now, stored);
  for (const chart of shown) {
    if (due) drawChart(chart, now, marks, stored);
    drawLegend(chart, now);
  }
}

/** What the curves are, where they are not single samples, or why there are none. */
function drawNotes(stored) {
  const problem = stored ? history.notice(windowS) : "";
  setText(byId("no-history"), problem);
  byId("no-history").hidden = problem === "";
  const steps = `Line: mean of every ${duration(history.stepMs() / 1000)}. Band: lowest to highest value.`;
  setText(byId("steps"), stored && !problem ? steps : "");
}

function readData(chart, now, stored) {
  const start = now - windowS * 1000;
  chart.data = chart.lines.map(({ entity, signal }) =>
    stored ? history.pointsOf(entity.id, signal, windowS) : samples.since(entity.id, signal, start),
  );
  const extremes = (points) => points.flatMap(([ms, , low, high]) => [[ms, low], [ms, high]]);
  chart.extremes = stored ? chart.data.map(extremes) : chart.data;
}

function drawChart(chart, now, marks, stored) {
  const start = now - windowS * 1000;
  const { data, extremes } = chart;
  // Supplies are compared, so they have the same scales.
  const alike = charts.filter((other) => other.scales === chart.scales && other.extremes);
  const scales = chart.scales(extremes.map((_, index) => alike.flatMap((other) => other.extremes[index])));
  const series = chart.lines.flatMap((line, index) => {
    line.points = stored ? data[index] : [];
    const look = stored ? { step: false, sampling: null } : { step: line.step, sampling: "minmax" };
    return [
      { id: line.id, data: data[index], ...look },
      { id: `${line.id} range`, data: line.points },
    ];
  });
  series[0].markLine = { data: [...chart.levels(extremes), ...marks] };
  const interval = windowS * (windowS > 86_400 ? 200 : 250); // 30 d are five times 6 d
  chart.plot.setOption({ xAxis: { min: start, max: now, interval }, yAxis: scales, series }, { lazyUpdate: true });
}

function drawLegend(chart, now) {
  chart.lines.forEach((line) =>
    setText(line.value, quantity(samples.latest(line.entity.id, line.signal, now, state.staleAfterMs), line.unit)),
  );
}

function supplyChart(supply) {
  const limit = state.status.rail_limit_v;
  const lines = [
    {
      entity: supply,
      signal: "voltage_v",
      unit: "V",
      name: "voltage",
      colour: colour("series-0"),
      width: 1.2,
      axis: 0,
    },
    {
      entity: supply,
      signal: "current_a",
      unit: "A",
      name: "current",
      colour: colour("series-quiet"),
      width: 1,
      axis: 1,
      area: true,
    },
  ];
  const option = frame(colour, lines);
  option.grid.right = 44;
  option.yAxis = [
    valueAxis(colour, "V", 1),
    { ...valueAxis(colour, "A", 0), position: "right", splitLine: { show: false } },
  ];
  return {
    ...furnished(`chart-${supply.key}`, `${supply.label} · voltage and current`, lines, option),
    levels: () => [{ yAxis: limit, name: `limit ${quantity(limit, "V")}`, ...levelStyle(colour) }],
    scales: supplyScales,
  };
}

function supplyScales([volts, amps]) {
  const [lowest, highest] = [least(volts, state.status.rail_limit_v) - 0.04, most(volts, 12.1) + 0.04];
  const step = niceStep(Math.max(0.2, (highest - lowest) / 7));
  const [low, high] = [rounded(lowest, -step), rounded(highest, step)];
  // Both axes get the same number of intervals, so that one set of lines serves them; the current stays below.
  const intervals = Math.round((high - low) / step);
  const amperes = niceStep((most(amps, 10) * 2) / intervals);
  return [
    { min: low, max: high, interval: step },
    { min: 0, max: amperes * intervals, interval: amperes },
  ];
}

function gpuChart(group, gpus) {
  const lines = gpus.map((gpu, index) => ({
    entity: gpu,
    signal: group.signal,
    unit: group.unit,
    name: gpu.label,
    colour: colour(`series-${index % 8}`),
    dash: index < 8 ? "solid" : [5, 3],
    width: 1.2,
    axis: 0,
    step: group.step,
  }));
  const option = frame(colour, lines);
  option.yAxis = [valueAxis(colour, group.unit, 0)];
  const slowdown = () =>
    least(
      gpus.map((gpu) => [0, samples.latest(gpu.id, "slowdown_temp_c", nowMs(), Infinity)]),
      Infinity,
    );
  const near = (data) =>
    group.id === "heat" && Number.isFinite(slowdown()) && most(data.flat(), 0) > slowdown() - NEAR_SLOWDOWN_K;
  const bounds = {
    power: (data) => [scale(0, most(data.flat(), 50) * 1.05)],
    clock: (data) => [scale(0, most(data.flat(), 500) * 1.05)],
    heat: (data) => [scale(least(data.flat(), 60) - 2, Math.max(most(data.flat(), 40), near(data) ? slowdown() : 0) + 2)],
  };
  return {
    ...furnished(`chart-${group.id}`, group.title, lines, option),
    levels: (data) =>
      near(data) ? [{ yAxis: slowdown(), name: `slowdown ${quantity(slowdown(), "°C")}`, ...levelStyle(colour) }] : [],
    scales: bounds[group.id],
  };
}

const numbers = (points) => points.map(([, value]) => value).filter((value) => value !== null && value !== undefined);
const least = (points, otherwise) => numbers(points).reduce((best, value) => Math.min(best, value), otherwise);
const most = (points, otherwise) => numbers(points).reduce((best, value) => Math.max(best, value), otherwise);

/** An axis whose ends are labelled like its other places. */
function scale(low, high) {
  const interval = niceStep((high - low) / 5);
  return { min: rounded(low, -interval), max: rounded(high, interval), interval };
}

/** Round up to a step, or down to a negative one, without the dust of binary fractions. */
function rounded(value, step) {
  const size = Math.abs(step);
  const count = step > 0 ? Math.ceil(value / size) : Math.floor(value / size);
  return Number((count * size).toFixed(6));
}

/** Return the least of 1, 2, 5, 10, 20, ... that is not below a value. */
function niceStep(value) {
  const decade = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => Number((factor * decade).toFixed(6))).find((step) => step >= value - 1e-9);
}
