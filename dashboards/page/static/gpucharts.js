// One chart for each group of GPU signals: a few GPUs by colour, of many the worst three over the others.

import { element, setText } from "./dom.js";
import { quantity } from "./format.js";
import { card, frame, levelOf, placed, valueAxis } from "./plots.js";
import * as samples from "./samples.js";
import { scale } from "./scales.js";
import { nowMs, state } from "./stream.js";

// `worst` orders two means; `same` is the difference below which the order stays, heuristic: what a step of load moves.
const GROUPS = [
  { id: "power", title: "GPU power", signal: "power_w", unit: "W", superlative: "highest", sign: 1, same: 20, least: 50 },
  { id: "clock", title: "SM clock", signal: "sm_clock_mhz", unit: "MHz", superlative: "lowest", sign: -1, same: 15, least: 500, step: "end" },
  { id: "heat", title: "GPU temperature", signal: "gpu_temp_c", unit: "°C", superlative: "hottest", sign: 1, same: 1, least: 40 },
];
const NEAR_SLOWDOWN_K = 20; // the slowdown line joins the picture once the hottest die is this close
const COLOURS_UP_TO = 4; // GPUs whose lines and legend can be distinguished in a third of the page
const WORST = ["series-1", "series-0", "series-2"];
const MEAN_MS = 5_000;

/** Build the charts of the GPUs; none where there is no GPU. */
export function gpuCharts(colour) {
  const gpus = state.entities.filter((entity) => entity.kind === "gpu");
  return gpus.length ? GROUPS.map((group) => gpuChart(group, gpus, colour)) : [];
}

function gpuChart(group, gpus, colour) {
  const many = gpus.length > COLOURS_UP_TO;
  const lines = gpus.map((gpu, index) => ({
    entity: gpu,
    signal: group.signal,
    unit: group.unit,
    name: gpu.label,
    colour: colour(many ? "series-quiet" : `series-${index}`),
    width: 1.2,
    axis: 0,
    step: group.step,
  }));
  const option = frame(colour, lines, { left: group.unit === "MHz" ? 62 : 46 });
  option.yAxis = [valueAxis(colour)];
  const entries = many ? [...WORST.map((name) => ({ colour: colour(name), name: "", label: "" })), { colour: colour("series-quiet"), name: "others" }] : lines.map((line) => ({ ...line }));
  for (const entry of entries) entry.value = element("span", { class: "number" });
  const about = many ? `${group.superlative} 3 of ${gpus.length}` : "";
  const chart = {
    card: card(`chart-${group.id}`, group.title, { legend: entries, about }),
    plot: null,
    lines,
    option,
    group,
    namesMarks: true,
    legend: (now) => (many ? drawMany(lines, entries, now) : drawFew(lines, entries, now)),
    levels: ([...extremes]) => (near(extremes, gpus, group) ? [levelOf(slowdownOf(gpus), "°C", { colour: colour("critical") })] : []),
    scales: (columns) => [gpuScale(columns.flat(), gpus, group)],
  };
  if (many) chart.reorder = () => colourWorst(lines, group, colour);
  return chart;
}

const read = (line, now) => samples.latest(line.entity.id, line.signal, now, state.staleAfterMs);

function drawFew(lines, entries, now) {
  lines.forEach((line, index) => setText(entries[index].value, quantity(read(line, now), line.unit)));
}

/** The worst by name, the others as a range; those without a reading are counted. */
function drawMany(lines, entries, now) {
  const worst = lines.filter((line) => line.worst).sort((a, b) => a.worst - b.worst);
  worst.forEach((line, place) => setText(entries[place].value, `${line.name} ${quantity(read(line, now), line.unit)}`));
  const others = lines.filter((line) => !line.worst).map((line) => read(line, now));
  const known = others.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)].map((value) => value.toFixed(0));
  const range = known.length ? (low === high ? low : `${low}–${high}`) : "";
  const silent = others.length - known.length;
  setText(entries.at(-1).value, [range, silent && `${silent} unknown`].filter(Boolean).join(", "));
}

/** Colour the worst three; those that lead stay until another is clearly worse. */
function colourWorst(lines, group, colour) {
  const now = nowMs();
  const score = (line) => {
    const mean = samples.mean(line.entity.id, line.signal, now, MEAN_MS);
    if (mean === null) return -Infinity;
    return group.sign * mean + (line.worst ? group.same * (1 + (WORST.length - line.worst) / WORST.length) : 0);
  };
  const ranked = lines.map((line) => [score(line), line]).sort(([a], [b]) => b - a);
  ranked.forEach(([, line], place) => {
    line.worst = place < WORST.length ? place + 1 : 0;
    const tint = line.worst ? colour(WORST[place]) : line.colour;
    line.look = { z: 2 + (line.worst ? 10 - place : 0), itemStyle: { color: tint }, lineStyle: { color: tint, width: line.worst ? 1.4 : 0.8, opacity: line.worst ? 1 : 0.7 } };
  });
}

/** Return the lowest slowdown temperature of any GPU, infinity where none is known. */
const slowdownOf = (gpus) =>
  Math.min(...gpus.map((gpu) => samples.latest(gpu.id, "slowdown_temp_c", nowMs(), Infinity) ?? Infinity));

/** Return true if the slowdown temperature belongs into the picture. */
function near(extremes, gpus, group) {
  return group.id === "heat" && Number.isFinite(slowdownOf(gpus)) && highest(extremes, 0) > slowdownOf(gpus) - NEAR_SLOWDOWN_K;
}

function gpuScale(extremes, gpus, group) {
  const level = near(extremes, gpus, group) ? slowdownOf(gpus) : null;
  const top = Math.max(highest(extremes, group.least), level ?? 0);
  const heat = group.id === "heat";
  const axis = heat ? scale(lowest(extremes, 60) - 2, top + 2, 4) : scale(0, top * 1.05, 5);
  return placed(axis, group.unit, { level });
}

const highest = (extremes, otherwise) => Math.max(otherwise, ...extremes.map(([, high]) => high ?? otherwise));
const lowest = (extremes, otherwise) => Math.min(otherwise, ...extremes.map(([low]) => low ?? otherwise));
