// How one chart looks: its card with a legend that carries the newest values, its axes, its lines.

import { element } from "./dom.js";
import { clockTime, dayTime, shown } from "./format.js";
import { stepMs } from "./history.js";
import { nowMs } from "./stream.js";

const DAY_MS = 86_400_000;

/** Build the card around a plot; its legend carries the newest values. */
export function furnished(id, title, lines, option) {
  const key = (line) => {
    line.value = element("span", { class: "number" });
    const swatch = element("i", { class: "swatch" });
    swatch.style.background = line.colour;
    return element("li", {}, swatch, line.name, " ", line.value);
  };
  const plot = element("div", {
    class: "plot",
    role: "img",
    "aria-label": `${title} over time; the tables below carry the values`,
  });
  const card = element(
    "figure",
    { class: "chart", id },
    element("figcaption", {}, element("h3", {}, title), element("ul", { class: "legend" }, lines.map(key))),
    plot,
  );
  return { card, plot: null, lines, option };
}

export function frame(colour, lines) {
  const text = { color: colour("dim"), fontSize: 11, fontFamily: "inherit" };
  return {
    animation: false,
    grid: { left: unitRoom(lines), right: 14, top: 22, bottom: 22 },
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    xAxis: {
      type: "value", // the time type takes no interval of ours and crowds its labels
      axisLabel: { ...text, showMinLabel: false, alignMaxLabel: "right", formatter: ago },
      axisLine: { lineStyle: { color: colour("line") } },
      axisTick: { show: false },
      splitLine: { show: false },
    },
    // Drawn on the canvas: the page's policy allows no styles inside markup.
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      confine: true,
      transitionDuration: 0,
      backgroundColor: colour("card"),
      borderColor: colour("line"),
      textStyle: { color: colour("ink"), fontSize: 12 },
      formatter: (points) => tooltip(points, lines),
    },
    series: [...lines.map((line, index) => ({
      id: (line.id = `${line.entity.id} ${line.signal}`),
      name: line.name,
      type: "line",
      yAxisIndex: line.axis,
      step: line.step,
      showSymbol: false,
      sampling: "minmax",
      silent: true,
      z: lines.length - index + 2,
      itemStyle: { color: line.colour },
      lineStyle: { color: line.colour, width: line.width, type: line.dash ?? "solid" },
      areaStyle: line.area ? { color: line.colour, opacity: 0.12 } : undefined,
      markLine:
        index === 0
          ? { symbol: "none", silent: true, animation: false, label: { ...text, formatter: "{b}" } }
          : undefined,
    })), ...lines.map(band)],
  };
}

/** The range between the lowest and the highest value of each step, behind the line of the means. */
function band(line, _, lines) {
  const style = { fill: line.colour, opacity: lines.length > 2 ? 0.1 : 0.18 };
  return {
    id: `${line.id} range`,
    type: "custom",
    yAxisIndex: line.axis,
    encode: { x: 0, y: [2, 3] },
    clip: true,
    silent: true,
    z: 1,
    // One shape for every stretch without a gap, all drawn with the first point.
    renderItem: ({ dataIndex }, api) => {
      const stretch = (points) => {
        const steps = points.flatMap(([ms, , low, high]) => [[ms, low, high], [ms + stepMs(), low, high]]);
        const edge = [...steps.map(([ms, low]) => [ms, low]), ...steps.map(([ms, , high]) => [ms, high]).reverse()];
        return { type: "polygon", shape: { points: edge.map((at) => api.coord(at)) }, style };
      };
      return dataIndex === 0 ? { type: "group", children: stretches(line.points).map(stretch) } : null;
    },
  };
}

/** Split points where a value is absent. */
function stretches(points) {
  const found = [[]];
  for (const point of points) {
    if (point[1] === null) found.push([]);
    else found.at(-1).push(point);
  }
  return found.filter((stretch) => stretch.length);
}

/** Places on the time axis do not move, so labels are relative: "−15 s", "−6 h", "now". */
function ago(ms) {
  const seconds = Math.round((nowMs() - ms) / 1000);
  if (seconds <= 3) return "now"; // a chart of days is drawn once a second
  const [size, unit] = [[1, "s"], [60, "min"], [3600, "h"], [86_400, "d"]].findLast(([size]) => seconds >= 2 * size || size === 1);
  return `−${Number((seconds / size).toFixed(1))}\u202f${unit}`;
}

/** Room for the widest label of the left axis. */
const unitRoom = (lines) => (lines[0].unit === "MHz" ? 66 : 52);

export function valueAxis(colour, unit, decimals) {
  return {
    type: "value",
    splitNumber: 4,
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: colour("dim"), fontSize: 11, formatter: (value) => `${value.toFixed(decimals)}\u202f${unit}` },
    splitLine: { lineStyle: { color: colour("line") } },
  };
}

function tooltip(points, lines) {
  const rows = points.flatMap((point) => {
    const line = lines.find((item) => item.id === point.seriesId);
    if (!line) return [];
    const [value, low, high] = point.value.slice(1).map((one) => shown(one, line.unit, line.unit === "V" ? 3 : undefined));
    const range = low && low.unit ? ` (${low.text} to ${high.text})` : "";
    return [`${point.marker ?? ""}${line.name}  ${value.text} ${value.unit}${range}`];
  });
  const ms = points[0].value[0];
  return [nowMs() - ms < DAY_MS / 2 ? clockTime(ms) : dayTime(ms), ...rows].join("\n");
}

export const levelStyle = (colour) => ({
  lineStyle: { color: colour("critical"), type: "dashed", width: 1 },
  label: {
    position: "insideStartBottom",
    color: colour("critical"),
    distance: 3,
    backgroundColor: colour("card"),
    padding: [1, 3],
  },
});
