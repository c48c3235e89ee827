// What flows through the parts of the wiring: volts, amperes and watts, and each load as a share of its rating.

import { labelList } from "./format.js";
import { RECENT_MS } from "./rails.js";
import * as samples from "./samples.js";
import { nowMs, state } from "./stream.js";

// What a supply shows, the most direct signal first: at the load, as the supply reports it, as the board measures it.
const VOLTAGES = ["voltage_v", "output_voltage_v", "rail_voltage_v"];
const CURRENTS = ["current_a", "output_current_a", "rail_current_a"];
const SLOW = new Set(Object.values(samples.OTHER_NAMES).flat());
const SLOW_STALE_MS = 35_000; // heuristic: three reads of a board controller, which by default come every ten seconds

const staleAfter = (signal) => (SLOW.has(signal) ? SLOW_STALE_MS : state.staleAfterMs);

/** Return the first of some entities and signals that has a reading now: { id, signal, latest }, null where none has. */
function reading(ids, signals, staleMs = null) {
  for (const id of ids) {
    for (const signal of signals) {
      const latest = samples.latest(id, signal, nowMs(), staleMs ?? staleAfter(signal));
      if (latest !== null) return { id, signal, latest };
    }
  }
  return null;
}

const meanOf = (found) => found && (samples.mean(found.id, found.signal, nowMs(), RECENT_MS) ?? found.latest);
const lowestOf = (found) => found && (samples.lowest(found.id, found.signal, nowMs(), RECENT_MS) ?? found.latest);

/** Return the lowest recent voltage of several rails; below half of the nominal one an output is off. Null for none. */
export function lowestNow(ids, nominal) {
  const known = ids.map((id) => lowestOf(reading([id], VOLTAGES))).filter((value) => value !== null && value > nominal / 2);
  return known.length ? Math.min(...known) : null;
}

/** Return means of the last seconds at the output of a supply, and its lowest voltage; null where it is not measured. */
function flowOf({ entities }) {
  const [volts, amps] = [reading(entities, VOLTAGES), reading(entities, CURRENTS)];
  const [voltage, current] = [meanOf(volts), meanOf(amps)];
  const power = voltage === null || current === null ? meanOf(reading(entities, ["power_w"], SLOW_STALE_MS)) : voltage * current;
  return { voltage, lowest: lowestOf(volts), current, power };
}

/** Return what flows now: the flow of each supply by name, the watts of each GPU by id, and every load with a rating. */
export function flowsNow(wiring) {
  const gpus = state.entities.filter(({ kind }) => kind === "gpu");
  const flows = {
    supplies: new Map(wiring.supplies.map((supply) => [supply.name, flowOf(supply)])),
    gpus: new Map(gpus.map(({ id }) => [id, meanOf(reading([id], ["power_w"]))])),
  };
  return { ...flows, loads: loadsOf(wiring, flows) };
}

/** Return the sum of some values, null where one of them is absent or there is none. */
export function total(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length && known.length === values.length ? known.reduce((sum, value) => sum + value, 0) : null;
}

/** Return the voltage of a bus now, its nominal one where it is not measured. */
const voltageOf = (bus, { supplies }) =>
  bus.supplies.map((name) => supplies.get(name)?.voltage).find((value) => value > 0) ?? bus.nominal_v;

/**
 * Return every load whose rating is known: { part, name, of, load, rating, unit, ratio, atLeast }. `part` is where it
 * is drawn, `name` the plug or breaker, empty for the rating of a supply or shelf, and `of` whose it is.
 */
function loadsOf(wiring, flows) {
  const loads = [];
  const add = (part, name, of, unit, load, rating, atLeast = false) => {
    if (load === null || !(rating > 0)) return;
    loads.push({ part, name, of, unit, load, rating, atLeast, ratio: load / rating });
  };
  addSupplies(add, wiring, flows);
  const powerOf = (supplies) => total(supplies.map(({ name }) => flows.supplies.get(name).power));
  for (const feed of wiring.feeds) {
    const power = powerOf(wiring.supplies.filter((supply) => supply.feed === feed.name));
    const part = `feed ${feed.name}`;
    add(part, "breaker", part, "A", over(power, feed.nominal_v), feed.breaker_a, true);
  }
  for (const shelf of wiring.shelves) {
    const part = `shelf ${shelf.name}`;
    add(part, "", part, "W", powerOf(wiring.supplies.filter((one) => one.shelf === shelf.name)), shelf.rated_w);
  }
  for (const bus of wiring.buses) bus.branches.forEach((branch, place) => addBranch(add, bus, branch, place, flows));
  return loads;
}

/** Return a power over a voltage, null where either is unknown. */
const over = (power, volts) => (power === null || power === undefined || !(volts > 0) ? null : power / volts);

/** Add the loads of supplies, of the plugs behind them and of their inlets. */
function addSupplies(add, wiring, flows) {
  for (const supply of wiring.supplies) {
    const { current, power } = flows.supplies.get(supply.name);
    const part = `supply ${supply.name}`;
    add(part, "", supply.label, "W", power, supply.rated_w);
    for (const plugs of supply.plugs) add(part, plugs.label, supply.label, "A", current, plugs.rating_a);
    // Without the losses of the supply: at least that much flows.
    const mains = wiring.feeds.find(({ name }) => name === supply.feed)?.nominal_v;
    if (supply.inlet) add(part, supply.inlet.label, supply.label, "A", over(power, mains), supply.inlet.rating_a, true);
  }
}

/** Add the loads of plugs that GPUs share, where they feed nothing else, and of the plugs of each GPU. */
function addBranch(add, bus, branch, place, flows) {
  const volts = voltageOf(bus, flows);
  const labelOf = (id) => state.entities.find((entity) => entity.id === id)?.label ?? id;
  const power = branch.board || branch.fans ? null : total(branch.gpus.map((id) => flows.gpus.get(id)));
  const all = labelList(branch.gpus.map(labelOf));
  for (const plugs of branch.plugs) add(branchPart(bus, place), plugs.label, all, "A", over(power, volts), plugs.rating_a);
  for (const id of branch.gpus) {
    const current = over(flows.gpus.get(id), volts);
    for (const plugs of branch.plugs_each) add(`gpu ${id}`, plugs.label, labelOf(id), "A", current, plugs.rating_a);
  }
}

export const branchPart = (bus, place) => `branch ${bus.name} ${place}`;

/** Return true if a load is above its rating. */
export const isOver = (load) => load.ratio > 1;

/** Return the load of a part that is nearest to its rating, undefined where none is known. */
export function tightest(loads, part) {
  const own = loads.filter((load) => load.part === part);
  return own.reduce((most, load) => (load.ratio > most.ratio ? load : most), own[0]);
}
