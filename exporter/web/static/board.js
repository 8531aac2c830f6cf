// The board: the time axis, all groups of GPUs, and when they are drawn.

import { Group } from "./group.js";
import { node, refill } from "./text.js";

const SIZES = [
  { most: 2, height: 88, look: "few" },
  { most: 8, height: 38 },
  { most: 16, height: 26 },
  { most: 64, height: 16, look: "many" },
  { most: Infinity, height: 7, look: "many dense" },
]; // up to so many rows, they are this high in CSS pixels

const TICKS = [1, 0.75, 0.5, 0.25, 0]; // of the window

export class Board {
  constructor(root, template) {
    Object.assign(this, { root, template, groups: [], cursor: null, isDue: false });
    new ResizeObserver(() => this.paintSoon()).observe(root);
    addEventListener("scroll", () => this.paintSoon());
  }

  /** Show what a model has now; rows are made anew only when others are to be shown. */
  show(model) {
    const isSame = this.model?.layoutKey === model.layoutKey;
    this.model = model;
    if (!isSame) {
      const { height, look = "" } = SIZES.find(({ most }) => model.rows.length <= most);
      this.root.className = look;
      this.groups = model.groups.map((group) => new Group(this.template, model, group, height));
      this.root.querySelector("#groups").replaceChildren(...this.groups.map((group) => group.section));
    }
    const ticks = TICKS.map((share) => agoText(share * model.columns * model.columnS));
    refill(this.root.querySelector("#ticks"), ticks, (text) => node("span", text));
    this.paintSoon();
  }

  /** Draw what can be seen with the next frame of the screen. */
  paintSoon() {
    if (this.isDue || !this.model) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      const look = lookOf(this.root);
      const visible = this.groups.filter(({ section }) => {
        const { top, bottom } = section.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
      });
      for (const group of visible) group.write(this.model);
      for (const group of visible) group.paint(this.model, this.cursor, look);
      const { metric, window, newest } = this.model;
      this.root.dataset.painted = `${metric} ${window} ${newest}`;
    });
  }
}

function agoText(seconds) {
  if (!seconds) return "now";
  return seconds > 120 ? `−${+(seconds / 60).toFixed(2)} min` : `−${seconds} s`;
}

/** The page's colours for canvases, and the pixels of the screen in one of CSS. */
export function lookOf(element) {
  const style = getComputedStyle(element);
  const look = { scale: devicePixelRatio };
  for (const name of ["gap", "track", "surface", "text", "quiet", "preemption", "conflict"]) {
    look[name] = style.getPropertyValue(`--${name}`);
  }
  return look;
}
