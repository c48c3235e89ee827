// One cell for each rail: its voltage against its limit, its current below; rails of one voltage have equal axes.

import { element, setText } from "./dom.js";
import { quantity } from "./format.js";
import { card, frame, levelOf, placed, valueAxis } from "./plots.js";
import { aboutBus, busesOf, lowestOf, railGroups, rails, worstFirst } from "./rails.js";
import * as samples from "./samples.js";
import { finerStep, niceStep, rounded } from "./scales.js";
import { nowMs, state } from "./stream.js";

const WIDE_UP_TO = 2; // rails for which there is room for a chart each, with a title and an axis for the current
const MIDDLE_UP_TO = 6;
// Share of the nominal voltage between the axis and what it must show: 0.04 V at 12 V.
const AXIS_ROOM_RATIO = 1 / 300;

/** Build one section for each bus: { holder, columns, charts, reorder }; rails of one nominal voltage have equal axes. */
export function railSections(colour) {
  const count = rails().length;
  const size = count <= WIDE_UP_TO ? "wide" : count <= MIDDLE_UP_TO ? "middle" : "small";
  const columns = count <= 4 ? count : size === "middle" ? 3 : 4;
  return railGroups().flatMap(busesOf).map((bus) => {
    const charts = bus.rails.map((rail) => railChart(rail, bus.group, size, colour));
    const about = aboutBus(bus);
    const heading = element("p", { class: "about dim" }, about);
    const cells = charts.map(({ card }) => card);
    const holder = element("section", { class: "rails", "data-size": size, "aria-label": about }, heading, cells);
    holder.style.setProperty("--span", Math.min(bus.rails.length, columns));
    return { holder, columns, charts, reorder: size === "wide" ? null : () => putInOrder(bus, charts, holder) };
  });
}

/** Return the colours of small charts, once for all of them; nothing for those that have a legend each. */
export function colourKey(colour, sections) {
  if (!sections.length || sections[0].holder.dataset.size === "wide") return [];
  return [["series-0", "voltage"], ["series-quiet", "current"]].map(([name, text]) => {
    const swatch = element("i", { class: "swatch" });
    swatch.style.background = colour(name);
    return element("span", {}, swatch, text);
  });
}

function putInOrder(bus, charts, holder) {
  const order = worstFirst(bus).map((rail) => charts.find(({ rail: own }) => own === rail).card);
  if (order.some((one, place) => holder.children[place + 1] !== one)) holder.append(...order);
}

function railChart(rail, group, size, colour) {
  const lines = [
    { entity: rail, signal: "voltage_v", unit: "V", name: "voltage", colour: colour("series-0"), width: 1.2, axis: 0 },
    { entity: rail, signal: "current_a", unit: "A", name: "current", colour: colour("series-quiet"), width: 1, axis: 1, area: true },
  ];
  const wide = size === "wide";
  const option = frame(colour, lines, { small: !wide, left: wide ? 52 : 46, right: wide ? 44 : 36, times: size !== "small" });
  option.yAxis = [
    valueAxis(colour, { small: !wide, ruled: wide }),
    { ...valueAxis(colour, { small: !wide, ruled: false }), position: "right" },
  ];
  const title = wide ? `${rail.label} · voltage and current` : rail.label;
  const legend = lines.map((line) => ({ ...line, name: wide ? line.name : "", label: line.name, value: element("span", { class: "number" }) }));
  const built = card(`chart-${rail.key}`, title, { legend, name: `${rail.label}: voltage and current` });
  return {
    card: built,
    rail,
    plot: null,
    lines,
    option,
    group,
    namesMarks: wide, // small plots have the lines alone
    levels: () => levelsOf(group, size, colour),
    scales: ([volts, amps]) => railScales(volts, amps, group, size),
    legend: (now) => drawLegend(built, legend, now, rail, group),
  };
}

/** The limit, and on an axis without lines the nominal voltage. */
function levelsOf({ nominal, limit }, size, colour) {
  const levels = limit === null ? [] : [levelOf(limit, "V", { colour: colour("critical") })];
  if (size !== "wide" && nominal !== null) levels.push(levelOf(nominal, "V", { colour: colour("dim"), line: colour("line") }));
  return levels;
}

function drawLegend(built, legend, now, rail, { limit }) {
  const lowest = lowestOf(rail);
  built.classList.toggle("alarming", lowest !== null && limit !== null && lowest < limit);
  for (const line of legend)
    setText(line.value, quantity(samples.latest(line.entity.id, line.signal, now, state.staleAfterMs), line.unit));
}

/** Return the axes: voltage above, from below the limit to above the nominal; current in the lower third. */
function railScales(volts, amps, group, size) {
  const { nominal, limit } = group;
  const [lowest, highest] = [extreme(volts, 0, Math.min), extreme(volts, 1, Math.max)];
  const around = nominal ?? highest ?? 1;
  const room = around * AXIS_ROOM_RATIO;
  const low = Math.min(...present([lowest, limit, nominal ?? lowest ?? 0])) - room;
  const high = Math.max(...present([highest, around])) + room;
  const most = extreme(amps, 1, Math.max) ?? 10;
  return size === "wide" ? ruledScales(low, high, most, limit) : bareScales(low, high, most);
}

/** Return axes with lines at round values; both have as many intervals, so that one set of lines serves them. */
function ruledScales(low, high, mostA, limit) {
  const step = niceStep((high - low) / 5);
  const [bottom, top] = [rounded(low, -step), rounded(high, step)];
  const above = Math.round((top - bottom) / step);
  const below = Math.ceil(above / 2);
  const amperes = niceStep(mostA / below);
  const volts = { min: bottom - below * step, max: top, interval: step };
  const amps = { min: 0, max: amperes * (above + below), interval: amperes };
  return [placed(volts, "V", { level: limit, from: bottom }), placed(amps, "A", { upTo: amperes * below })];
}

/** Return axes without lines: the levels label the voltage, the highest current labels its own. */
function bareScales(low, high, mostA) {
  const amperes = finerStep(mostA);
  const volts = { min: low - (high - low) / 2, max: high, interval: high };
  return [placed(volts, "V", { from: Infinity }), placed({ min: 0, max: 3 * amperes, interval: amperes }, "A", { from: amperes, upTo: amperes })];
}

/** Return the least or the most of one end of several [lowest, highest], null where there is none. */
function extreme(pairs, end, best) {
  const known = present(pairs.map((pair) => pair[end]));
  return known.length ? best(...known) : null;
}

const present = (values) => values.filter((value) => value !== null);
