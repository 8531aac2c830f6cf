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

  /** Draw every sample; `value(row, column)` is a ratio, NaN for a gap. */
  draw(value) {
    this.#put(0, value);
  }

  /** Move `steps` columns to the left and draw those that came, or the newest anew for 0. */
  advance(steps, value) {
    if (steps >= this.columns) return this.draw(value);
    if (steps > 0) {
      this.context.globalCompositeOperation = "copy"; // gaps move too
      this.context.drawImage(this.picture, -steps, 0);
      this.context.globalCompositeOperation = "source-over";
    }
    this.#put(this.columns - Math.max(1, steps), value);
  }

  #put(from, value) {
    const width = this.columns - from;
    const pixels = this.context.createImageData(width, this.rows);
    for (let row = 0; row < this.rows; row += 1) {
      for (let column = from; column < this.columns; column += 1) {
        const ratio = value(row, column);
        if (Number.isNaN(ratio)) continue;
        const at = 4 * (row * width + column - from);
        const [red, green, blue] = viridis(ratio);
        pixels.data[at] = red;
        pixels.data[at + 1] = green;
        pixels.data[at + 2] = blue;
        pixels.data[at + 3] = 255;
      }
    }
    this.context.putImageData(pixels, from, 0);
  }
}
