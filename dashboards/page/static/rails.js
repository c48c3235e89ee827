// The rails of the node: nominal voltage and its source, limit, what each feeds, and which is the worst.

import { labelList, quantity } from "./format.js";
import * as samples from "./samples.js";
import { nowMs, state } from "./stream.js";

export const RECENT_MS = 5_000; // a training step lasts about a second: its dip stays readable this long
// A rail stands out if it is lower than its twins by more than their meters differ (1 to 2 %, typical of PMBus), or
// carries this much more or less than they do. heuristic: supplies without a share line differ by a third.
const LOWER_RATIO = 0.01;
const SHARE_RATIO = 1.5;
const MOVES = 0.25; // heuristic: change of that distance which is worth a new order
const SOURCES = { "sensor limits": "sensor limits", label: "the sensor's label" };

const shownNominal = new Map(); // entity id -> nominal voltage that its readings show
const heldOddness = new Map(); // entity id -> distance from its twins by which it is ordered

/**
 * Return the supplies that are rails: those with a nominal voltage, or whose voltage was measured. Outputs that only a
 * board controller measures count where no supply has a meter of its own, as in the judgement.
 */
export function rails() {
  const supplies = state.entities.filter(({ kind }) => kind === "supply");
  const names = new Map(supplies.map(({ id }) => [id, samples.measuredName(id, "voltage_v")]));
  const hasMeters = [...names.values()].includes("voltage_v");
  const isMeasured = (name) => name !== null && !(hasMeters && name === "output_voltage_v");
  return supplies.filter((supply) => namedNominal(supply) !== null || isMeasured(names.get(supply.id)));
}

const namedNominal = (rail) => (Number(rail.tags.nominal_v) > 0 ? Number(rail.tags.nominal_v) : null);
const classOf = (volts) => state.labels.rail_classes.find((one) => one.nominal_v === volts);

/** Return the nominal voltage of a rail and what named it; null volts until its tag or a reading shows it. */
export function nominalOf(rail) {
  const volts = namedNominal(rail);
  if (volts !== null) return { volts, source: SOURCES[rail.tags.nominal_from] ?? rail.tags.nominal_from ?? "its tag" };
  if (!shownNominal.has(rail.id)) {
    const reading = samples.lastKnown(rail.id, "voltage_v");
    const known = state.labels.rail_classes.find(({ shown_v: [low, high] }) => reading !== null && reading >= low && reading < high);
    if (known) shownNominal.set(rail.id, known.nominal_v);
  }
  return { volts: shownNominal.get(rail.id) ?? null, source: "readings" };
}

/** Return the lowest voltage that rails of a nominal voltage may have, null where no limit is known. */
export function limitAt(volts) {
  const known = classOf(volts);
  return known?.limit_scale ? known.limit_scale * state.status.rail_limit_v : null;
}

/** Return the lowest voltage that a rail may have, null where no limit is known. */
export const limitOf = (rail) => limitAt(nominalOf(rail).volts);

/** Return the lowest voltage of the last seconds; null once the newest is stale. */
export const lowestOf = (rail) =>
  samples.latest(rail.id, "voltage_v", nowMs(), state.staleAfterMs) === null
    ? null
    : samples.lowest(rail.id, "voltage_v", nowMs(), RECENT_MS);

/** What charts and figures are laid out by: rails, their nominal voltages and who names them, and what they feed. */
export const railLayout = () => rails().map((rail) => [rail.id, rail.name, nominalOf(rail), feedsText(rail)]);

/** Return the rails by nominal voltage, those that feed GPUs first: { nominal, limit, feedsGpus, rails }. */
export function railGroups() {
  const groups = new Map();
  for (const rail of rails()) {
    const { volts } = nominalOf(rail);
    const feedsGpus = classOf(volts)?.feeds_gpus ?? false;
    if (!groups.has(volts)) groups.set(volts, { nominal: volts, limit: limitOf(rail), feedsGpus, rails: [] });
    groups.get(volts).rails.push(rail);
  }
  return [...groups.values()].sort((a, b) => b.feedsGpus - a.feedsGpus || (b.nominal ?? 0) - (a.nominal ?? 0));
}

/** Return the rails of a group by what they feed: those of one bus are together. */
export function busesOf(group) {
  const buses = new Map();
  for (const rail of group.rails) {
    const feeds = feedsText(rail);
    if (!buses.has(feeds)) buses.set(feeds, { ...group, rails: [], feeds, group });
    buses.get(feeds).rails.push(rail);
  }
  return [...buses.values()];
}

/** "54 V rails of GPUs 0-3 · limit 51.30 V · nominal voltage from configuration". */
export function aboutBus({ nominal, limit, rails, feeds }) {
  const of = feeds && ` of ${feeds}`;
  if (nominal === null) return `Rails${of} of unknown nominal voltage · no limit is drawn`;
  const bySource = new Map();
  for (const rail of rails) {
    const { source } = nominalOf(rail);
    bySource.set(source, [...(bySource.get(source) ?? []), rail.label]);
  }
  const sources = [...bySource].map(([source, labels]) => (bySource.size > 1 ? `${source} (${labelList(labels)})` : source));
  const limitText = limit === null ? "no limit is known" : `limit ${quantity(limit, "V")}`;
  return `${nominalText(nominal)} rails${of} · ${limitText} · nominal voltage from ${sources.join(", ")}`;
}

/** "54 V", "3.3 V". */
export const nominalText = (volts) => quantity(volts, "V", Number.isInteger(volts) ? 0 : 1);

/** Return the rails of a bus, worst first: in an open incident, without a reading, lower or of another share than twins. */
export function worstFirst(bus) {
  const named = new Set(
    state.records.incidents
      .filter((incident) => incident.state !== "closed")
      .flatMap((incident) => [incident.entity_id, ...incident.affected]),
  );
  const twins = bus.rails.map((rail) => ({ lowest: lowestOf(rail), mean: samples.mean(rail.id, "current_a", nowMs(), RECENT_MS) }));
  const ordinary = { lowest: medianOf(twins.map(({ lowest }) => lowest)), mean: medianOf(twins.map(({ mean }) => mean)) };
  bus.rails.forEach((rail, place) => {
    const now = named.has(rail.id) ? Infinity : oddness(twins[place], ordinary, bus.nominal);
    const held = heldOddness.get(rail.id);
    if (held === undefined || !(Math.abs(now - held) < MOVES)) heldOddness.set(rail.id, now);
  });
  const order = (rail) => (heldOddness.get(rail.id) >= 1 ? heldOddness.get(rail.id) : 0);
  return [...bus.rails].sort((a, b) => (order(a) === order(b) ? 0 : order(b) - order(a)));
}

/** Return how far a rail is from its twins; from 1 on it stands out. */
function oddness({ lowest, mean }, ordinary, nominal) {
  if (lowest === null) return Number.MAX_VALUE;
  const lower = nominal === null ? 0 : (ordinary.lowest - lowest) / nominal / LOWER_RATIO;
  const share = mean > 0 && ordinary.mean > 0 ? Math.abs(Math.log(mean / ordinary.mean)) / Math.log(SHARE_RATIO) : 0;
  return Math.max(lower, share);
}

function medianOf(values) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  return known[known.length >> 1] ?? null;
}

/** "GPUs 0-3" where a rail feeds some of the GPUs; empty where it feeds all, or none is known. */
function feedsText(rail) {
  const gpus = state.entities.filter((entity) => entity.kind === "gpu");
  const fed = gpus.filter((gpu) => isAbove(rail.id, gpu, new Set()));
  return fed.length && fed.length < gpus.length ? labelList(fed.map((gpu) => gpu.label)) : "";
}

function isAbove(id, entity, seen) {
  if (seen.has(entity.id)) return false;
  seen.add(entity.id);
  return entity.parents.some((parent) => {
    if (parent === id) return true;
    const next = state.entities.find((other) => other.id === parent);
    return next !== undefined && next.kind === "supply" && isAbove(id, next, seen);
  });
}
