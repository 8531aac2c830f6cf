// What the board can show, its switches, and the address that keeps them: a link shows what its
// sender saw.

import { node } from "./text.js";

const FROM_TRACE = "It comes from vLLM's trace (--trace.path). Device pressure needs none.";
const FROM_DRIVER = "No GPU answers. They appear here as soon as the driver does.";

/** `high`: from there on a GPU is called full; absent where a high ratio is no trouble. */
export const METRICS = {
  effective_pressure: {
    label: "effective pressure",
    meaning: "active / usable KV blocks, the highest of the GPU's engines",
    high: 0.9,
    source: FROM_TRACE,
  },
  device_pressure: {
    label: "device pressure",
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
    label: "allocator ratio",
    meaning: "reserved by torch and given to no tensor / reserved",
    source: FROM_TRACE,
  },
  memory_controller: {
    label: "memory controller",
    meaning: "share of time in which memory was read or written",
    source: FROM_DRIVER,
  },
};

export const WINDOWS = { "60s": { label: "60 s" }, "5m": { label: "5 min" }, "15m": { label: "15 min" } };

/** Fill the form from the address or, where that asks in vain, with the first; tell every choice. */
export function offer(form, onChoice) {
  const asked = new URLSearchParams(location.search);
  for (const [name, table] of Object.entries({ metric: METRICS, window: WINDOWS })) {
    const chosen = Object.hasOwn(table, asked.get(name)) ? asked.get(name) : Object.keys(table)[0];
    for (const [value, { label, meaning = "" }] of Object.entries(table)) {
      const input = node("input");
      // The address says what is chosen, not a former visit.
      Object.assign(input, { type: "radio", name, value, checked: value === chosen, autocomplete: "off" });
      const choice = node("label", input, node("span", label));
      choice.title = meaning;
      form.querySelector(`#${name}`).append(choice);
    }
  }
  const tell = () => {
    const choice = Object.fromEntries(new FormData(form));
    history.replaceState(null, "", `?${new URLSearchParams(choice)}`);
    onChoice(choice);
  };
  form.addEventListener("change", tell);
  form.addEventListener("submit", (event) => event.preventDefault());
  tell();
}

/** Light or dark: as the system has it until a person presses the button. */
export function themeSwitch(button, onChange) {
  const { dataset } = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let kept = {};
  try {
    kept = localStorage;
  } catch {} // a browser that keeps nothing for pages
  const show = () => {
    dataset.theme = kept.theme ?? (system.matches ? "dark" : "light");
    onChange();
  };
  system.addEventListener("change", show);
  button.addEventListener("click", () => {
    kept.theme = dataset.theme === "dark" ? "light" : "dark";
    show();
  });
  show();
}
