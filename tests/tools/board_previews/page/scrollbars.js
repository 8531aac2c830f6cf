// Grafana imports this CommonJS package as an ES module, which takes its export's name away.
export { Scrollbars as default } from "./node_modules/react-custom-scrollbars-2/lib/index.js";
