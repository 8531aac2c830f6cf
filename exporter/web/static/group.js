// The rows of one group: GPUs of the same engines, with names, samples, present values and memory.

import { OWNERS } from "./owners.js";
import { LANE, paintHeat, paintMemory } from "./paint.js";
import { conflictsOf, engineNames } from "./signs.js";
import { count, gigabytes, node, ratio, refill, setText } from "./text.js";

export class Group {
  constructor(template, model, { rows, engines }, rowHeight) {
    Object.assign(this, { rows, engines, rowHeight, isVisible: true });
    this.section = template.content.firstElementChild.cloneNode(true);
    this.section.style.setProperty("--row", `${rowHeight}px`);
    this.section.style.setProperty("--count", rows.length);
    const part = (selector) => this.section.querySelector(selector);
    this.facts = part("dl");
    this.heatCanvas = part(".heat");
    this.memoryCanvas = part(".memory");
    this.title = engineNames(model, this) || "No engine";
    part("h2").append(this.title, node("span", kindOf(model, this)));
    const [, , now, sizes] = [".names", ".again", ".now", ".sizes"].map((selector, at) => {
      const items = rows.map((row) => node("li", at < 2 ? model.nameOf(row) : ""));
      part(selector).append(...items);
      return items;
    });
    Object.assign(this, { now, sizes });
  }

  /** Write present values and facts; what did not change is left alone. */
  write(model) {
    this.rows.forEach((row, at) => {
      setText(this.now[at], ratio(model.value(row, model.newest)));
      // The second part is left out on narrow screens.
      refill(this.sizes[at], sizeOf(model, row), (text, part) => node(part === 1 ? "i" : "span", text));
    });
    const engines = this.engines.map((engine) => model.engine(engine));
    const facts = engines.flatMap((engine) => factsOf(engine, engines.length > 1));
    refill(this.facts, facts, ([term, text, parts]) => {
      return node("div", node("dt", term), ...(parts ? [blocksBar(parts)] : []), node("dd", text));
    });
  }

  /** Draw on the screen, or on other canvases; `cursor` {row, column} of the model, or null. */
  paint(model, cursor, look, heatCanvas = this.heatCanvas, memoryCanvas = this.memoryCanvas) {
    paintHeat(heatCanvas, model, this, cursor, look);
    paintMemory(memoryCanvas, model, this, look);
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

/** Models and GPUs: "Qwen3-8B · 2 × NVIDIA H200". */
function kindOf(model, { engines, rows }) {
  const names = (all) => [...new Set(all)].filter(Boolean).join(", ");
  const models = names(engines.map((engine) => model.engines[engine].model_name));
  const gpus = names(rows.map((row) => model.rows[row].name)) || "GPU";
  return `${models && `${models} · `}${rows.length} × ${gpus}`;
}

function sizeOf(model, row) {
  if (!model.isUp(row)) return ["no answer"];
  const total = model.total(row);
  if (Number.isNaN(total)) return [];
  return [gigabytes(model.used(row)), ` / ${gigabytes(total)}`, " GB"];
}

/** What an engine says about itself: [term, text, parts of a bar]; what is not known is left out. */
function factsOf(engine, isOneOfMany) {
  const { usable, active, cached, free, unsplit } = engine;
  const states = Object.entries({ active, cached, free, "cached or free": unsplit });
  const blocks = states.filter(([, part]) => part >= 0).map(([state, part]) => `${count(part)} ${state}`);
  const bar = { kv_active: active / usable, kv_cached: cached / usable };
  return [
    isOneOfMany && ["engine", engine.name],
    !engine.isUp && ["state", "down"],
    usable >= 0 && ["KV blocks", `${blocks.join(" · ")} of ${count(usable)}`, bar],
    engine.running >= 0 && ["requests", `${count(engine.running)} running · ${count(engine.waiting)} waiting`],
    engine.contiguity >= 0 && ["contiguity", ratio(engine.contiguity)],
    engine.preemptions >= 0 && ["preemptions", count(engine.preemptions)],
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
