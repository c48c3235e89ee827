// Vertical lines over every chart: an incident opened, a cap was set, an action ended.

import { nsToMs } from "./format.js";
import { state } from "./stream.js";

/** Return the marks within the window; what happened to several GPUs at once is one mark. */
export function markLines(startMs, endMs, colour) {
  const found = new Map();
  const roomMs = (endMs - startMs) * 0.15; // nearer to the left edge a label would cover the axis
  // Labels stand above the plot: an incident's to the left of its line, an answer's to the right, as they come together.
  const mark = (ms, name, tint, type, align) => {
    if (ms <= startMs) return;
    found.set(`${name} ${Math.round(ms / 2000)}`, {
      xAxis: ms,
      name,
      lineStyle: { color: tint, type, width: 1 },
      label: {
        show: ms - startMs > roomMs || align === "left",
        position: "end",
        rotate: 0,
        align,
        distance: 3,
        color: tint,
      },
    });
  };
  const { incidents, decisions, actions } = state.records;
  for (const incident of incidents) {
    mark(nsToMs(incident.opened_ns), "incident", colour(incident.severity), "dashed", "right");
    if (incident.closed_ns) mark(nsToMs(incident.closed_ns), "closed", colour("dim"), "dotted", "right");
  }
  for (const decision of decisions) {
    if (decision.verdict === "execute" && decision.clock_mhz !== null) {
      mark(nsToMs(decision.time_ns), `cap ${decision.clock_mhz.toFixed(0)} MHz`, colour("accent"), "solid", "left");
    }
  }
  for (const action of actions) {
    if (["released", "expired"].includes(action.state)) {
      mark(nsToMs(action.time_ns), action.state, colour("accent"), "dotted", "left");
    }
  }
  return withRoom(thinned([...found.values()], (endMs - startMs) * 0.05), (endMs - startMs) * 0.3);
}

/** Of caps close to each other only the first and the last have a line: the curve itself is what is to be seen. */
function thinned(marks, nearMs) {
  const caps = marks.filter((one) => one.name.startsWith("cap ")).sort((one, other) => one.xAxis - other.xAxis);
  const between = caps.filter(
    (one, index) => one.xAxis - caps[index - 1]?.xAxis < nearMs && caps[index + 1]?.xAxis - one.xAxis < nearMs,
  );
  return marks.filter((one) => !between.includes(one));
}

/** Of labels that would cover each other, the newest stays: several caps in a row are read as the last one. */
function withRoom(marks, roomMs) {
  marks.sort((one, other) => one.xAxis - other.xAxis);
  marks.forEach((one, index) => {
    const { align } = one.label;
    const near = (other) => Math.abs(other.xAxis - one.xAxis) < roomMs && other.label.align === align;
    if (marks.slice(index + 1).some(near)) one.label.show = false;
  });
  return marks;
}
