// What an engine says about itself, as terms and values. An unknown figure is left out.

import { node } from "./dom.js";
import { count, ratio } from "./format.js";
import { OWNERS } from "./owners.js";

/** Pairs for a description list; `isOneOfMany` puts the engine's name before them. */
export function factsOf(engine, isOneOfMany) {
  const { usable, running, waiting, contiguity, preemptions } = engine;
  const requests = `${count(running)} running · ${count(waiting)} waiting`;
  return [
    isOneOfMany && fact("engine", engine.name),
    !engine.isUp && fact("state", "down"),
    usable !== null && fact("KV blocks", blocksText(engine), blocksBar(engine)),
    running !== null && fact("requests", requests),
    contiguity !== null && fact("contiguity", ratio(contiguity)),
    preemptions !== null && fact("preemptions", count(preemptions)),
  ].filter(Boolean);
}

function blocksText({ active, cached, free, unsplit, usable }) {
  const states = { active, cached, free, "cached or free": unsplit };
  const known = Object.entries(states).filter(([, blocks]) => blocks !== null);
  return `${known.map(([state, blocks]) => `${count(blocks)} ${state}`).join(" · ")} of ${count(usable)}`;
}

function blocksBar({ active, cached, usable }) {
  const bar = node("span", "", "blocks");
  for (const [blocks, owner] of [
    [active, "kv_active"],
    [cached, "kv_cached"],
  ]) {
    const part = node("i");
    part.style.width = `${(100 * blocks) / usable}%`;
    part.style.background = OWNERS.find(({ key }) => key === owner).colour;
    bar.append(part);
  }
  return bar;
}

function fact(term, text, picture = "") {
  const pair = node("div");
  pair.append(node("dt", term), picture, node("dd", text));
  return pair;
}
