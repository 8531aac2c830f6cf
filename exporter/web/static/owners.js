// Who can own a GPU's memory: the words of the ledger in stacking order, with colours. Neighbours
// differ in lightness as well as in hue; what is known only together is striped. On a `light` colour
// text is black, on stripes it has a ground of its own.

import { gigabytes, node, refill } from "./text.js";

export const OWNERS = [
  { key: "weights", label: "weights", colour: "#0072b2" },
  { key: "graph_pool", label: "CUDA graphs", colour: "#56b4e9", light: true },
  { key: "torch_other", label: "other tensors", colour: "#2a4b7c" },
  { key: "non_torch", label: "non-torch", colour: "#8fb0c9", light: true },
  { key: "allocator_slack", label: "allocator slack", colour: "#e8d73c", light: true },
  { key: "engine_unsplit", label: "engine, not split", colour: "#0072b2", striped: true },
  { key: "kv_active", label: "KV active", colour: "#d55e00" },
  { key: "kv_cached", label: "KV cached", colour: "#f0a95c", light: true },
  { key: "kv_unsplit", label: "KV cached + free", colour: "#f0a95c", striped: true },
  { key: "kv_free", label: "KV free", colour: "#f7dcb8", light: true },
  { key: "kv_null", label: "KV null block", colour: "#7d4a1c" },
  { key: "other_processes", label: "other processes", colour: "#aa3f92" },
  { key: "unattributed", label: "in no process", colour: "#6d7681" },
  { key: "used_unsplit", label: "used, not split", colour: "#6d7681", striped: true },
  { key: "driver_reserved", label: "driver", colour: "#a3abb5", light: true },
  { key: "free", label: "free" },
];

/** Owners with their `bytes` of `held` {owner: bytes}, the largest first. */
export function largest(held) {
  return OWNERS.map((owner) => ({ ...owner, bytes: held?.[owner.key] }))
    .filter(({ bytes }) => bytes > 0)
    .sort((one, other) => other.bytes - one.bytes);
}

export function heldText({ label, bytes }) {
  return `${label} ${gigabytes(bytes)} GB`;
}

/** A name with its colour. */
export function named(kind, { label, colour, striped }) {
  const lines = `repeating-linear-gradient(135deg, ${colour} 0 2px, transparent 2px 4px)`;
  const swatch = node("i.swatch");
  swatch.style.background = striped ? lines : (colour ?? "");
  return node(kind, swatch, label);
}

/** The legend: owners that are on any GPU now. */
export function writeOwners(list, { ledger }) {
  const present = OWNERS.filter(({ key }) => ledger[key]);
  refill(list, present, (owner) => named("li", owner));
}

const patterns = new Map(); // as many as themes have colours

export function stripes(pen, colour, ground) {
  const key = `${colour} ${ground}`;
  if (!patterns.has(key)) {
    const tile = new OffscreenCanvas(6, 6);
    const brush = tile.getContext("2d");
    brush.fillStyle = ground;
    brush.fillRect(0, 0, 6, 6);
    brush.strokeStyle = colour;
    brush.lineWidth = 1.5;
    brush.stroke(new Path2D("M-7 7L7-7M-1 7L7-1M5 7L13-1"));
    patterns.set(key, pen.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}
