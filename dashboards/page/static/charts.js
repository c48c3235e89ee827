// The charts: a cell for every rail, worst first, and one for each group of GPU signals, drawn by ECharts.

import { byId, element, setText } from "./dom.js";
import { duration } from "./format.js";
import { gpuCharts } from "./gpucharts.js";
import * as history from "./history.js";
import { markLines } from "./marks.js";
import { ago } from "./plots.js";
import { colourKey, railSections } from "./railcharts.js";
import { railLayout } from "./rails.js";
import * as samples from "./samples.js";
import { nowMs, state } from "./stream.js";

// Time shown, in s. Up to ten minutes the samples of the live stream are drawn, beyond that rollups from the store.
const WINDOWS_S = { 60: "1 min", 120: "2 min", 600: "10 min", 3600: "1 h", 86_400: "1 d", 2_592_000: "30 d" };
const LIVE_S = 600;
const REDRAW_MS = 1000; // of rollups, which move less than a pixel within it
const ORDER_MS = 5000; // between two looks at which rail and which GPU is the worst: a chart that jumps cannot be read
const COST_SHARE = 0.25; // heuristic: of one core at most goes into charts, however many there are

let echarts = null;
let sections = []; // of rails: { charts, reorder }
let charts = []; // { card, plot, lines: [{ entity, signal, ... }], option, group, namesMarks, scales, levels, legend, reorder }

let windowS = localStorage.getItem("window_s") in WINDOWS_S ? Number(localStorage.getItem("window_s")) : 60;
let drawnAt = -Infinity;
let orderedAt = -Infinity;
let costMs = 0;
let laidOut = "";
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
  dark.addEventListener("change", () => state.status && layOutCharts());
  addEventListener("resize", resize);
  drawWindows();
}

function resize() {
  for (const { plot } of charts) plot.resize();
  redraw();
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
  laidOut = layout();
  if (!echarts) return;
  for (const { plot } of charts) plot.dispose();
  observer.disconnect();
  onScreen.clear();
  sections = railSections(colour);
  const ofGpus = gpuCharts(colour);
  charts = [...sections.flatMap((section) => section.charts), ...ofGpus];
  const railGrid = element("div", { class: "buses", "data-size": sections[0]?.holder.dataset.size }, sections.map(({ holder }) => holder));
  railGrid.style.setProperty("--columns", sections[0]?.columns ?? 1);
  const gpuGrid = element("div", { class: "grid" }, ofGpus.map(({ card }) => card));
  byId("plots").replaceChildren(railGrid, gpuGrid);
  byId("colours").replaceChildren(...colourKey(colour, sections));
  for (const chart of charts) {
    const holder = chart.card.querySelector(".plot");
    chart.plot = echarts.init(holder, null, { renderer: "canvas" });
    chart.plot.group = "node";
    chart.plot.setOption(chart.option);
    observer.observe(chart.card);
    onScreen.add(chart.card);
  }
  echarts.connect("node");
  orderedAt = -Infinity;
  redraw();
}

/** Build the charts again where rails came, went, or showed their nominal voltage; return true if so. */
export function layOutIfChanged() {
  if (layout() === laidOut) return false;
  layOutCharts();
  return true;
}

const layout = () => JSON.stringify([railLayout(), state.entities.filter(({ kind }) => kind === "gpu")]);

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
  const begun = performance.now();
  const due = begun - drawnAt >= Math.max(stored ? REDRAW_MS : 0, costMs / COST_SHARE);
  if (due && begun - orderedAt >= ORDER_MS) reorder(begun);
  const shown = charts.filter(({ card }) => onScreen.has(card));
  for (const chart of shown) chart.legend(now);
  if (!due) return;
  drawnAt = begun;
  const groups = new Set(shown.map(({ group }) => group));
  for (const chart of charts.filter(({ group }) => groups.has(group))) readData(chart, now, stored);
  for (const chart of shown) drawChart(chart, now, stored);
  // ECharts paints with the next frame, and that is most of the cost.
  requestAnimationFrame(() => setTimeout(() => (costMs = performance.now() - begun)));
}

/** Put the worst first: of the rails by their place, of many GPUs by their colour. */
function reorder(atMs) {
  orderedAt = atMs;
  for (const { reorder } of [...sections, ...charts]) reorder?.();
}

/** What the curves are, where they are not single samples, or why there are none. */
function drawNotes(stored) {
  const problem = stored ? history.notice(windowS) : "";
  setText(byId("no-history"), problem);
  byId("no-history").hidden = problem === "";
  const steps = `Line: mean of every ${duration(history.stepMs() / 1000)}. Band: lowest to highest value.`;
  setText(byId("steps"), stored && !problem ? steps : "");
}

/** Read the points of every line, and their extremes: [[lowest, highest], ...]. */
function readData(chart, now, stored) {
  const start = now - windowS * 1000;
  const bucketMs = (windowS * 1000) / widthOf(chart);
  chart.data = chart.lines.map(({ entity, signal }) =>
    stored ? history.pointsOf(entity.id, signal, windowS) : samples.thinned(samples.since(entity.id, signal, start), bucketMs),
  );
  chart.extremes = chart.data.map((points) => extremesOf(points, stored));
}

/** Return the pixels between the axes of a chart. */
const widthOf = ({ plot, option }) => Math.max(1, plot.getWidth() - option.grid.left - option.grid.right);

/** Return the lowest and the highest value of some points, nulls where there is none. */
function extremesOf(points, stored) {
  let [low, high] = [null, null];
  for (const point of points) {
    const [least, most] = stored ? [point[2], point[3]] : [point[1], point[1]];
    if (least !== null && least !== undefined && (low === null || least < low)) low = least;
    if (most !== null && most !== undefined && (high === null || most > high)) high = most;
  }
  return [low, high];
}

function drawChart(chart, now, stored) {
  const start = now - windowS * 1000;
  // Charts of a group are compared, so they have the same scales.
  const alike = charts.filter(({ group, extremes }) => group === chart.group && extremes);
  const axes = chart.scales(chart.lines.map((_, index) => alike.map(({ extremes }) => extremes[index])));
  const series = chart.lines.flatMap((line, index) => {
    line.points = stored ? chart.data[index] : [];
    return [
      { id: line.id, data: chart.data[index], step: stored ? false : line.step, ...line.look },
      { id: `${line.id} range`, data: line.points },
    ];
  });
  const width = widthOf(chart);
  const marks = markLines(start, now, colour, chart.namesMarks ? width : 0);
  series[0].markLine = { data: [...chart.levels(chart.extremes), ...marks] };
  const interval = windowS * (width <= 220 ? 500 : windowS > 86_400 ? 200 : 250); // 30 d are five times 6 d
  const times = { min: start, max: now, interval, axisLabel: { formatter: (ms) => ago(ms, now) } };
  chart.plot.setOption({ xAxis: times, yAxis: axes, series }, { lazyUpdate: true });
}
