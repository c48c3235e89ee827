// Numbers, units and times as people read them. Absent is "unknown", never 0.

export const UNKNOWN = "unknown";
const DECIMALS = { V: 2, A: 1, W: 0, MHz: 0, "°C": 0, K: 1, Ω: 4, s: 1, ratio: 2, GB: 1 };

/** Return value and unit apart, converted to what a screen shows: percent, milliohm, MiB. */
export function shown(value, unit, decimals) {
  if (value === null || value === undefined || Number.isNaN(value)) return { text: UNKNOWN, unit: "" };
  if (unit === "ratio") return { text: (value * 100).toFixed(decimals ?? 0), unit: "%" };
  if (unit === "ohm" || unit === "Ω") return { text: (value * 1000).toFixed(decimals ?? 2), unit: "mΩ" };
  if (unit === "B") return bytes(value);
  const digits = decimals ?? DECIMALS[unit] ?? (Number.isInteger(value) ? 0 : 2);
  return { text: value.toFixed(digits), unit };
}

/** Return value and unit as one text with a narrow no-break space between; none before "%". */
export function quantity(value, unit, decimals) {
  const { text, unit: suffix } = shown(value, unit, decimals);
  if (suffix === "%") return `${text}%`;
  return suffix ? `${text}\u202f${suffix}` : text;
}

/** Return a ratio of a baseline: "2.9x", and "1.08x" where one digit would hide a change. */
export const multiple = (ratio) => (Number.isFinite(ratio) ? `${ratio.toFixed(ratio >= 1.5 ? 1 : 2)}x` : UNKNOWN);

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  let rest = count;
  while (rest >= 1024 && power < units.length - 1) [rest, power] = [rest / 1024, power + 1];
  return { text: rest.toFixed(power && rest < 100 ? 1 : 0), unit: units[power] };
}

/** 75 -> "1:15", 3700 -> "1:01:40". */
export function countdown(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** 12 -> "12 s", 240 -> "4 min", 7300 -> "2 h". */
export function duration(seconds) {
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
export const clockTime = (ms) => CLOCK.format(ms);
const DAY = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
export const dayTime = (ms) => DAY.format(ms);
export const nsToMs = (ns) => ns / 1e6;

/** source_resistance_ohm -> "Source resistance": for evidence that has no label of its own. */
export function humanised(name) {
  const bare = name.replace(/_(v|a|w|c|s|ohm|mhz|ratio|bytes)$/, "").replaceAll("_", " ");
  return capitalised(bare);
}

/** Several labels in one text, consecutive numbers as a range: "GPUs 0-3, PSU 1". */
export function labelList(labels) {
  const numbered = new Map();
  const others = [];
  for (const label of new Set(labels)) {
    const [, kind, number] = /^(.+) (\d+)$/.exec(label) ?? [];
    if (kind) numbered.set(kind, [...(numbered.get(kind) ?? []), Number(number)]);
    else others.push(label);
  }
  const parts = [...numbered.keys()].sort().map((kind) => {
    const numbers = numbered.get(kind);
    return `${kind}${numbers.length > 1 ? "s" : ""} ${ranges(numbers)}`;
  });
  return [...parts, ...others.sort()].join(", ");
}

function ranges(numbers) {
  const runs = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const run = runs.at(-1);
    if (run && number === run[1] + 1) run[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

export const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);
