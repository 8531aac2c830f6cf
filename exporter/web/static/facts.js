// What an engine says about itself, as pairs of a term and its value. An unknown figure is left out.

import { count, ratio } from "./format.js";

const BLOCK_COLOURS = { active: "#d55e00", cached: "#f0a95c" }; // as the owners kv_active, kv_cached

/** Elements for a description list; `isOneOfMany` puts the engine's name before them. */
export function factsOf(engine, isOneOfMany) {
  const facts = [];
  if (isOneOfMany) facts.push(fact("engine", engine.name));
  if (!engine.isUp) facts.push(fact("state", "down"));
  if (engine.usable != null) {
    const parts = [
      [engine.active, "active"],
      [engine.cached, "cached"],
      [engine.free, "free"],
      [engine.unsplit, "cached or free"],
    ].filter(([blocks]) => blocks != null);
    const text = parts.map(([blocks, state]) => `${count(blocks)} ${state}`).join(" · ");
    facts.push(fact("KV blocks", `${text} of ${count(engine.usable)}`, blocksBar(engine)));
  }
  if (engine.running != null) {
    facts.push(fact("requests", `${count(engine.running)} running · ${count(engine.waiting)} waiting`));
  }
  if (engine.contiguity != null) facts.push(fact("contiguity", ratio(engine.contiguity)));
  if (engine.preemptions != null) facts.push(fact("preemptions", count(engine.preemptions)));
  return facts;
}

function fact(name, text, picture) {
  const pair = document.createElement("div");
  const term = document.createElement("dt");
  term.textContent = name;
  const description = document.createElement("dd");
  description.textContent = text;
  pair.append(term, ...(picture ? [picture] : []), description);
  return pair;
}

function blocksBar({ active, cached, usable }) {
  const bar = document.createElement("span");
  bar.className = "blocks";
  bar.setAttribute("aria-hidden", "true");
  for (const [blocks, colour] of [
    [active, BLOCK_COLOURS.active],
    [cached, BLOCK_COLOURS.cached],
  ]) {
    const part = document.createElement("i");
    part.style.width = `${(100 * (blocks ?? 0)) / usable}%`;
    part.style.background = colour;
    bar.append(part);
  }
  return bar;
}
