// Who can own a GPU's memory: the words of the ledger in stacking order, with colours.
// Neighbours differ in lightness as well as in hue; what is known only together is striped. On a
// `light` colour text is black.

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
  { key: "free", label: "free", colour: null },
];

/** Stripes in a colour, as something to fill a canvas with. */
export function stripes(context, colour, ground, scale) {
  const side = Math.round(6 * scale);
  const tile = new OffscreenCanvas(side, side);
  const pen = tile.getContext("2d");
  if (ground) {
    pen.fillStyle = ground;
    pen.fillRect(0, 0, side, side);
  }
  pen.strokeStyle = colour;
  pen.lineWidth = side / 4;
  pen.beginPath();
  for (const shift of [-side, 0, side]) {
    pen.moveTo(shift - 1, side + 1);
    pen.lineTo(shift + side + 1, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}
