// Numbers and times as people read them. An unknown number is a dash, never 0.

const UNKNOWN = "–";

/** Bytes as GB (10⁹), with as many places as matter. */
export function gigabytes(bytes) {
  if (bytes == null) return UNKNOWN;
  const size = bytes / 1e9;
  return size >= 100 ? size.toFixed(1) : size.toFixed(2);
}

/** A ratio with `places` digits. */
export function ratio(value, places = 2) {
  return value == null || Number.isNaN(value) ? UNKNOWN : value.toFixed(places);
}

/** A whole number with thin separators. */
export function count(value) {
  return value == null ? UNKNOWN : Math.round(value).toLocaleString("en-US");
}

/** Time of day in UTC, with tenths where samples are closer than a second. */
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

/** "1 preemption", "9 preemptions". */
export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
