// The rows of one group: GPUs of the same engines, with names, samples, present values and memory.

import { node, setText } from "./dom.js";
import { factsOf } from "./facts.js";
import { gigabytes, ratio } from "./format.js";
import { Heat } from "./heat.js";
import { LANE, paintHeat, paintMemory } from "./paint.js";
import { conflictsOf, engineNames, preemptionsOf } from "./signs.js";

export class Group {
  constructor(template, model, { rows, engines }, rowHeight) {
    Object.assign(this, { rows, engines, rowHeight, isVisible: true });
    this.heat = new Heat(rows.length, model.columns);
    this.section = template.content.firstElementChild.cloneNode(true);
    this.section.style.setProperty("--row", `${rowHeight}px`);
    this.section.style.setProperty("--count", rows.length);
    const part = (selector) => this.section.querySelector(selector);
    this.facts = part("dl");
    this.heatCanvas = part(".heat");
    this.memoryCanvas = part(".memory");
    this.title = engineNames(model, this) || "No engine";
    part("h2").append(this.title, node("span", kindOf(model, this)));
    const fill = (selector, text) => {
      part(selector).replaceChildren(...rows.map((row) => node("li", text(row))));
      return [...part(selector).children];
    };
    fill(".names", (row) => model.nameOf(row));
    fill(".again", (row) => model.nameOf(row));
    this.now = fill(".now", () => "");
    this.sizes = fill(".sizes", () => "");
  }

  /** Take the samples of the newest columns, `steps` of them not seen before; all by default. */
  draw(model, steps = model.columns) {
    this.heat.draw(steps, (row, column) => model.value(this.rows[row], model.oldest + column));
  }

  /** Write present values and facts; what did not change is left alone. */
  write(model) {
    this.rows.forEach((row, at) => {
      setText(this.now[at], ratio(model.value(row, model.newest)));
      this.#writeSize(this.sizes[at], model, row);
    });
    const engines = this.engines.map((engine) => model.engine(engine));
    const key = JSON.stringify(engines);
    if (key === this.factsKey) return;
    this.factsKey = key;
    this.facts.replaceChildren(...engines.flatMap((engine) => factsOf(engine, engines.length > 1)));
  }

  #writeSize(item, model, row) {
    const total = model.total(row);
    const sizes = total === null ? ["", "", ""] : [gigabytes(model.used(row)), ` / ${gigabytes(total)}`, " GB"];
    const isDown = model.state.up?.[row] === false;
    const [used, of, unit] = isDown ? ["no answer", "", ""] : sizes;
    if (item.textContent === used + of + unit) return;
    item.replaceChildren(used, node("span", of), unit); // the span is left out on narrow screens
  }

  /** Draw on the screen, or on other canvases; `cursor` {row, column} of the model, or null. */
  paint(model, cursor, look, heatCanvas = this.heatCanvas, memoryCanvas = this.memoryCanvas) {
    const origin = { row: this.rows[0], column: model.oldest };
    const signs = [...preemptionsOf(model, this), ...conflictsOf(model, this)];
    const own = this.rows.includes(cursor?.row) ? cursor : null;
    paintHeat(heatCanvas, this.heat, signs, own, origin, look);
    const bar = (row) => ({ total: model.total(row), owners: model.owners(row, model.newest) });
    paintMemory(memoryCanvas, this.rows.map(bar), look);
  }

  /** The row at a height within one of the canvases; above the samples the row of a conflict there. */
  rowAt(model, canvas, y, column) {
    const lane = canvas === this.heatCanvas ? LANE : 0;
    const share = (y - lane) / (canvas.clientHeight - lane);
    if (share >= 0) return this.rows[Math.floor(share * this.rows.length)] ?? null;
    const isThere = (sign) => sign.column <= column && column <= sign.endColumn;
    return conflictsOf(model, this).find(isThere)?.row ?? this.rows[0];
  }
}

function kindOf(model, { engines, rows }) {
  const names = (all) => [...new Set(all)].filter(Boolean).join(", ");
  const models = names(engines.map((engine) => model.engines[engine].model_name));
  const gpus = names(rows.map((row) => model.rows[row].name));
  return [models, `${rows.length} × ${gpus || "GPU"}`].filter(Boolean).join(" · ");
}
