// What a cell can show and over which time: the values of /api/live with their names for people.

const FROM_TRACE = "It comes from vLLM's trace (--trace.path). Device pressure needs none.";
const FROM_DRIVER = "No GPU answers. They appear here as soon as the driver does.";

/** `high`: from there on a GPU is called full; absent where a high ratio is no trouble. */
export const METRICS = {
  effective_pressure: {
    label: "Effective pressure",
    meaning: "active / usable KV blocks, the highest of the GPU's engines",
    high: 0.9,
    source: FROM_TRACE,
  },
  device_pressure: {
    label: "Device pressure",
    meaning: "used / (total − driver's part)",
    source: FROM_DRIVER,
  },
  kv_usage: {
    label: "KV usage",
    meaning: "active / usable KV blocks",
    high: 0.9,
    source: FROM_TRACE,
  },
  allocator: {
    label: "Allocator ratio",
    meaning: "reserved by torch and given to no tensor / reserved",
    source: FROM_TRACE,
  },
  memory_controller: {
    label: "Memory controller",
    meaning: "share of time in which memory was read or written",
    source: FROM_DRIVER,
  },
};

export const WINDOWS = { "60s": { label: "60 s" }, "5m": { label: "5 min" }, "15m": { label: "15 min" } };

/** A metric's label within a sentence: "effective pressure", but "KV usage". */
export function phrase(metric) {
  return METRICS[metric].label.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
}
