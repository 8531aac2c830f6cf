// The rows of one group: GPUs of the same engines, with names, samples, present values and memory.

import { factsOf } from "./facts.js";
import { gigabytes, ratio } from "./format.js";
import { Heat } from "./heat.js";
import { LANE, paintHeat, paintMemory } from "./paint.js";
import { conflictsOf, engineNames, preemptionsOf } from "./signs.js";

export class Group {
  constructor(template, model, group, rowHeight) {
    this.group = group;
    this.rowHeight = rowHeight;
    this.isVisible = true;
    this.heat = new Heat(group.rows.length, model.columns);
    this.section = template.content.firstElementChild.cloneNode(true);
    this.section.style.setProperty("--row", `${rowHeight}px`);
    this.section.style.setProperty("--count", group.rows.length);
    const [heading, facts, heat, memory] = ["h2", "dl", ".heat", ".memory"].map((selector) =>
      this.section.querySelector(selector),
    );
    Object.assign(this, { facts, heatCanvas: heat, memoryCanvas: memory });
    this.title = engineNames(model, group) || "No engine";
    heading.textContent = this.title;
    const kind = document.createElement("span");
    kind.textContent = kindOf(model, group);
    heading.append(kind);
    [this.now, this.sizes] = [".now", ".sizes"].map((name) => this.#list(name));
    for (const list of [".names", ".again"].map((name) => this.#list(name))) {
      group.rows.forEach((row, at) => {
        list[at].textContent = model.nameOf(row);
        list[at].title = `${model.rows[row].name ?? ""} ${model.rows[row].uuid ?? ""}`;
      });
    }
  }

  #list(selector) {
    const list = this.section.querySelector(selector);
    list.replaceChildren(...this.group.rows.map(() => document.createElement("li")));
    return [...list.children];
  }

  /** Take all samples of a model. */
  redraw(model) {
    this.heat.draw(this.#reader(model));
  }

  /** Take the samples of the newest columns, `steps` of them not seen before. */
  advance(model, steps) {
    this.heat.advance(steps, this.#reader(model));
  }

  #reader(model) {
    return (row, column) => model.value(this.group.rows[row], model.oldest + column);
  }

  /** Write present values and facts; what did not change is left alone. */
  write(model) {
    this.group.rows.forEach((row, at) => {
      setText(this.now[at], ratio(model.value(row, model.newest)));
      this.#writeSize(this.sizes[at], model, row);
    });
    const engines = this.group.engines.map((engine) => model.engine(engine));
    const key = JSON.stringify(engines);
    if (key === this.factsKey) return;
    this.factsKey = key;
    this.facts.replaceChildren(...engines.flatMap((engine) => factsOf(engine, engines.length > 1)));
  }

  #writeSize(item, model, row) {
    const total = model.total(row);
    const isDown = model.state.up?.[row] === false;
    const [used, of, unit] = isDown
      ? ["no answer", "", ""]
      : [gigabytes(model.used(row)), ` / ${gigabytes(total)}`, " GB"];
    if (item.textContent === used + of + unit) return;
    const span = document.createElement("span"); // left out where there is no room
    span.textContent = of;
    item.replaceChildren(used, span, unit);
  }

  /** Draw on the screen, or on other canvases; `cursor` {row, column} of the model, or null. */
  paint(model, cursor, look, heatCanvas = this.heatCanvas, memoryCanvas = this.memoryCanvas) {
    const place = (column) => column - model.oldest;
    const signs = [
      ...preemptionsOf(model, this.group).map((sign) => ({
        kind: "preemption",
        column: place(sign.column),
        count: sign.count,
      })),
      ...conflictsOf(model, this.group).map((sign) => ({
        kind: "conflict",
        row: this.group.rows.indexOf(sign.row),
        column: place(sign.column),
        endColumn: place(sign.endColumn),
      })),
    ];
    const at = cursor ? this.group.rows.indexOf(cursor.row) : -1;
    const mark = at < 0 ? null : { row: at, column: place(cursor.column) };
    paintHeat(heatCanvas, this.heat, signs, mark, look);
    const bars = this.group.rows.map((row) => ({
      total: model.total(row),
      owners: model.owners(row, model.newest),
    }));
    paintMemory(memoryCanvas, bars, look);
  }

  /** The row at a height within one of the canvases; above the samples the row of a conflict there. */
  rowAt(model, canvas, y, column) {
    const lane = canvas === this.heatCanvas ? LANE : 0;
    const share = (y - lane) / (canvas.clientHeight - lane);
    if (share >= 0) return this.group.rows[Math.floor(share * this.group.rows.length)] ?? null;
    const isThere = (sign) => sign.column <= column && column <= sign.endColumn;
    return conflictsOf(model, this.group).find(isThere)?.row ?? this.group.rows[0];
  }
}

function kindOf(model, group) {
  const models = new Set(group.engines.map((engine) => model.engines[engine].model_name));
  const devices = new Set(group.rows.map((row) => model.rows[row].name));
  const gpus = `${group.rows.length} × ${[...devices].filter(Boolean).join(", ") || "GPU"}`;
  return [...models].filter(Boolean).concat(gpus).join(" · ");
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
