// The samples the page holds: per series the points of the last ten minutes, as ECharts wants them.

const KEEP_MS = 600_000;
const GAP_MS = 3_000; // a silence this long is drawn as a gap, not as a line across it

const series = new Map(); // "entity signal" -> { unit, points: [[ms, value], ...], isMeasured: some value came }
const newestMs = new Map(); // table -> ms of its newest row
const keyOf = (entity, signal) => `${entity} ${signal}`;
// Names of the same reading where a board controller measures it: of a rail of the board, and of a supply's output.
export const OTHER_NAMES = {
  voltage_v: ["rail_voltage_v", "output_voltage_v"],
  current_a: ["rail_current_a", "output_current_a"],
};
const namesOf = (signal) => [signal, ...(OTHER_NAMES[signal] ?? [])];

/** Return the name by which a signal of an entity was measured, null where it never was. */
export const measuredName = (entity, signal) =>
  namesOf(signal).find((name) => series.get(keyOf(entity, name))?.isMeasured) ?? null;

const heldOf = (entity, signal) => series.get(keyOf(entity, measuredName(entity, signal) ?? signal));

/** Return true if samples of a signal of an entity came, with or without a value. */
export const has = (entity, signal) => heldOf(entity, signal) !== undefined;

export function clear() {
  series.clear();
  newestMs.clear();
}

/** Add what one message brought; rows that are here already are left out. */
export function add(tables, nowMs) {
  for (const table of tables) {
    const last = newestMs.get(table.table) ?? 0;
    const start = table.time_ms.findIndex((ms) => ms > last);
    if (start < 0) continue;
    for (const column of table.series) append(column, table.time_ms, start, nowMs - KEEP_MS);
    newestMs.set(table.table, table.time_ms[table.time_ms.length - 1]);
  }
}

function append(column, times, start, oldestMs) {
  const key = keyOf(column.entity, column.signal);
  let held = series.get(key);
  if (!held) series.set(key, (held = { unit: column.unit, points: [], isMeasured: false }));
  const { points } = held;
  for (let row = start; row < times.length; row += 1) {
    const before = points.length ? points[points.length - 1][0] : times[row];
    if (times[row] - before > GAP_MS) points.push([before + 1, null]);
    points.push([times[row], column.values[row]]);
    held.isMeasured ||= column.values[row] !== null;
  }
  if (points.length && points[0][0] < oldestMs - 30_000) points.splice(0, firstAfter(points, oldestMs));
}

function firstAfter(points, ms) {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return the points of one series since a time, one more before it so that the line enters from the edge. */
export function since(entity, signal, ms) {
  const held = heldOf(entity, signal);
  return held ? held.points.slice(Math.max(0, firstAfter(held.points, ms) - 1)) : [];
}

/** Keep the lowest and the highest point of every so many ms, in their order, and every gap: what a pixel can show. */
export function thinned(points, bucketMs) {
  const kept = [];
  let bucket = null;
  let [low, high] = [null, null];
  const flush = () => {
    if (low !== null) kept.push(...(low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]));
    [low, high] = [null, null];
  };
  for (const point of points) {
    const [ms, value] = point;
    const own = Math.floor(ms / bucketMs);
    if (own !== bucket || value === null) flush();
    bucket = own;
    if (value === null) kept.push(point);
    else {
      if (low === null || value < low[1]) low = point;
      if (high === null || value > high[1]) high = point;
    }
  }
  flush();
  return kept;
}

/** Return the newest value, null where it is absent or older than the limit. */
export function latest(entity, signal, nowMs, staleMs) {
  const points = heldOf(entity, signal)?.points;
  if (!points?.length) return null;
  const [ms, value] = points[points.length - 1];
  return nowMs - ms > staleMs ? null : value;
}

/** Return the newest value that is one, however old; null where there is none. */
export const lastKnown = (entity, signal) =>
  heldOf(entity, signal)?.points.findLast(([, value]) => value !== null)?.[1] ?? null;

/** Return the lowest value of the last so many ms, null where there is none. */
export function lowest(entity, signal, nowMs, spanMs) {
  let least = null;
  for (const [ms, value] of since(entity, signal, nowMs - spanMs)) {
    if (ms >= nowMs - spanMs && value !== null && (least === null || value < least)) least = value;
  }
  return least;
}

/** Return the mean of the last so many ms, null where there is no value. */
export function mean(entity, signal, nowMs, spanMs) {
  const values = since(entity, signal, nowMs - spanMs).filter(([ms, value]) => ms >= nowMs - spanMs && value !== null);
  return values.length ? values.reduce((sum, [, value]) => sum + value, 0) / values.length : null;
}

/** Return the time of the newest row of any table, null before the first. */
export function newest() {
  return newestMs.size ? Math.max(...newestMs.values()) : null;
}
