// The switches above the board, and the address that keeps them: a link shows what its sender saw.

import { METRICS, WINDOWS } from "./metrics.js";
import { node } from "./text.js";

/**
 * Fill the form; `onChoice({metric, window})` now and at each change. What the address does not ask
 * for, or asks in vain, is the first one.
 */
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

/** Light or dark: as the system wants it until a person presses the button. */
export function themeSwitch(button, onChange) {
  const { dataset } = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let kept = {};
  try {
    kept = localStorage;
  } catch {
    // A browser that keeps nothing for pages.
  }
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
