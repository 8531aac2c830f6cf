// What stands around the board: the time axis, the legend of colours, the list of what happened.

import { swatch } from "./card.js";
import { clock } from "./format.js";
import { METRICS } from "./metrics.js";
import { OWNERS } from "./owners.js";
import { happenings } from "./signs.js";
import { viridisGradient } from "./viridis.js";

const TICKS = 4;
const MOST_EVENTS = 8;

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
  const title = `${label}: ${meaning}`;
  const present = OWNERS.filter(({ key }) => model.ledger.some(([owner]) => owner === key));
  const state = [title, ...present.map(({ key }) => key)].join();
  if (legend.dataset.shows === state) return;
  legend.dataset.shows = state;
  legend.querySelector("#scale-title").textContent = title;
  legend.querySelector("#gradient").style.background = viridisGradient();
  const items = present.map(({ label: name, colour, striped }) => {
    const item = node("li", name);
    item.prepend(swatch(colour, striped));
    return item;
  });
  legend.querySelector("#owners").replaceChildren(...items);
}

/** What happened, newest first. */
export function writeEvents(section, model) {
  const all = happenings(model);
  const items = all.slice(0, MOST_EVENTS).map(({ kind, from, to, text }) => {
    const item = document.createElement("li");
    item.className = kind;
    const end = to === null ? "now" : clock(to);
    const time = node("time", clock(from) === end ? end : `${clock(from)} – ${end}`);
    item.append(time, node("span", text));
    return item;
  });
  const more = all.length - items.length;
  if (more > 0) items.push(node("li", `and ${more} more before`));
  if (items.length === 0) items.push(node("li", "No preemption and no conflict in this time."));
  section.querySelector("ol").replaceChildren(...items);
}

function node(name, text) {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}
