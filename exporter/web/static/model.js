// What the server told, as docs/live-protocol.md says: cells of the last columns, state, marks.
// Fixed memory: as many columns as the window has. Knows no page and no connection.

const UNKNOWN = 65535;
const STEPS = 10_000;
const MOST_MARKS = 100;
const MIB = 2 ** 20;

export class Model {
  /** From a `full` event; owners of earlier columns come from `former`, where they still fit. */
  constructor(full, former = null) {
    Object.assign(this, {
      metric: full.metric,
      window: full.window,
      replay: full.replay,
      columnS: full.column_s,
      columns: full.columns,
      rows: full.layout.rows,
      engines: full.layout.engines,
      rowsLeftOut: full.layout.rows_left_out,
    });
    this.layoutKey = JSON.stringify(full.layout);
    this.groups = groupsOf(this.rows);
    this.cells = new Uint16Array(this.columns * this.rows.length).fill(UNKNOWN);
    this.preempted = new Array(this.columns).fill(null);
    this.ledgers = new Array(this.columns).fill(null);
    this.state = {};
    this.marks = new Map();
    this.newest = full.column - this.columns;
    this.apply(full);
    if (former && former.window === this.window && former.layoutKey === this.layoutKey) {
      for (let column = this.oldest; column < this.newest; column += 1) {
        this.ledgers[this.#slot(column)] = former.#kept(former.ledgers, column);
      }
    }
  }

  get oldest() {
    return this.newest - this.columns + 1;
  }

  /** Take the columns, state and marks of a `full` or `delta` event. */
  apply(event) {
    const width = this.rows.length;
    const codes = codesOf(event.cells);
    const sent = width ? codes.length / width : 0;
    const first = event.column - sent + 1;
    for (let column = Math.max(this.newest + 1, event.column - this.columns + 1); column < first; column += 1) {
      this.#clear(column); // never sent: unknown
    }
    for (let column = first; column <= event.column; column += 1) {
      this.#clear(column);
      const from = (column - first) * width;
      this.cells.set(codes.subarray(from, from + width), this.#slot(column) * width);
    }
    for (const [column, row, count] of event.preempted) {
      (this.preempted[this.#slot(column)] ??= new Map()).set(row, count);
    }
    this.newest = event.column;
    this.unixS = event.unix_ms / 1000;
    this.#renew(event.state);
    for (const mark of event.marks) this.marks.set(mark.id, mark);
    const ids = [...this.marks.keys()].sort((one, other) => one - other);
    for (const id of ids.slice(0, -MOST_MARKS)) this.marks.delete(id);
    this.ledgers[this.#slot(event.column)] = this.ledger;
  }

  /** Go back to the moment that `former` shows: what came after it is dropped, its state holds. */
  hold(former) {
    const column = this.columnOf(former.unixS);
    for (let later = column + 1; later <= this.newest; later += 1) this.#clear(later);
    this.newest = column;
    this.unixS = former.unixS;
    if (former.layoutKey !== this.layoutKey) return;
    this.state = former.state;
    this.ledger = former.ledger;
    this.marks = former.marks;
    this.ledgers[this.#slot(column)] = former.ledger;
  }

  #clear(column) {
    const at = this.#slot(column);
    this.cells.fill(UNKNOWN, at * this.rows.length, (at + 1) * this.rows.length);
    this.preempted[at] = null;
    this.ledgers[at] = null;
  }

  #renew(state) {
    for (const [key, value] of Object.entries(state)) {
      if (value === null) delete this.state[key];
      else this.state[key] = typeof value === "string" ? codesOf(value) : value;
    }
    const owners = Object.keys(state).filter((key) => key.startsWith("ledger."));
    if (this.ledger && owners.length === 0) return;
    const parts = Object.entries(this.state).filter(([key]) => key.startsWith("ledger."));
    this.ledger = parts.map(([key, codes]) => [key.slice("ledger.".length), codes]);
  }

  /** Ratio of a row in a column; NaN when unknown. */
  value(row, column) {
    if (column < this.oldest || column > this.newest) return NaN;
    const code = this.cells[this.#slot(column) * this.rows.length + row];
    return code === UNKNOWN ? NaN : code / STEPS;
  }

  /** Requests of a row's engines that were preempted in a column. */
  preemptions(row, column) {
    return this.#kept(this.preempted, column)?.get(row) ?? 0;
  }

  /** Bytes of a row by owner as they were in a column; null when this page did not see them. */
  owners(row, column) {
    const ledger = this.#kept(this.ledgers, column);
    const total = this.total(row);
    if (!ledger || total === null) return null;
    const known = ledger.filter(([, codes]) => codes[row] !== UNKNOWN);
    if (known.length === 0) return null;
    return Object.fromEntries(known.map(([owner, codes]) => [owner, (codes[row] / STEPS) * total]));
  }

  /** Bytes in use now by anyone but the driver; null when unknown. */
  used(row) {
    const owners = this.owners(row, this.newest);
    if (owners?.free === undefined) return null;
    return Math.max(0, this.total(row) - owners.free - (owners.driver_reserved ?? 0));
  }

  total(row) {
    const mib = this.state.memory_total_mib?.[row];
    return mib == null ? null : mib * MIB;
  }

  /** When a column ended, in seconds since 1970 by the server's clock. */
  unixSOf(column) {
    return this.unixS - (this.newest - column) * this.columnS;
  }

  /** The column of a time; columns before the oldest have ended. */
  columnOf(unixS) {
    return this.newest - Math.max(0, Math.round((this.unixS - unixS) / this.columnS));
  }

  /** A row as people call it. */
  nameOf(row) {
    return this.rows[row].device ?? "GPU unknown";
  }

  engineName(engine) {
    const { replica, engine: rank } = this.engines[engine];
    return `${replica}/${rank}`;
  }

  /** What is known now of an engine; figures that nobody tells are null. */
  engine(index) {
    const of = (key) => this.state[key]?.[index] ?? null;
    const share = (key) => (of(key) === null || of(key) === UNKNOWN ? null : of(key) / STEPS);
    const usable = of("kv_blocks");
    const blocks = (state) => {
      const part = share(`kv.${state}`);
      return part === null || usable === null ? null : Math.round(part * usable);
    };
    return {
      name: this.engineName(index),
      isUp: of("engine_up") !== false,
      usable,
      active: blocks("active"),
      cached: blocks("cached"),
      free: blocks("free"),
      unsplit: blocks("unsplit"),
      contiguity: share("contiguity"),
      preemptions: of("preemptions"),
      running: of("running"),
      waiting: of("waiting"),
    };
  }

  /** Where a column stands in the rings; columns from before the server's start are negative. */
  #slot(column) {
    return ((column % this.columns) + this.columns) % this.columns;
  }

  #kept(ring, column) {
    return column < this.oldest || column > this.newest ? null : ring[this.#slot(column)];
  }
}

/** Rows that follow each other and have the same first engine, with all engines that any has. */
function groupsOf(rows) {
  const groups = [];
  rows.forEach((row, index) => {
    const first = row.engines[0] ?? null;
    if (groups.at(-1)?.first !== first) groups.push({ first, rows: [], engines: [] });
    const group = groups.at(-1);
    group.rows.push(index);
    group.engines = [...new Set([...group.engines, ...row.engines])];
  });
  return groups;
}

function codesOf(base64) {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  return Uint16Array.from({ length: bytes.length / 2 }, (_, at) => bytes[2 * at] | (bytes[2 * at + 1] << 8));
}
