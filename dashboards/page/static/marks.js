// Vertical lines over every chart: an incident opened, a cap was set, an action ended.

import { nsToMs } from "./format.js";
import { state } from "./stream.js";

const FONT_PX = 11;
const PADDING_PX = 3; // on either side of a label: it does not touch its line, nor another label

/** Return the marks within the window; what happened to several GPUs at once is one mark. `width` is that of the plot
 * in pixels, 0 for one that has no room for labels. */
export function markLines(startMs, endMs, colour, width) {
  const found = new Map();
  const mark = (ms, name, tint, type) => {
    if (ms <= startMs || ms > endMs) return;
    const label = { show: false, position: "end", rotate: 0, distance: 3, padding: [0, PADDING_PX], color: tint, fontSize: FONT_PX };
    found.set(`${name} ${Math.round(ms / 2000)}`, { xAxis: ms, name, lineStyle: { color: tint, type, width: 1 }, label });
  };
  const { incidents, decisions, actions } = state.records;
  for (const incident of incidents) {
    mark(nsToMs(incident.opened_ns), "incident", colour(incident.severity), "dashed");
    if (incident.closed_ns) mark(nsToMs(incident.closed_ns), "closed", colour("dim"), "dotted");
  }
  for (const decision of decisions) {
    if (decision.verdict === "execute" && decision.clock_mhz !== null) {
      mark(nsToMs(decision.time_ns), `cap ${decision.clock_mhz.toFixed(0)} MHz`, colour("accent"), "solid");
    }
  }
  for (const action of actions) {
    if (["released", "expired"].includes(action.state)) mark(nsToMs(action.time_ns), action.state, colour("accent"), "dotted");
  }
  const marks = thinned([...found.values()], (endMs - startMs) * 0.05);
  if (width) labelThose(marks, (ms) => ((ms - startMs) / (endMs - startMs)) * width, width);
  return marks;
}

/** Of caps close to each other only the first and the last have a line: the curve itself is what is to be seen. */
function thinned(marks, nearMs) {
  const caps = marks.filter((one) => one.name.startsWith("cap ")).sort((one, other) => one.xAxis - other.xAxis);
  const between = caps.filter(
    (one, index) => one.xAxis - caps[index - 1]?.xAxis < nearMs && caps[index + 1]?.xAxis - one.xAxis < nearMs,
  );
  return marks.filter((one) => !between.includes(one));
}

/** Show the labels that fit: incidents first, then the newest; beside their line, within the plot, clear of others. */
function labelThose(marks, placeOf, width) {
  const taken = [];
  const isIncident = ({ name }) => ["incident", "closed"].includes(name);
  const unnamed = new Set(); // an older cap is not named where a newer one has no room: it would be read as the last
  for (const one of [...marks].sort((a, b) => isIncident(b) - isIncident(a) || b.xAxis - a.xAxis)) {
    const [kind] = one.name.split(" ");
    const at = placeOf(one.xAxis);
    const placesOf = (name) => {
      const size = widthOf(name);
      // An incident ends at its line and what answers it begins at its own, as they come together.
      const sides = [[name, "left", at, at + size], [name, "right", at - size, at]];
      return [...(isIncident(one) ? sides.reverse() : sides), [name, "center", at - size / 2, at + size / 2]];
    };
    const wanted = [one.name, one.name.replace(" MHz", "")].flatMap(placesOf);
    const free = ([, , from, to]) => from >= 0 && to <= width && taken.every(([low, high]) => from >= high || to <= low);
    const fits = wanted.find(free);
    if (!fits) unnamed.add(kind);
    if (!fits || unnamed.has(kind)) continue;
    const [name, align, ...range] = fits;
    Object.assign(one, { name, label: { ...one.label, show: true, align } });
    taken.push(range);
  }
}

const canvas = document.createElement("canvas").getContext("2d");

function widthOf(text) {
  canvas.font = `${FONT_PX}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width + 2 * PADDING_PX;
}
