// Hours, days and a month: mean, lowest and highest value of every step, as the node's store keeps them.

import { OTHER_NAMES } from "./samples.js";
import { state } from "./stream.js";

const SIGNALS = {
  supply: ["voltage_v", "current_a", ...Object.values(OTHER_NAMES).flat()],
  gpu: ["power_w", "sm_clock_mhz", "gpu_temp_c"],
};
const LEAST_REFRESH_MS = 10_000;

let held = { seconds: 0, stepMs: 0, readAt: -Infinity, series: new Map() }; // "entity signal" -> [[ms, mean, low, high]]
let reading = 0; // seconds of the range that is being read
let problem = "";

/** Read a range, unless it is fresh; calls `done` when something changed. */
export async function read(seconds, done) {
  const age = performance.now() - held.readAt;
  if (reading === seconds || (held.seconds === seconds && age < Math.max(held.stepMs, LEAST_REFRESH_MS))) return;
  reading = seconds;
  try {
    const kinds = Object.keys(SIGNALS).filter((kind) => state.entities.some((entity) => entity.kind === kind));
    const replies = await Promise.all(kinds.map((kind) => fetched(kind, seconds)));
    if (reading !== seconds) return; // another range was chosen meanwhile
    held = { seconds, stepMs: 1000 * (replies[0]?.step_s ?? 1), readAt: performance.now(), series: new Map() };
    for (const reply of replies) for (const [key, statistics] of named(reply)) held.series.set(key, points(reply, statistics));
    problem = "";
  } catch (error) {
    if (held.seconds !== seconds) held = { ...held, series: new Map() };
    held = { ...held, seconds, readAt: performance.now() };
    problem = String(error.message ?? error);
  } finally {
    if (reading === seconds) reading = 0;
  }
  done();
}

async function fetched(kind, seconds) {
  const query = new URLSearchParams([["kind", kind], ["seconds", seconds], ...SIGNALS[kind].map((name) => ["signal", name])]);
  const reply = await fetch(`/api/v1/history?${query}`);
  if (reply.ok) return reply.json();
  throw new Error((await reply.json().catch(() => ({}))).detail ?? `HTTP ${reply.status}`);
}

/** Return the statistics of a reply by entity and signal; a rail has one series, whatever its names were in the range. */
function named({ kind, series }) {
  const found = new Map();
  for (const { entity, signal, statistics } of series) {
    if (statistics.mean.every((value) => value === null)) continue;
    const today = kind === "supply" ? (Object.keys(OTHER_NAMES).find((name) => OTHER_NAMES[name].includes(signal)) ?? signal) : signal;
    const key = `${entity} ${today}`;
    const held = found.get(key);
    const merged = (one) => statistics[one].map((value, row) => held[one][row] ?? value);
    found.set(key, held ? { mean: merged("mean"), min: merged("min"), max: merged("max") } : statistics);
  }
  return found;
}

function points({ time_ms: times, step_s: step }, { mean, min, max }) {
  return times.flatMap((ms, row) => {
    const gap = row > 0 && ms - times[row - 1] > 1500 * step;
    const point = [ms, mean[row], min[row], max[row]];
    return gap ? [[times[row - 1] + 1000 * step, null, null, null], point] : [point];
  });
}

/** Points of one series of the range that was read last: time, mean, lowest and highest value. */
export const pointsOf = (entity, signal, seconds) =>
  held.seconds === seconds ? (held.series.get(`${entity} ${signal}`) ?? []) : [];

export const stepMs = () => held.stepMs;

/** What keeps a range from being shown; empty if it is shown. */
export function notice(seconds) {
  if (held.seconds !== seconds) return "Reading the store …";
  if (problem) return `The store cannot be read: ${problem}`;
  return held.series.size ? "" : "No samples are stored for this range.";
}
