// What a cell can show and over which time: the values of /api/live with their names for people.

/** `high`: from there on the headline calls a GPU full; absent where a high ratio is no trouble. */
export const METRICS = {
  effective_pressure: {
    label: "Effective pressure",
    meaning: "active / usable KV blocks, the highest of the GPU's engines",
    high: 0.9,
  },
  device_pressure: { label: "Device pressure", meaning: "used / (total − driver's part)" },
  kv_usage: { label: "KV usage", meaning: "active / usable KV blocks", high: 0.9 },
  allocator: {
    label: "Allocator ratio",
    meaning: "reserved by torch and given to no tensor / reserved",
  },
  memory_controller: {
    label: "Memory controller",
    meaning: "share of time in which memory was read or written",
  },
};

export const WINDOWS = { "60s": "60 s", "5m": "5 min", "15m": "15 min" };
