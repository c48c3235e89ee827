// The readings of now: the big figures, and the tables that carry the same without a chart.

import { byId, element, setText } from "./dom.js";
import { UNKNOWN, quantity, shown } from "./format.js";
import { RECENT_MS, limitOf, lowestOf, nominalOf, nominalText, railGroups, rails } from "./rails.js";
import * as samples from "./samples.js";
import { nowMs, state } from "./stream.js";

const FIGURES_UP_TO = 3; // rails with a figure each; of more the worst of each nominal voltage has one

const ofKind = (kind) => state.entities.filter((entity) => entity.kind === kind);
const read = (entity, signal) => samples.latest(entity.id, signal, nowMs(), state.staleAfterMs);

/** Build the frames of figures and tables for the entities there are. */
export function layOutReadings() {
  const supplies = railFigures().map(({ id, label }) => card(id, label));
  byId("figures").replaceChildren(
    ...supplies,
    card("figure-power", "GPU power, mean of 5 s"),
    card("figure-hottest", "Hottest GPU"),
    card("figure-clock", "Lowest SM clock"),
  );
  byId("readings").querySelector(".body").replaceChildren(gpuTable(), pinTable(), supplyTable());
  drawReadings();
}

/** The figures of the rails: one each, or the lowest of each nominal voltage where there are many. */
function railFigures() {
  const all = rails();
  if (all.length <= FIGURES_UP_TO) return all.map((rail) => ({ id: `figure-${rail.key}`, label: `${rail.label} · lowest of 5 s`, rails: [rail] }));
  const groups = railGroups();
  const main = groups.some(({ feedsGpus }) => feedsGpus) ? groups.filter(({ feedsGpus }) => feedsGpus) : groups;
  return main.map(({ nominal, rails: own }) => {
    const name = `${nominal === null ? "" : `${nominalText(nominal)} `}rail${own.length > 1 ? `s, lowest of ${own.length}` : ""}`;
    return { id: `figure-rails-${nominal ?? "unknown"}`, label: `${name} · 5 s`, rails: own };
  });
}

function card(id, label) {
  return element(
    "div",
    { class: "figure", id },
    element("p", { class: "label" }, label),
    element("p", { class: "value" }, element("span", { class: "number" }), element("span", { class: "unit" })),
    element("p", { class: "sub" }),
  );
}

function table(id, caption, heads, entities) {
  const row = (entity) =>
    element(
      "tr",
      { "data-entity": entity.id },
      element("th", { scope: "row" }, entity.label),
      heads.slice(1).map((head) => element("td", { class: head.class })),
    );
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      { id },
      element("caption", { class: "unseen" }, caption),
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          heads.map((head) => element("th", { scope: "col", class: head.class }, head.text)),
        ),
      ),
      element("tbody", {}, entities.map(row)),
    ),
  );
}

const number = (text, extra = "") => ({ text, class: `number ${extra}`.trim() });

function gpuTable() {
  const heads = [
    { text: "GPU" },
    number("Power"),
    number("Limit", "wide"),
    number("SM clock"),
    number("Die"),
    number("To slowdown", "wide"),
    number("Busy", "wide"),
    { text: "Held back by" },
  ];
  return table("gpus", "GPUs now", heads, ofKind("gpu"));
}

const PINS = [1, 2, 3, 4, 5, 6];
const pinRow = (id) => `pins of ${id}`;
const pinsRead = (gpu) => samples.has(gpu.id, "pin1_current_a");

/** The pins of the power connectors; hidden where none is measured. */
function pinTable() {
  const heads = [{ text: "12V-2x6" }, ...PINS.map((pin) => number(`Pin ${pin}`)), number("Sum"), number("Lowest pin", "wide")];
  const rows = ofKind("gpu").map(({ id, label }) => ({ id: pinRow(id), label }));
  return table("pins", "Current of each pin of the GPUs' 12V-2x6 connectors now", heads, rows);
}

function drawPins() {
  const gpus = ofKind("gpu");
  byId("pins").parentElement.hidden = !gpus.some(pinsRead);
  for (const gpu of gpus) {
    const row = rowOf(pinRow(gpu.id));
    if (!row) continue;
    row.hidden = !pinsRead(gpu);
    const amperes = PINS.map((pin) => read(gpu, `pin${pin}_current_a`));
    const volts = PINS.map((pin) => read(gpu, `pin${pin}_voltage_v`));
    const whole = (values) => values.every((value) => value !== null);
    const sum = whole(amperes) ? amperes.reduce((all, value) => all + value, 0) : null;
    const lowest = whole(volts) ? Math.min(...volts) : null;
    fillRow(pinRow(gpu.id), [...amperes.map((value) => quantity(value, "A", 2)), quantity(sum, "A"), quantity(lowest, "V", 3)]);
    [...row.querySelectorAll("td")].slice(0, PINS.length).forEach((cell, place) => {
      cell.classList.toggle("over", amperes[place] > state.labels.pin_limit_a);
    });
  }
}

function supplyTable() {
  const heads = [
    { text: "Supply" },
    number("Nominal"),
    number("Voltage"),
    number("Lowest of 5 s"),
    number("Current"),
    number("Limit", "wide"),
  ];
  return table("supplies", "Supplies now", heads, rails());
}

export function drawReadings() {
  if (!state.status) return;
  drawFigures();
  for (const gpu of ofKind("gpu")) fillRow(gpu.id, gpuCells(gpu));
  drawPins();
  for (const rail of rails()) fillRow(rail.id, railCells(rail));
}

const rowOf = (id) => byId("readings").querySelector(`tr[data-entity="${CSS.escape(id)}"]`);

function fillRow(id, texts) {
  rowOf(id)?.querySelectorAll("td").forEach((cell, index) => {
    setText(cell, texts[index]);
    cell.classList.toggle("unknown", texts[index] === UNKNOWN);
  });
}

function gpuCells(gpu) {
  return [
    quantity(read(gpu, "power_w"), "W"),
    quantity(read(gpu, "power_limit_w"), "W"),
    quantity(read(gpu, "sm_clock_mhz"), "MHz"),
    quantity(read(gpu, "gpu_temp_c"), "°C"),
    quantity(margin(gpu), "K", 0),
    quantity(read(gpu, "gpu_util_ratio"), "ratio"),
    heldBack(gpu),
  ];
}

function railCells(rail) {
  const { volts, source } = nominalOf(rail);
  return [
    volts === null ? UNKNOWN : `${nominalText(volts)} (${source})`,
    quantity(read(rail, "voltage_v"), "V"),
    quantity(lowestOf(rail), "V"),
    quantity(read(rail, "current_a"), "A"),
    limitOf(rail) === null ? "none" : quantity(limitOf(rail), "V"),
  ];
}

function margin(gpu) {
  const [now, limit] = [read(gpu, "gpu_temp_c"), read(gpu, "slowdown_temp_c")];
  return now === null || limit === null ? null : limit - now;
}

/** Reasons for a lower clock: the caps that railwatch has in force, then the reason bits of the driver. */
function heldBack(gpu) {
  const bits = read(gpu, "throttle_reasons");
  if (bits === null) return read(gpu, "pci_present") === 0 ? "off the bus" : UNKNOWN;
  const names = Object.entries(state.labels.throttle_bits).filter(([bit]) => Math.floor(bits / bit) % 2 === 1);
  return [...ownCaps(gpu), ...names.map(([, name]) => name)].join(", ") || "nothing";
}

/** The lowest clock cap and the lowest power cap of railwatch on a GPU, as texts. */
function ownCaps(gpu) {
  const held = state.records.actions.filter(
    (action) => action.entity_id === gpu.id && state.labels.in_force.includes(action.state) && action.wanted !== null,
  );
  return ["MHz", "W"].flatMap((unit) => {
    const settings = held.filter((action) => action.unit === unit).map((action) => action.wanted);
    return settings.length ? [`railwatch cap ${quantity(Math.min(...settings), unit)}`] : [];
  });
}

function drawFigures() {
  for (const { id, rails: own } of railFigures()) drawRailFigure(id, own);
  const gpus = ofKind("gpu");
  drawPower(gpus);
  const [hottest, temp] = extreme(gpus, "gpu_temp_c", (a, b) => a > b);
  const room = hottest && margin(hottest);
  fill(
    "figure-hottest",
    shown(temp, "°C"),
    joined(hottest?.label, room !== null && room !== undefined && `${room.toFixed(0)} K to slowdown`),
    room !== null && room <= 5,
  );
  const [slowest, clock] = extreme(gpus, "sm_clock_mhz", (a, b) => a < b);
  const why = slowest && heldBack(slowest);
  fill(
    "figure-clock",
    shown(clock, "MHz"),
    joined(slowest?.label, why && why !== "nothing" && why !== UNKNOWN && why),
    false,
  );
}

/** The lowest of some rails of one nominal voltage; which it is, and how many are unknown. */
function drawRailFigure(id, own) {
  const known = own.map((rail) => [lowestOf(rail), rail]).filter(([least]) => least !== null);
  const [least, rail] = known.sort(([a], [b]) => a - b)[0] ?? [null, own[0]];
  const limit = limitOf(rail);
  const low = least !== null && limit !== null && least < limit;
  const text = limit === null ? "no limit known" : low ? `below the ${quantity(limit, "V")} limit` : `limit ${quantity(limit, "V")}`;
  const silent = own.length - known.length;
  const which = own.length > 1 && joined(known.length && rail.label, silent && `${silent} unknown`);
  fill(id, shown(least, "V"), joined(which, text, own.length === 1 && quantity(read(rail, "current_a"), "A")), low);
}

/** The sum over the GPUs that answer; the line below counts them. */
function drawPower(gpus) {
  const known = gpus.filter((gpu) => read(gpu, "power_w") !== null);
  const means = known.map((gpu) => samples.mean(gpu.id, "power_w", nowMs(), RECENT_MS));
  const total = known.length ? means.reduce((sum, value) => sum + value, 0) : null;
  const partly = known.length > 0 && known.length < gpus.length;
  fill("figure-power", shown(total, "W"), `${known.length} of ${gpus.length} GPUs read`, partly);
}

function extreme(entities, signal, better) {
  let [who, best] = [null, null];
  for (const entity of entities) {
    const value = read(entity, signal);
    if (value !== null && (best === null || better(value, best))) [who, best] = [entity, value];
  }
  return [who, best];
}

const joined = (...parts) => parts.filter(Boolean).join(" · ");

function fill(id, { text, unit }, sub, alarming) {
  const holder = byId(id);
  if (!holder) return;
  setText(holder.querySelector(".number"), text);
  setText(holder.querySelector(".unit"), unit);
  setText(holder.querySelector(".sub"), sub);
  holder.classList.toggle("alarming", alarming);
  holder.classList.toggle("unknown", text === UNKNOWN);
}
