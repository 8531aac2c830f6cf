// What the server told, as docs/live-protocol.md says: samples of the last columns, state, marks.
// Fixed memory: nothing older than the window. Unknown numbers are NaN. Knows no page, no connection.

const UNKNOWN = 65535;
const STEPS = 10_000;
const MOST_MARKS = 100;
const MIB = 2 ** 20;

export class Model {
  /** From a `full` event; owners of earlier columns come from `former`, where they still fit. */
  constructor(full, former = null) {
    const { metric, window, replay, columns, column_s: columnS, layout } = full;
    const { rows, engines, rows_left_out: rowsLeftOut } = layout;
    Object.assign(this, { metric, window, replay, columns, columnS, rows, engines, rowsLeftOut });
    this.layoutKey = JSON.stringify(layout);
    this.engineNames = engines.map(({ replica, engine }) => `${replica}/${engine}`);
    this.names = rows.map((row) => row.device ?? this.engineNames[row.engines[0]]);
    this.groups = groupsOf(rows, this.engineNames);
    this.samples = new Map(); // by column: {ratios and preempted by row, ledger}; absent: no sample
    this.state = {};
    this.ledger = {}; // shares of the total by owner and row, now
    this.marks = new Map();
    this.apply(full);
    if (former?.window !== window || former.layoutKey !== this.layoutKey) return;
    for (const [column, sample] of this.samples) sample.ledger ??= former.samples.get(column)?.ledger;
  }

  get oldest() {
    return this.newest - this.columns + 1;
  }

  /** Take what a `full` or `delta` event has. */
  apply({ column: newest, unix_ms: unixMs, cells, preempted, state, marks }) {
    const width = this.rows.length;
    const ratios = ratiosOf(cells);
    for (let column = newest, end = ratios.length; end > 0; column -= 1, end -= width) {
      const ledger = this.samples.get(column)?.ledger;
      this.samples.set(column, { ratios: ratios.slice(end - width, end), preempted: {}, ledger });
    }
    for (const [column, row, count] of preempted) this.samples.get(column).preempted[row] = count;
    for (const mark of marks) this.marks.set(mark.id, mark);
    for (const id of [...this.marks.keys()].slice(0, -MOST_MARKS)) this.marks.delete(id);
    for (const [key, value] of Object.entries(state)) {
      const figures = typeof value === "string" ? ratiosOf(value) : value;
      const [, owner] = key.match(/^ledger\.(.*)/) ?? [];
      if (owner) this.ledger = { ...this.ledger, [owner]: figures }; // columns keep the former one
      else this.state[key] = figures;
    }
    this.#endAt(newest, unixMs / 1000);
  }

  /** Go back to the moment that `former` shows: later columns are dropped, its state holds. */
  hold(former) {
    const isAlike = former.layoutKey === this.layoutKey;
    const { state, ledger, marks } = isAlike ? former : { state: {}, ledger: {}, marks: new Map() };
    Object.assign(this, { state, ledger, marks });
    const isOfWindow = former.window === this.window;
    this.#endAt(isOfWindow ? former.newest : this.columnOf(former.unixS), former.unixS);
  }

  #endAt(newest, unixS) {
    this.newest = newest;
    this.unixS = unixS;
    for (const column of this.samples.keys()) {
      if (column < this.oldest || column > newest) this.samples.delete(column);
    }
    if (this.samples.has(newest)) this.samples.get(newest).ledger = this.ledger;
  }

  value(row, column) {
    return this.samples.get(column)?.ratios[row] ?? NaN;
  }

  preemptions(row, column) {
    return this.samples.get(column)?.preempted[row] ?? 0;
  }

  /** Bytes of a row by owner as they were in a column; null when this page did not see them. */
  owners(row, column) {
    const bytes = Object.entries(this.samples.get(column)?.ledger ?? {})
      .map(([owner, shares]) => [owner, shares?.[row] * this.total(row)])
      .filter(([, size]) => size >= 0);
    return bytes.length ? Object.fromEntries(bytes) : null;
  }

  /** Bytes in use now, not by the driver. */
  used(row) {
    const { free = NaN, driver_reserved: driver = 0 } = this.owners(row, this.newest) ?? {};
    return Math.max(0, this.total(row) - free - driver);
  }

  total(row) {
    return this.now("memory_total_mib", row) * MIB;
  }

  /** A figure of a row or an engine. */
  now(key, index) {
    return this.state[key]?.[index] ?? NaN;
  }

  /** When a column ended, in seconds since 1970 by the server's clock. */
  unixSOf(column) {
    return this.unixS - (this.newest - column) * this.columnS;
  }

  /** The column of a time; what is later than the newest belongs to it. */
  columnOf(unixS) {
    return this.newest - Math.max(0, Math.round((this.unixS - unixS) / this.columnS));
  }
}

/** Neighbours with the same first engine, and all engines that any of them has. */
function groupsOf(rows, names) {
  const groups = [];
  rows.forEach(({ engines }, row) => {
    if (!row || rows[row - 1].engines[0] !== engines[0]) groups.push({ rows: [], engines: [] });
    const group = groups.at(-1);
    group.rows.push(row);
    group.engines = [...new Set([...group.engines, ...engines])];
    group.title = group.engines.map((engine) => names[engine]).join(", ") || "No engine";
  });
  return groups;
}

function ratiosOf(base64) {
  const text = atob(base64);
  return Float64Array.from({ length: text.length / 2 }, (_, at) => {
    const code = text.charCodeAt(2 * at) | (text.charCodeAt(2 * at + 1) << 8);
    return code === UNKNOWN ? NaN : code / STEPS;
  });
}
