// How one chart looks: its card with a legend that carries the newest values, its axes, its lines.

import { element } from "./dom.js";
import { clockTime, shown } from "./format.js";
import { nowMs } from "./stream.js";

/** Give the card around a plot; its legend carries the newest values. */
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
    series: lines.map((line, index) => ({
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
    })),
  };
}

/** Places on the time axis stand still, so their labels do too: "−15 s", "now". */
function ago(ms) {
  const seconds = Math.round((nowMs() - ms) / 1000);
  if (seconds <= 0) return "now";
  return seconds < 120 ? `−${seconds}\u202fs` : `−${seconds / 60}\u202fmin`;
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
  const rows = points.map((point) => {
    const line = lines.find((item) => item.id === point.seriesId);
    const value = shown(point.value[1], line.unit, line.unit === "V" ? 3 : undefined);
    return `${point.marker ?? ""}${line.name}  ${value.text} ${value.unit}`;
  });
  return [clockTime(points[0].value[0]), ...rows].join("\n");
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
