// Converters in a row: the lowest voltage of each stage in the last seconds, and the worst stage.

import { element, setText } from "./dom.js";
import { UNKNOWN, quantity } from "./format.js";
import { state } from "./stream.js";
import { lowestNow } from "./wiringloads.js";

/** Return a section for one chain, and the function that writes what is measured now into it. */
export function chainSection(stages) {
  const values = stages.map(() => element("span", {}));
  const items = stages.map(({ name, assumed }, place) =>
    element("li", {}, element("span", { class: "dim" }, assumed ? `${name} (assumed)` : name), " ", values[place]),
  );
  const verdict = element("p", { class: "verdict" });
  const kind = stages.some(({ converts }) => converts) ? "Converters in a row" : "Supplies and board";
  const label = [kind, busOf(stages)].filter(Boolean).join(", ");
  const section = element("section", { class: "chain", "aria-label": label }, element("h3", {}, label), element("ol", {}, ...items), verdict);
  const update = () => {
    const shown = stages.map((stage) => ({ stage, lowest: lowestNow(stage.entities, stage.nominal_v) }));
    shown.forEach(({ stage, lowest }, place) => setText(values[place], lowest === null ? UNKNOWN : valueText(stage, lowest)));
    const worst = worstOf(shown);
    setText(verdict, verdictText(shown, worst));
    items.forEach((item, place) => item.classList.toggle("alarming", shown[place] === worst && isLow(worst)));
  };
  return { section, update };
}

/** The bus of the supplies where the node has several, else null. */
function busOf([{ entities }]) {
  const buses = new Set(state.entities.filter(({ id }) => entities.includes(id)).map(({ tags }) => tags.bus));
  return buses.size === 1 ? [...buses][0] : null;
}

const isLow = ({ stage, lowest }) => lowest < stage.limit_v;

/** What is left of the tolerance of a rail: 1 at the nominal voltage, 0 at its limit, less below. */
const marginOf = ({ stage, lowest }) => (lowest - stage.limit_v) / (stage.nominal_v - stage.limit_v);

const valueText = (stage, lowest) => {
  const apart = quantity(Math.abs(lowest - stage.limit_v), "V");
  return `lowest ${quantity(lowest, "V")}, ${apart} ${lowest < stage.limit_v ? "below" : "above"} limit`;
};

/** The first stage below its limit, since a fall goes down the chain; else the one with the least margin. */
function worstOf(shown) {
  const known = shown.filter(({ lowest }) => lowest !== null);
  if (known.length < 2) return null;
  return known.find(isLow) ?? known.reduce((worst, one) => (marginOf(one) < marginOf(worst) ? one : worst));
}

function verdictText(shown, worst) {
  if (!worst) return "";
  const { name, suspect } = worst.stage;
  if (!isLow(worst)) return `Worst stage: ${name}, ${quantity(marginOf(worst), "ratio")} of its margin left`;
  const before = shown.slice(0, shown.indexOf(worst)).filter(({ lowest }) => lowest !== null);
  const healthy = before.length ? `${before.at(-1).stage.name} within limits; ` : "";
  return `${healthy}${name} below its limit: ${suspect}`;
}
