// The colour of a ratio: viridis, dark for 0, bright for 1. Knows nothing of what is coloured.

// Every fifth of the map's 256 colours; between two of them a straight line is right within 1/255.
const STOPS = [
  "440154 46085c 471063 481769 481d6f 482475 472a7a 46307e 453781 433d84 414287 3f4889 3d4e8a",
  "3a538b 38598c 355e8d 33638d 31688e 2e6d8e 2c718e 2a768e 297b8e 27808e 25848e 23898e 218e8d",
  "20928c 1f978b 1e9c89 1fa188 21a585 24aa83 28ae80 2eb37c 35b779 3dbc74 46c06f 50c46a 5ac864",
  "65cb5e 70cf57 7cd250 89d548 95d840 a2da37 b0dd2f bddf26 cae11f d8e219 e5e419 f1e51d fde725",
]
  .join(" ")
  .split(" ")
  .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

const SHADES = Array.from({ length: 256 }, (_, shade) => {
  const at = Math.floor(shade / 5);
  const share = (shade % 5) / 5;
  return STOPS[at].map((from, channel) => {
    const to = (STOPS[at + 1] ?? STOPS[at])[channel];
    return Math.round(from + share * (to - from));
  });
});

/** Red, green and blue (0–255) of a ratio; what lies outside 0–1 takes the end's colour. */
export function viridis(ratio) {
  return SHADES[Math.round(255 * Math.min(1, Math.max(0, ratio)))];
}

/** A CSS gradient over the whole map, from left to right. */
export function viridisGradient() {
  const colours = STOPS.map((rgb) => `rgb(${rgb.join(" ")})`);
  return `linear-gradient(to right, ${colours.join(", ")})`;
}
