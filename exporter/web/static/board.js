// The board: the time axis, all groups of GPUs, and when they are drawn.

import { Group } from "./group.js";
import { node, refill } from "./text.js";

const SIZES = [
  { most: 2, height: 88, look: "few" },
  { most: 8, height: 38, look: "" },
  { most: 16, height: 26, look: "" },
  { most: 64, height: 16, look: "many" },
  { most: Infinity, height: 7, look: "many dense" },
]; // up to so many rows, they are this high in CSS pixels

const TICKS = [1, 0.75, 0.5, 0.25, 0]; // shares of the window

export class Board {
  constructor(root, template) {
    Object.assign(this, { root, template, groups: [], cursor: null, isDue: false });
    this.holder = root.querySelector("#groups");
    this.ticks = root.querySelector("#ticks");
    new ResizeObserver(() => this.paintSoon()).observe(this.holder);
    this.sights = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "200px" });
  }

  /** Show what a model has now; rows are made anew only when others are to be shown. */
  show(model) {
    const isSame = this.model?.layoutKey === model.layoutKey;
    this.model = model;
    if (!isSame) this.#build();
    const spanS = model.columns * model.columnS;
    const ticks = TICKS.map((share) => agoText(spanS * share));
    refill(this.ticks, ticks, (text) => node("span", text));
    this.#write();
  }

  #build() {
    const { height, look } = SIZES.find(({ most }) => this.model.rows.length <= most);
    this.root.className = look;
    this.sights.disconnect();
    this.groups = this.model.groups.map(
      (group) => new Group(this.template, this.model, group, height),
    );
    this.holder.replaceChildren(...this.groups.map((group) => group.section));
    for (const group of this.groups) this.sights.observe(group.section);
  }

  #seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const group = this.groups.find((one) => one.section === target);
      if (group) group.isVisible = isIntersecting;
    }
    this.#write();
  }

  #write() {
    for (const group of this.groups) if (group.isVisible) group.write(this.model);
    this.paintSoon();
  }

  /** Draw with the next frame of the screen. */
  paintSoon() {
    if (this.isDue || !this.model) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      const look = lookOf(this.root);
      for (const group of this.groups) if (group.isVisible) group.paint(this.model, this.cursor, look);
      const { metric, window, newest } = this.model;
      this.root.dataset.painted = `${metric} ${window} ${newest}`;
    });
  }
}

function agoText(seconds) {
  if (!seconds) return "now";
  return seconds > 120 ? `−${+(seconds / 60).toFixed(2)} min` : `−${seconds} s`;
}

/** The page's colours for canvases, and how many pixels of the screen are one of CSS. */
export function lookOf(element) {
  const style = getComputedStyle(element);
  const names = ["gap", "track", "surface", "text", "quiet", "preemption", "conflict"];
  const colours = names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
  return { ...Object.fromEntries(colours), scale: devicePixelRatio };
}
