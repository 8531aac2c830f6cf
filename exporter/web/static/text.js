// Numbers and times as people read them, and elements. Names come from elsewhere and can hold
// anything: text is all they ever become.

/** An unknown number, null or NaN, is a dash and never 0. */
function told(value, text) {
  return Number.isFinite(value) ? text() : "–";
}

/** Bytes as GB (10⁹), with as many places as matter. */
export function gigabytes(bytes) {
  return told(bytes, () => (bytes / 1e9).toFixed(bytes < 1e11 ? 2 : 1));
}

export function ratio(value, places = 2) {
  return told(value, () => value.toFixed(places));
}

export function count(value) {
  return told(value, () => Math.round(value).toLocaleString("en-US"));
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Time of day in UTC. */
export function clock(unixS, hasTenths = false) {
  const text = new Date(Math.round(unixS * 10) * 100).toISOString();
  return text.slice(11, hasTenths ? 21 : 19);
}

/** A length of time: 48 s, 2 min 5 s. */
export function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 100) return `${whole} s`;
  const rest = whole % 60;
  return `${Math.floor(whole / 60)} min${rest ? ` ${rest} s` : ""}`;
}

/** A new element: "p" or, with a class, "p.quiet". */
export function node(kind, ...children) {
  const [name, className = ""] = kind.split(".");
  const element = document.createElement(name);
  element.className = className;
  element.append(...children);
  return element;
}

/** Write a text unless it stands there: a screen reader says it once. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const shown = new WeakMap();

/** Put one child for each of `contents` into an element, unless it shows the same already. */
export function refill(element, contents, child) {
  const key = JSON.stringify(contents);
  if (shown.get(element) === key) return;
  shown.set(element, key);
  element.replaceChildren(...contents.map(child));
}
