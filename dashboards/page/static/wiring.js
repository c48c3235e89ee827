// The wiring of the node: feeds and supplies on the left, their bus in the middle, plugs and what they feed on the right.

import { byId, element, setText } from "./dom.js";
import { UNKNOWN, capitalised, labelList, quantity } from "./format.js";
import { limitAt, nominalText, rails } from "./rails.js";
import { nowMs, state } from "./stream.js";
import { chainSection } from "./wiringchain.js";
import { branchPart, flowsNow, isOver, tightest, total } from "./wiringloads.js";

const NEAREST = 3; // loads in the line of those that are nearest to their ratings
const ORDER_MS = 5000; // between two choices of them: a line that changes all the time cannot be read
const DENSE_FROM = 8; // supplies from which lines are closer, so that sixteen fit on one screen
const LONGEST_NAME = 14; // characters of a supply for which its column makes room; longer names wrap
const OVER = ", over its rating";

let updates = []; // one function for each live text; takes what flows now
let hasRatings = false;

/** Build the frame of the panel for the wiring there is. */
export function layOutWiring() {
  const { wiring } = state;
  updates = [];
  hasRatings = ratingsOf(wiring).some((rating) => rating > 0);
  const sections = wiring.buses.map((bus) => busSection(wiring, bus));
  const others = leftOver(wiring);
  if (others) sections.push(others);
  const nothing = element("p", { class: "quiet" }, "No supply is measured and none is described.");
  const content = sections.length ? sections : [nothing];
  setText(byId("wiring").querySelector(".origin"), capitalised(`${wiring.origin_text}. Values are means of 5 s.`));
  const chains = wiring.chains.map((stages) => chainSection(stages));
  updates.push(...chains.map(({ update }) => update));
  const parts = [nearest(), ...content, ...chains.map(({ section }) => section), standing(wiring), unknowns(wiring)].filter(Boolean);
  const body = byId("wiring").querySelector(".body");
  body.style.setProperty("--names", Math.min(LONGEST_NAME, Math.max(6, ...wiring.supplies.map(({ label }) => label.length))));
  const each = wiring.buses.flatMap(({ branches }) => branches).some(({ plugs_each: plugs }) => plugs.length);
  body.dataset.loads = each ? "wide" : "narrow";
  body.dataset.size = wiring.supplies.length > DENSE_FROM ? "small" : "wide";
  body.replaceChildren(...parts);
  drawWiring();
}

/** Write what flows now into the frame. */
export function drawWiring() {
  if (!state.wiring || !updates.length || document.hidden) return;
  const flows = flowsNow(state.wiring);
  for (const update of updates) update(flows);
}

const ratingsOf = ({ supplies, feeds, shelves, buses }) => [
  ...supplies.flatMap((one) => [one.rated_w, one.inlet?.rating_a, ...one.plugs.map(({ rating_a }) => rating_a)]),
  ...feeds.map(({ breaker_a }) => breaker_a),
  ...shelves.map(({ rated_w }) => rated_w),
  ...buses.flatMap(({ branches }) => branches).flatMap(({ plugs, plugs_each: each }) => [...plugs, ...each].map((one) => one.rating_a)),
];

/** An element whose text, and whose mark for a load over its rating, follow what flows. */
function live(tag, attributes, textOf, loadOf = () => undefined) {
  const made = element(tag, attributes);
  updates.push((flows) => {
    const text = textOf(flows);
    setText(made, text);
    made.classList.toggle("unknown", text === UNKNOWN);
    const load = loadOf(flows);
    made.classList.toggle("over", load !== undefined && isOver(load));
    if (load) made.style.setProperty("--share", Math.min(1, load.ratio).toFixed(2));
    else made.style.removeProperty("--share");
  });
  return made;
}

const percent = ({ ratio }) => quantity(ratio, "ratio");
const amount = (value, unit) => value.toFixed(unit === "A" && value < 9.95 ? 1 : 0);
const least = ({ load, unit, atLeast }) => `${atLeast ? "at least " : ""}${amount(load, unit)}`;
const share = (load) => `${percent(load)}${isOver(load) ? OVER : ""}`;

/** "at least 12 of 20 A, 59%", and without the rating, where it is named before. */
const whole = (load) => `${least(load)} of ${Number(load.rating.toFixed(1))}\u202f${load.unit}, ${share(load)}`;
const bare = (load) => `${least(load)}\u202f${load.unit}, ${share(load)}`;

/** The loads that are nearest to their ratings, those above first. */
function nearest() {
  if (!hasRatings) return null;
  const list = element("ol", { class: "nearest", "aria-label": "Highest loads, as shares of their ratings" });
  const rest = element("span", {});
  let [chosen, chosenAt, overBefore] = [[], -Infinity, ""];
  const keyOf = ({ part, name, rating }) => `${part}|${name}|${rating}`;
  updates.push(({ loads }) => {
    const byKey = new Map(loads.map((load) => [keyOf(load), load]));
    const over = loads.filter(isOver).map(keyOf).sort().join();
    const came = chosen.length < Math.min(NEAREST, byKey.size) || chosen.some((key) => !byKey.has(key));
    if (came || over !== overBefore || nowMs() - chosenAt >= ORDER_MS) {
      chosen = [...byKey.values()].sort((a, b) => b.ratio - a.ratio).slice(0, NEAREST).map(keyOf);
      [chosenAt, overBefore] = [nowMs(), over];
    }
    while (list.children.length > chosen.length) list.lastChild.remove();
    while (list.children.length < chosen.length) list.append(element("li"));
    chosen.forEach((key, place) => {
      const load = byKey.get(key);
      setText(list.children[place], `${load.name ? `${load.name} of ${load.of}` : load.of}: ${whole(load)}`);
      list.children[place].classList.toggle("over", isOver(load));
    });
    const more = [...byKey].filter(([key, load]) => isOver(load) && !chosen.includes(key)).length;
    setText(rest, more ? `${more} more over their ratings` : byKey.size ? "" : "no load is known");
    rest.classList.toggle("over", more > 0);
  });
  return element("div", { class: "loads" }, element("span", { class: "dim" }, "Highest loads"), list, rest);
}

function busSection(wiring, bus) {
  const supplies = bus.supplies.map((name) => wiring.supplies.find((supply) => supply.name === name)).filter(Boolean);
  const title = titleOf(bus);
  return element(
    "section",
    { class: "wired", "aria-label": title },
    supplyTable(wiring, supplies, `Supplies of ${nameOf(bus)}`),
    busBox(bus, title, supplies),
    branchList(wiring, bus),
  );
}

const isVoltage = (bus) => bus.nominal_v !== null && bus.name === nominalText(bus.nominal_v).replace("\u202f", " ");

/** "54 V bus", "bus0", "Bus main". */
function titleOf(bus) {
  if (isVoltage(bus)) return `${nominalText(bus.nominal_v)} bus`;
  if (bus.name === "unknown voltage") return "Bus of unknown voltage";
  return /^bus/i.test(bus.name) ? bus.name : `Bus ${bus.name}`;
}

/** The same within a line: "bus main". */
const nameOf = (bus) => titleOf(bus).replace(/^Bus /, "bus ");

/** The bus: its voltage, how far that is from the limit, and its power. */
function busBox(bus, title, supplies) {
  const about = [
    bus.nominal_v !== null && !isVoltage(bus) && nominalText(bus.nominal_v),
    bus.redundancy,
    bus.joins.length && `tied to ${bus.joins.join(", ")}`,
  ];
  const lowest = ({ supplies: flows }) => {
    const known = supplies.map(({ name }) => flows.get(name).lowest).filter((value) => value !== null);
    return known.length ? Math.min(...known) : null;
  };
  const isMeasured = supplies.some(({ entities }) => entities.length);
  const limit = () => (bus.nominal_v === null ? null : limitAt(bus.nominal_v));
  const box = element(
    "div",
    { class: "bus" },
    element("h3", {}, title),
    element("p", { class: "dim" }, about.filter(Boolean).join(", ")),
    live("p", {}, (flows) => (isMeasured ? `lowest ${quantity(lowest(flows), "V")}` : "not measured")),
    live("p", { class: "margin" }, (flows) => marginText(lowest(flows), limit())),
    live("p", {}, (flows) => powerText(supplies.map(({ name }) => flows.supplies.get(name).power))),
  );
  const isLow = (flows) => lowest(flows) !== null && limit() !== null && lowest(flows) < limit();
  updates.push((flows) => box.classList.toggle("alarming", isLow(flows)));
  return box;
}

function marginText(lowest, limit) {
  if (lowest === null || limit === null) return "";
  const apart = quantity(Math.abs(lowest - limit), "V");
  return lowest < limit ? `${apart} below limit` : `${apart} above limit`;
}

function powerText(powers) {
  const known = powers.filter((power) => power !== null);
  if (!known.length) return "";
  return `${quantity(total(known), "W")}${known.length < powers.length ? `, ${powers.length - known.length} unknown` : ""}`;
}

function supplyTable(wiring, supplies, caption) {
  const head = (text, look = null) => element("th", { scope: "col", class: look }, text);
  const numbers = ["Voltage", "Current", "Power"].map((text) => head(text, "number"));
  const heads = [head("Supply"), ...numbers, ...(hasRatings ? [head("Load", "load")] : [])];
  return element(
    "table",
    { class: "inputs" },
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, heads)),
    [...sourcesOf(supplies).values()].map((own) => sourceRows(wiring, own, heads.length)),
  );
}

/** Return supplies by feed, shelf and the bus that they draw from. */
function sourcesOf(supplies) {
  const sources = new Map();
  for (const supply of supplies) {
    const key = JSON.stringify([supply.feed, supply.shelf, supply.from_bus]);
    sources.set(key, [...(sources.get(key) ?? []), supply]);
  }
  return sources;
}

/** The rows of supplies with one source; a way through plugs that several have is named once, above them. */
function sourceRows(wiring, supplies, columns) {
  const ways = new Map();
  for (const supply of supplies) ways.set(wayOf(supply), [...(ways.get(wayOf(supply)) ?? []), supply]);
  const shared = ways.size < supplies.length;
  const above = [...sourceLines(wiring, supplies[0]), ...(shared ? [...ways].map(([way, own]) => wayLine(way, own, supplies)) : [])];
  const rows = supplies.flatMap((supply) => [supplyRow(supply), !shared && wayRow(wayOf(supply), columns)]);
  const lines = above.filter(Boolean);
  const head = lines.length > 0 && element("tr", { class: "source" }, element("th", { scope: "rowgroup", colspan: columns }, lines));
  return element("tbody", { class: head ? "sourced" : null }, [head, ...rows].filter(Boolean));
}

const wayRow = (way, columns) => way && element("tr", { class: "way" }, element("td", { colspan: columns }, way));

function wayLine(way, own, supplies) {
  const whose = own.length === supplies.length ? "each" : `${labelList(own.map(({ label }) => label))}:`;
  return way && element("p", { class: "way" }, `${whose} ${way}`);
}

/** "in C13 (10 A), out lug-M6 (135 A) > 2x XT60 (60 A)". */
function wayOf({ inlet, plugs }) {
  return [inlet && `in ${rated(inlet)}`, plugs.length && `out ${plugs.map(rated).join(" > ")}`].filter(Boolean).join(", ");
}

const rated = ({ label, rating_a }) => (rating_a === null ? label : `${label} (${Number(rating_a.toFixed(1))}\u202fA)`);

function sourceLines(wiring, { feed, shelf, from_bus: fromBus }) {
  const named = (list, name) => list.find((one) => one.name === name);
  return [
    feed && feedLine(wiring, named(wiring.feeds, feed) ?? { name: feed }),
    shelf && shelfLine(wiring, named(wiring.shelves, shelf) ?? { name: shelf }),
    fromBus && element("p", {}, element("strong", {}, `From ${nameOf(named(wiring.buses, fromBus) ?? { name: fromBus, nominal_v: null })}`)),
  ];
}

function feedLine(wiring, feed) {
  const curve = feed.curve ? ` curve ${feed.curve}` : "";
  const breaker = feed.breaker_a && `breaker ${Number(feed.breaker_a)}\u202fA${curve}`;
  const fed = wiring.supplies.filter((supply) => supply.feed === feed.name);
  return sourceLine(`Feed ${feed.name}`, [feed.nominal_v && nominalText(feed.nominal_v), breaker], `feed ${feed.name}`, fed);
}

function shelfLine(wiring, shelf) {
  const modules = wiring.supplies.filter((supply) => supply.shelf === shelf.name);
  return sourceLine(`Shelf ${shelf.name}`, [shelf.rated_w && quantity(shelf.rated_w, "W")], `shelf ${shelf.name}`, modules);
}

/** "Feed A 230 V, breaker 32 A curve C: at least 18 A, 55%"; without a rating the power of all its supplies. */
function sourceLine(name, about, part, supplies) {
  const load = ({ loads }) => tightest(loads, part);
  const text = (flows) => {
    const known = load(flows);
    if (known) return `: ${bare(known)}`;
    const power = total(supplies.map((supply) => flows.supplies.get(supply.name).power));
    return power === null ? "" : `: ${quantity(power, "W")} out`;
  };
  const known = about.filter(Boolean).join(", ");
  return element("p", {}, element("strong", {}, name), known && ` ${known}`, live("span", {}, text, load));
}

function supplyRow(supply) {
  const name = element("th", { scope: "row" }, supply.label);
  const rating = supply.rated_w && `rated ${quantity(supply.rated_w, "W")}`;
  if (!supply.entities.length) {
    const text = ["not measured", rating].filter(Boolean).join(", ");
    return element("tr", {}, name, element("td", { class: "unknown", colspan: hasRatings ? 4 : 3 }, text));
  }
  const load = ({ loads }) => tightest(loads, `supply ${supply.name}`);
  const cell = (value, unit) =>
    live("td", { class: "number" }, ({ supplies }) => quantity(supplies.get(supply.name)[value], unit));
  const loadText = (flows) => {
    const known = load(flows);
    if (!known) return rating || UNKNOWN;
    return `${percent(known)} of ${known.name || quantity(known.rating, known.unit)}${isOver(known) ? OVER : ""}`;
  };
  const cells = [cell("voltage", "V"), cell("current", "A"), cell("power", "W")];
  return element("tr", {}, name, cells, hasRatings ? live("td", { class: "load" }, loadText, load) : null);
}

function branchList(wiring, bus) {
  const below = bus.branches.map((branch, place) => branchBox(bus, branch, place));
  for (const converter of wiring.supplies.filter((supply) => supply.from_bus === bus.name)) {
    const home = wiring.buses.find(({ supplies }) => supplies.includes(converter.name));
    below.push(element("li", {}, `${converter.label} to ${home ? nameOf(home) : "an unknown bus"}`));
  }
  if (!below.length) below.push(element("li", { class: "none" }, "no GPU, as far as is known"));
  return element("ul", { class: "branches", "aria-label": `Loads of ${nameOf(bus)}` }, below);
}

/** A branch: the plugs that all its current passes, those of each GPU, and what is at its end. */
function branchBox(bus, branch, place) {
  const [only, ...more] = branch.plugs;
  const shared = more.length ? branch.plugs.map(rated).join(" > ") : only?.label;
  const load = ({ loads }) => tightest(loads, branchPart(bus, place));
  const idle = only && !more.length ? rated(only).slice(only.label.length) : "";
  const flow = live("span", {}, (flows) => (load(flows) ? `: ${whole(load(flows))}` : idle), load);
  const through = shared && element("p", {}, shared, flow);
  const each = branch.plugs_each.length && element("p", {}, `each GPU through ${branch.plugs_each.map(rated).join(" > ")}`);
  const ends = [
    ...branch.gpus.map(gpuChip),
    ...branch.missing.map((label) => element("li", { class: "unknown" }, `${label} not found`)),
    (branch.board || branch.fans) && element("li", {}, [branch.board, branch.fans && "fans"].filter(Boolean).join(", ")),
  ];
  return element("li", {}, [through, each, element("ul", { class: "ends" }, ends.filter(Boolean))].filter(Boolean));
}

function gpuChip(id) {
  const label = state.entities.find((entity) => entity.id === id)?.label ?? id;
  const load = ({ loads }) => tightest(loads, `gpu ${id}`);
  const text = (flows) => {
    const known = load(flows);
    return [quantity(flows.gpus.get(id), "W"), known && share(known)].filter(Boolean).join(", ");
  };
  return element("li", { class: "gpu" }, element("strong", {}, label), " ", live("span", { class: "number" }, text, load));
}

/** Rails and GPUs that no bus of the wiring has; null where there are none. */
function leftOver(wiring) {
  const fed = wiring.buses.flatMap(({ branches }) => branches).flatMap(({ gpus }) => gpus);
  const shown = [...wiring.supplies, ...wiring.chains.flat()].flatMap(({ entities }) => entities);
  const known = new Set([...shown, ...fed]);
  const left = (entities) => entities.filter(({ id }) => !known.has(id)).map(({ label }) => label);
  const labels = [...left(rails()), ...left(state.entities.filter(({ kind }) => kind === "gpu"))];
  return labels.length ? element("p", {}, element("strong", {}, "On no bus that is known: "), labelList(labels)) : null;
}

/** The standing verdict of the guard; hidden before the first one. */
function standing({ verdict_lines: lines }) {
  const box = element("div", { class: "standing unknowns" }, element("h3", {}), element("ul", {}));
  fillStanding(box, lines);
  return box;
}

function fillStanding(box, [title = "", ...lines]) {
  box.hidden = !lines.length;
  setText(box.querySelector("h3"), capitalised(title));
  box.querySelector("ul").replaceChildren(...lines.map((line) => element("li", { class: line.includes(OVER) ? "over" : null }, line)));
}

/** Read the standing verdict again: the guard renews it each minute. */
export async function renewStanding() {
  const box = byId("wiring").querySelector(".standing");
  if (!box || document.hidden) return;
  const reply = await fetch("/api/v1/wiring").catch(() => null);
  if (reply?.ok) fillStanding(box, (await reply.json()).verdict_lines);
}

function unknowns({ unknown }) {
  if (!unknown.length) return null;
  const lines = unknown.map((line) => element("li", {}, line));
  return element("div", { class: "unknowns" }, element("h3", {}, "Not known"), element("ul", {}, lines));
}
