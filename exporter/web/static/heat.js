// Colours of samples as a small picture, one pixel a sample: rows × columns, oldest left.
// A gap stays transparent, so that what lies behind shows. Knows no sizes on the screen.

import { viridis } from "./viridis.js";

export class Heat {
  constructor(rows, columns) {
    this.rows = rows;
    this.columns = columns;
    this.picture = new OffscreenCanvas(columns, rows);
    this.context = this.picture.getContext("2d");
  }

  /**
   * Move `steps` columns to the left, and draw those that came and the one before, which may have
   * grown. `value(row, column)` is a ratio, NaN for a gap.
   */
  draw(steps, value) {
    const from = Math.max(0, this.columns - steps - 1);
    const width = this.columns - from;
    this.context.globalCompositeOperation = "copy"; // gaps move too
    if (from > 0) this.context.drawImage(this.picture, -steps, 0);
    const pixels = this.context.createImageData(width, this.rows);
    for (let row = 0; row < this.rows; row += 1) {
      for (let column = from; column < this.columns; column += 1) {
        const ratio = value(row, column);
        if (Number.isNaN(ratio)) continue;
        pixels.data.set([...viridis(ratio), 255], 4 * (row * width + column - from));
      }
    }
    this.context.putImageData(pixels, from, 0);
  }
}
