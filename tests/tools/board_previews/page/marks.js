// Annotations over a plot: a dashed line where a mark begins and ends, its time tinted and underlined.
export const COLOURS = { orange: "#ff9830", red: "#f2495c", purple: "#b877d9" };

export function drawMarks(pen, marks, x, plot) {
  const bottom = plot.top + plot.height;
  for (const { color, from_ms, to_ms } of marks) {
    const [begin, end] = [from_ms, to_ms].map((at) => Math.min(Math.max(x(at), plot.left), plot.left + plot.width));
    const colour = COLOURS[color];
    pen.save();
    pen.strokeStyle = pen.fillStyle = colour;
    pen.globalAlpha = 0.1; // as Grafana does
    pen.fillRect(begin, plot.top, end - begin, plot.height);
    pen.globalAlpha = 1;
    pen.fillRect(begin, bottom, Math.max(end - begin, 2), 4);
    pen.setLineDash([5, 5]);
    for (const at of new Set([begin, end])) {
      pen.beginPath();
      pen.moveTo(at, plot.top);
      pen.lineTo(at, bottom);
      pen.stroke();
    }
    pen.restore();
  }
}
