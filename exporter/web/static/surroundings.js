// What stands around the board: the time axis, the legend of colours, the list of what happened.

import { node } from "./dom.js";
import { clock } from "./format.js";
import { METRICS } from "./metrics.js";
import { named, OWNERS } from "./owners.js";
import { happenings } from "./signs.js";
import { viridisGradient } from "./viridis.js";

const TICKS = 4;
const MOST_EVENTS = 8;
const shown = new WeakMap();

/** The time axis: how long ago, from the window's begin to now. */
export function writeTicks(holder, model) {
  const span = model.columns * model.columnS;
  const ticks = Array.from({ length: TICKS + 1 }, (_, tick) => {
    const element = node("span", tick === TICKS ? "now" : ago(span * (1 - tick / TICKS)));
    element.style.left = `${(100 * tick) / TICKS}%`;
    element.style.translate = `${(-100 * tick) / TICKS}%`;
    return element;
  });
  holder.replaceChildren(...ticks);
}

function ago(seconds) {
  return seconds > 120 ? `−${+(seconds / 60).toFixed(2)} min` : `−${seconds} s`;
}

/** What the colours mean: the scale, and the owners that are on any GPU now. */
export function writeLegend(legend, model) {
  const { label, meaning } = METRICS[model.metric];
  const present = OWNERS.filter(({ key }) => model.ledger.some(([owner]) => owner === key));
  if (!isNew(legend, [label, ...present.map(({ key }) => key)])) return;
  legend.querySelector("#scale-title").textContent = `${label}: ${meaning}`;
  legend.querySelector("#gradient").style.background = viridisGradient();
  legend.querySelector("#owners").replaceChildren(...present.map((owner) => named("li", owner)));
}

/** What happened, newest first. */
export function writeEvents(section, model) {
  const all = happenings(model);
  const told = all.slice(0, MOST_EVENTS).map(({ kind, from, to, text }) => {
    const end = to === Infinity ? "now" : clock(to);
    return [kind, clock(from) === end ? end : `${clock(from)} – ${end}`, text];
  });
  if (all.length > MOST_EVENTS) told.push(["", "", `and ${all.length - MOST_EVENTS} more before`]);
  if (all.length === 0) told.push(["", "", "No preemption and no conflict in this time."]);
  if (!isNew(section, told)) return;
  const items = told.map(([kind, time, text]) => {
    const item = node("li", "", kind);
    item.append(node("time", time), node("span", text));
    return item;
  });
  section.querySelector("ol").replaceChildren(...items);
}

/** Whether an element shows something else than this; from now on it shows this. */
function isNew(element, content) {
  const key = JSON.stringify(content);
  const isSame = shown.get(element) === key;
  shown.set(element, key);
  return !isSame;
}
