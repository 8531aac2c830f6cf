// What the server told, as docs/live-protocol.md says: cells of the last columns, state, marks.
// Fixed memory: rings as long as the window. Knows no page and no connection.

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
    this.groups = groupsOf(rows);
    this.cells = new Uint16Array(columns * rows.length).fill(UNKNOWN);
    this.preempted = new Uint16Array(columns * rows.length);
    this.ledgers = new Array(columns).fill(null);
    this.state = {};
    this.marks = new Map();
    this.newest = full.column - columns;
    this.apply(full);
    if (former?.window !== window || former.layoutKey !== this.layoutKey) return;
    for (let column = this.oldest; column < this.newest; column += 1) {
      if (former.has(column)) this.ledgers[this.#slot(column)] = former.ledgers[this.#slot(column)];
    }
  }

  get oldest() {
    return this.newest - this.columns + 1;
  }

  /** Take the columns, state and marks of a `full` or `delta` event. */
  apply({ column: newest, unix_ms: unixMs, cells, preempted, state, marks }) {
    const width = this.rows.length;
    const codes = codesOf(cells);
    const first = newest - (width ? codes.length / width : 0) + 1;
    const begin = Math.min(first, Math.max(this.newest + 1, newest - this.columns + 1));
    for (let column = begin; column <= newest; column += 1) this.#clear(column);
    for (let column = first; column <= newest; column += 1) {
      const at = (column - first) * width;
      this.cells.set(codes.subarray(at, at + width), this.#slot(column) * width);
    }
    for (const [column, row, count] of preempted) this.preempted[this.#slot(column) * width + row] = count;
    for (const mark of marks) this.marks.set(mark.id, mark);
    const ids = [...this.marks.keys()].sort((one, other) => one - other);
    for (const id of ids.slice(0, -MOST_MARKS)) this.marks.delete(id);
    this.newest = newest;
    this.unixS = unixMs / 1000;
    this.#renew(state);
    this.ledgers[this.#slot(newest)] = this.ledger;
  }

  /** Go back to the moment that `former` shows: later columns are dropped, its state holds. */
  hold(former) {
    const isNumberedAlike = former.window === this.window;
    const column = isNumberedAlike ? former.newest : this.columnOf(former.unixS);
    for (let later = column + 1; later <= this.newest; later += 1) this.#clear(later);
    this.newest = column;
    this.unixS = former.unixS;
    if (former.layoutKey !== this.layoutKey) return;
    const { state, ledger, marks } = former;
    Object.assign(this, { state, ledger, marks });
    this.ledgers[this.#slot(column)] = ledger;
  }

  #clear(column) {
    const slot = this.#slot(column);
    const [from, to] = [slot * this.rows.length, (slot + 1) * this.rows.length];
    this.cells.fill(UNKNOWN, from, to);
    this.preempted.fill(0, from, to);
    this.ledgers[slot] = null;
  }

  #renew(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) delete this.state[key];
      else this.state[key] = typeof value === "string" ? codesOf(value) : value;
    }
    const ofLedger = ([key]) => key.startsWith("ledger.");
    if (this.ledger && !Object.entries(changes).some(ofLedger)) return; // columns share it
    const parts = Object.entries(this.state).filter(ofLedger);
    this.ledger = parts.map(([key, codes]) => [key.slice("ledger.".length), codes]);
  }

  /** Where a column stands in the rings; columns from before the server's start are negative. */
  #slot(column) {
    return ((column % this.columns) + this.columns) % this.columns;
  }

  /** Whether a column is one of those shown. */
  has(column) {
    return this.oldest <= column && column <= this.newest;
  }

  /** Ratio of a row in a column; NaN when unknown. */
  value(row, column) {
    const code = this.cells[this.#slot(column) * this.rows.length + row];
    return this.has(column) && code !== UNKNOWN ? code / STEPS : NaN;
  }

  /** Requests of a row's engines that were preempted in a column. */
  preemptions(row, column) {
    return this.has(column) ? this.preempted[this.#slot(column) * this.rows.length + row] : 0;
  }

  /** Bytes of a row by owner as they were in a column; null when this page did not see them. */
  owners(row, column) {
    const ledger = this.has(column) ? this.ledgers[this.#slot(column)] : null;
    const total = this.total(row);
    const known = ledger?.filter(([, codes]) => codes[row] !== UNKNOWN) ?? [];
    if (total === null || known.length === 0) return null;
    return Object.fromEntries(known.map(([owner, codes]) => [owner, (codes[row] / STEPS) * total]));
  }

  /** Bytes in use now by anyone but the driver; null when unknown. */
  used(row) {
    const { free, driver_reserved: driver = 0 } = this.owners(row, this.newest) ?? {};
    return free === undefined ? null : Math.max(0, this.total(row) - free - driver);
  }

  /** Bytes that a row's GPU has; null when unknown. */
  total(row) {
    const mib = this.state.memory_total_mib?.[row] ?? null;
    return mib === null ? null : mib * MIB;
  }

  /** When a column ended, in seconds since 1970 by the server's clock. */
  unixSOf(column) {
    return this.unixS - (this.newest - column) * this.columnS;
  }

  /** The column of a time; what is later than the newest belongs to it. */
  columnOf(unixS) {
    return this.newest - Math.max(0, Math.round((this.unixS - unixS) / this.columnS));
  }

  /** A row as people call it: its GPU, or the engine whose GPU is not known. */
  nameOf(row) {
    const { device, engines } = this.rows[row];
    return device ?? this.engineName(engines[0]);
  }

  /** An engine as people call it. */
  engineName(index) {
    return `${this.engines[index].replica}/${this.engines[index].engine}`;
  }

  /** What is known now of an engine; figures that nobody tells are null. */
  engine(index) {
    const of = (key) => this.state[key]?.[index] ?? null;
    const share = (key) => ([null, UNKNOWN].includes(of(key)) ? null : of(key) / STEPS);
    const usable = of("kv_blocks");
    const blocks = (state) => {
      const part = share(`kv.${state}`);
      return part === null || usable === null ? null : Math.round(part * usable);
    };
    const [active, cached, free, unsplit] = ["active", "cached", "free", "unsplit"].map(blocks);
    const [preemptions, running, waiting] = ["preemptions", "running", "waiting"].map(of);
    return {
      ...{ name: this.engineName(index), isUp: of("engine_up") !== false },
      ...{ usable, active, cached, free, unsplit, contiguity: share("contiguity") },
      ...{ preemptions, running, waiting },
    };
  }
}

/** Rows that follow each other and have the same first engine, with all engines that any has. */
function groupsOf(rows) {
  const groups = [];
  rows.forEach((row, index) => {
    const first = row.engines[0];
    if (!groups.length || groups.at(-1).first !== first) groups.push({ first, rows: [], engines: [] });
    const group = groups.at(-1);
    group.rows.push(index);
    group.engines = [...new Set([...group.engines, ...row.engines])];
  });
  return groups;
}

function codesOf(base64) {
  const text = atob(base64);
  const byte = (at) => text.charCodeAt(at);
  return Uint16Array.from({ length: text.length / 2 }, (_, at) => byte(2 * at) | (byte(2 * at + 1) << 8));
}
