// The rows of one group: GPUs of the same engines, with names, samples, present values and memory.

import { conflictsOf } from "./events.js";
import { OWNERS } from "./owners.js";
import { LANE, paintHeat, paintMemory, sheetOf } from "./paint.js";
import { count, gigabytes, node, ratio, refill } from "./text.js";

export class Group {
  constructor(template, model, group, rowHeight) {
    Object.assign(this, group, { rowHeight });
    this.section = template.content.firstElementChild.cloneNode(true);
    this.section.style.setProperty("--row", `${rowHeight}px`);
    this.section.style.setProperty("--count", this.rows.length);
    this.heatCanvas = this.#part(".heat");
    this.memoryCanvas = this.#part(".memory");
    this.#part("h2").append(this.title, node("span", kindOf(model, this)));
    for (const selector of [".names", ".again"]) {
      this.#part(selector).append(...this.rows.map((row) => node("li", model.names[row])));
    }
  }

  #part(selector) {
    return this.section.querySelector(selector);
  }

  write(model) {
    const values = this.rows.map((row) => ratio(model.value(row, model.newest)));
    refill(this.#part(".now"), values, (text) => node("li", text));
    const sizes = this.rows.map((row) => sizeOf(model, row));
    refill(this.#part(".sizes"), sizes, ([used, of, unit]) => node("li", used, node("i", of), unit));
    const facts = this.engines.flatMap((engine) => factsOf(model, engine, this.engines.length > 1));
    refill(this.#part("dl"), facts, ([term, text, bar]) =>
      node("div", node("dt", term), bar ? blocksBar(bar) : "", node("dd", text)),
    );
  }

  /** Draw on the screen; `cursor` {row, column} of the model, or null. */
  paint(model, cursor, look) {
    paintHeat(sheetOf(this.heatCanvas, look.scale), model, this, cursor, look);
    paintMemory(sheetOf(this.memoryCanvas, look.scale), barsOf(model, this), look);
  }

  /** The row at a height of one of the canvases; above the samples that of a conflict there. */
  rowAt(model, canvas, y, column) {
    const lane = canvas === this.heatCanvas ? LANE : 0;
    const share = (y - lane) / (canvas.clientHeight - lane);
    if (share >= 0) return this.rows[Math.floor(share * this.rows.length)] ?? null;
    const isThere = (sign) => sign.column <= column && column <= sign.endColumn;
    return conflictsOf(model, this).find(isThere)?.row ?? this.rows[0];
  }
}

export function barsOf(model, { rows }) {
  return rows.map((row) => ({ total: model.total(row), owners: model.owners(row, model.newest) }));
}

function kindOf(model, { engines, rows }) {
  const names = (all) => [...new Set(all)].filter(Boolean).join(", ");
  const models = names(engines.map((engine) => model.engines[engine].model_name));
  const gpus = names(rows.map((row) => model.rows[row].name)) || "GPU";
  return `${models && `${models} · `}${rows.length} × ${gpus}`;
}

/** Used of total; the second part is left out on narrow screens. */
export function sizeOf(model, row) {
  if (model.now("up", row) === false) return ["no answer", "", ""];
  const total = model.total(row);
  return total >= 0 ? [gigabytes(model.used(row)), ` / ${gigabytes(total)}`, " GB"] : ["", "", ""];
}

/** What an engine says of itself: [term, text, bar of shares]; what is unknown is left out. */
function factsOf(model, engine, isOneOfMany) {
  const now = (key) => model.now(key, engine);
  const [usable, running, contiguity, preemptions] =
    ["kv_blocks", "running", "contiguity", "preemptions"].map(now);
  const states = { active: "active", cached: "cached", free: "free", unsplit: "cached or free" };
  const blocks = Object.entries(states)
    .map(([key, state]) => [now(`kv.${key}`), state])
    .filter(([size]) => size >= 0)
    .map(([size, state]) => `${count(size)} ${state}`);
  const bar = { kv_active: now("kv.active") / usable, kv_cached: now("kv.cached") / usable };
  return [
    isOneOfMany && ["engine", model.engineNames[engine]],
    now("engine_up") === false && ["state", "down"],
    usable >= 0 && ["KV blocks", `${blocks.join(" · ")} of ${count(usable)}`, bar],
    running >= 0 && ["requests", `${count(running)} running · ${count(now("waiting"))} waiting`],
    contiguity >= 0 && ["contiguity", ratio(contiguity)],
    preemptions >= 0 && ["preemptions", count(preemptions)],
  ].filter(Boolean);
}

function blocksBar(shares) {
  const parts = Object.entries(shares).map(([owner, share]) => {
    const part = node("i");
    part.style.width = `${100 * share}%`;
    part.style.background = OWNERS.find(({ key }) => key === owner).colour;
    return part;
  });
  return node("span.blocks", ...parts);
}
