// The board: all groups of GPUs, and when they are drawn.

import { Group } from "./group.js";
import { fit } from "./paint.js";

const SIZES = [
  { most: 2, height: 88, look: "few" },
  { most: 8, height: 38, look: "" },
  { most: 16, height: 26, look: "" },
  { most: 64, height: 16, look: "many" },
  { most: Infinity, height: 7, look: "many dense" },
]; // up to so many rows, they are this high in CSS pixels

export class Board {
  constructor(root, template) {
    this.root = root;
    this.holder = root.querySelector("#groups");
    this.template = template;
    this.groups = [];
    this.cursor = null;
    this.isDue = false;
    new ResizeObserver(() => this.paintSoon()).observe(this.holder);
    this.sights = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "200px" });
  }

  /** Show a model from now on; rows are made anew only when others are to be shown. */
  show(model) {
    const isSame = this.model?.layoutKey === model.layoutKey && this.model.columns === model.columns;
    this.model = model;
    if (!isSame) this.#build();
    for (const group of this.groups) group.draw(model);
    this.#refresh();
  }

  #build() {
    const many = this.model.rows.length;
    const { height, look } = SIZES.find(({ most }) => many <= most);
    this.root.className = look;
    this.sights.disconnect();
    this.groups = this.model.groups.map(
      (group) => new Group(this.template, this.model, group, height),
    );
    this.holder.replaceChildren(...this.groups.map((group) => group.section));
    for (const group of this.groups) this.sights.observe(group.section);
  }

  /** Samples came: the model's newest column moved on, or grew. */
  advance() {
    const steps = this.model.newest - this.drawnTo;
    for (const group of this.groups) group.draw(this.model, steps);
    this.#refresh();
  }

  #refresh() {
    this.drawnTo = this.model.newest;
    this.#write();
    this.paintSoon();
  }

  #write() {
    for (const group of this.groups) if (group.isVisible) group.write(this.model);
  }

  /** Draw with the next frame of the screen. */
  paintSoon() {
    if (this.isDue || !this.model) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      const look = lookOf(this.root);
      const visible = this.groups.filter((group) => group.isVisible);
      for (const { heatCanvas, memoryCanvas } of visible) {
        fit(heatCanvas, look.scale);
        fit(memoryCanvas, look.scale);
      }
      for (const group of visible) group.paint(this.model, this.cursor, look);
      const { metric, window, newest } = this.model;
      this.root.dataset.painted = `${metric} ${window} ${newest}`;
    });
  }

  #seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const group = this.groups.find((one) => one.section === target);
      if (group) group.isVisible = isIntersecting;
    }
    this.#write();
    this.paintSoon();
  }
}

/** The page's colours for canvases, and how many pixels of the screen are one of CSS. */
export function lookOf(element) {
  const style = getComputedStyle(element);
  const names = ["gap", "track", "surface", "text", "quiet", "preemption", "conflict"];
  const colours = names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
  return { ...Object.fromEntries(colours), scale: devicePixelRatio };
}
