// Rows over time on a canvas: npm has every panel of Grafana but this one. Cells reach to the left of
// their time, rows are sorted by their number, and colours are Viridis from `min` to `max` or, for
// counts of a histogram, Blues over what is there.
import { dateTimeFormat, getFieldDisplayName, getValueFormat, formattedValueToString } from "@grafana/data";
import { interpolateBlues, interpolateViridis } from "d3-scale-chromatic";
import { useLayoutEffect, useRef } from "react";
import { drawMarks } from "./marks.js";

const LEFT = 60;
const BOTTOM = 22;
const LEGEND = 30;
const TICKS = 6;

function rowsOf(frames, isHistogram) {
  const rows = frames.map((frame) => {
    const [time, value] = frame.fields;
    const name = isHistogram ? value.labels.le : getFieldDisplayName(value, frame, frames);
    return { name, byTime: new Map(time.values.map((at, index) => [at, value.values[index]])) };
  });
  const number = ({ name }) => (name === "+Inf" ? Infinity : Number.parseFloat(name));
  if (rows.every((row) => !Number.isNaN(number(row)))) {
    rows.sort((a, b) => number(a) - number(b));
  }
  if (!isHistogram) {
    return rows;
  }
  return rows.map(({ name, byTime }, index) => ({
    name,
    byTime: new Map([...byTime].map(([at, count]) => [at, count - (rows[index - 1]?.byTime.get(at) ?? 0)])),
  }));
}

export function Heatmap({ frames, panel, range, marks, width, height, theme }) {
  const canvas = useRef(null);
  useLayoutEffect(() => draw(canvas.current, { frames, panel, range, marks, width, height, theme }));
  return <canvas ref={canvas} style={{ width, height, display: "block" }} />;
}

function draw(canvas, { frames, panel, range, marks, width, height, theme }) {
  const { options, targets } = panel;
  const isHistogram = targets[0].format === "heatmap";
  const rows = rowsOf(frames, isHistogram);
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const pen = canvas.getContext("2d");
  pen.scale(devicePixelRatio, devicePixelRatio);
  pen.font = `12px ${theme.typography.fontFamily}`;
  pen.textBaseline = "middle";

  const plot = { left: LEFT, top: 6, width: width - LEFT - 12, height: height - 6 - BOTTOM - LEGEND };
  const times = [...new Set(rows.flatMap(({ byTime }) => [...byTime.keys()]))].sort((a, b) => a - b);
  const step = times[1] - times[0];
  const x = (at) => plot.left + ((at - range.from) / (range.to - range.from)) * plot.width;
  const tall = plot.height / rows.length;
  const top = (index) => plot.top + (options.yAxis.reverse ? index : rows.length - 1 - index) * tall;

  const hidden = options.filterValues.le;
  const shown = rows.flatMap(({ byTime }) => [...byTime.values()]).filter((value) => value > hidden);
  const { steps } = options.color;
  const least = options.color.min ?? Math.min(...shown);
  const most = options.color.max ?? Math.max(...shown);
  // as Grafana has it in its dark theme: Blues turned round, Viridis as it is
  const scheme = isHistogram ? (t) => interpolateBlues(1 - t) : interpolateViridis;
  const colour = (value) => {
    const index = Math.floor((steps * (value - least)) / (most - least || 1));
    return scheme(Math.min(Math.max(index, 0), steps - 1) / (steps - 1));
  };

  pen.save();
  pen.beginPath();
  pen.rect(plot.left, plot.top, plot.width, plot.height);
  pen.clip();
  rows.forEach(({ byTime }, index) => {
    for (const [at, value] of byTime) {
      if (value > hidden) {
        pen.fillStyle = colour(value);
        const [begin, end] = [x(at - step), x(at)].map(Math.round); // no seams between cells
        const gap = options.cellGap;
        pen.fillRect(begin, top(index) + gap / 2, Math.max(end - begin - gap, 1), tall - gap);
      }
    }
  });
  pen.restore();

  pen.fillStyle = theme.colors.text.primary;
  pen.textAlign = "right";
  const format = getValueFormat(options.yAxis.unit ?? "none");
  const each = Math.ceil(14 / tall);
  rows.forEach(({ name }, index) => {
    if (index % each === 0) {
      const label = isHistogram && name !== "+Inf" ? formattedValueToString(format(Number(name))) : name;
      pen.fillText(label, plot.left - 8, top(index) + (isHistogram ? 0 : tall / 2));
    }
  });
  pen.save();
  pen.translate(10, plot.top + plot.height / 2);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillText(options.yAxis.axisLabel, 0, 0);
  pen.restore();

  pen.textAlign = "center";
  const every = Math.ceil((range.to - range.from) / TICKS / 10_000) * 10_000;
  for (let at = Math.ceil(range.from / every) * every; at <= range.to; at += every) {
    pen.fillText(dateTimeFormat(at, { format: "HH:mm:ss", timeZone: "utc" }), x(at), plot.top + plot.height + 12);
  }
  drawMarks(pen, marks, x, plot);

  const bar = { left: plot.left, top: height - 22, width: Math.min(plot.width, 300), height: 8 };
  for (let index = 0; index < steps; index++) {
    pen.fillStyle = scheme(index / (steps - 1));
    pen.fillRect(bar.left + (bar.width * index) / steps, bar.top, bar.width / steps + 0.5, bar.height);
  }
  const cells = getValueFormat(options.cellValues.unit);
  const told = (value) => formattedValueToString(cells(value, options.cellValues.decimals));
  pen.fillStyle = theme.colors.text.secondary;
  for (const share of [0, 0.5, 1]) {
    pen.textAlign = ["left", "center", "right"][share * 2];
    pen.fillText(told(least + share * (most - least)), bar.left + share * bar.width, bar.top + 16);
  }
}
