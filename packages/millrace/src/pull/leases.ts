/** The lease of all messages of one pull, with the end of the lease. */
interface Lease {
  until: number;
  sequences: readonly number[];
}

interface LeaseRow extends Record<string, SqlStorageValue> {
  id: string;
  until: number;
  sequences: string;
}

/** The leases that a write changes, with the messages that remain in each lease. A lease ends when no message remains. */
type Left = ReadonlyMap<string, Lease>;

/** The id of one message's lease. The id is valid only for the delivery that created the lease, and until the lease ends. */
export function leaseIdOf(lease: string, sequence: number): string {
  return `${lease}.${sequence}`;
}

/**
 * The open leases of one queue: a row per pull, and a copy of all rows in memory. The copy changes after the transaction that writes the
 * rows.
 */
export class LeaseBook {
  readonly #sql: SqlStorage;
  readonly #leases = new Map<string, Lease>();
  /** The lease of each leased message. */
  readonly #holders = new Map<number, string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  read(): void {
    for (const { id, until, sequences } of this.#sql.exec<LeaseRow>("SELECT id, until, sequences FROM pull_leases")) {
      this.open(id, until, JSON.parse(sequences));
    }
  }

  /** Number of leased messages. */
  get count(): number {
    return this.#holders.size;
  }

  /** The time when the next lease expires, in milliseconds since 1970. */
  get endsAt(): number | undefined {
    let first: number | undefined;
    for (const { until } of this.#leases.values()) first = Math.min(first ?? until, until);
    return first;
  }

  has(sequence: number): boolean {
    return this.#holders.has(sequence);
  }

  /** The sequence number of the message that a lease id identifies; undefined after the lease has ended. */
  heldBy(leaseId: string): number | undefined {
    const [, lease, sequence] = /^([0-9a-f]{24})\.(\d{1,15})$/.exec(leaseId) ?? [];
    return this.#holders.get(Number(sequence)) === lease && lease !== undefined ? Number(sequence) : undefined;
  }

  write(id: string, until: number, sequences: readonly number[]): void {
    this.#sql.exec("INSERT INTO pull_leases (id, until, sequences) VALUES (?, ?, ?)", id, until, JSON.stringify(sequences));
  }

  open(id: string, until: number, sequences: readonly number[]): void {
    this.#leases.set(id, { until, sequences });
    for (const sequence of sequences) this.#holders.set(sequence, id);
  }

  /** Returns the messages whose lease has expired. */
  ranOut(now: number): number[] {
    return [...this.#leases.values()].filter(({ until }) => until <= now).flatMap(({ sequences }) => sequences);
  }

  /** The leases of the given messages, with the messages that remain in each lease. */
  without(sequences: readonly number[]): Left {
    const over = new Set(sequences);
    const touched = new Set(sequences.map((sequence) => this.#holders.get(sequence)).filter((id) => id !== undefined));
    return new Map(
      [...touched].map((id) => {
        const { until = 0, sequences: held = [] } = this.#leases.get(id) ?? {};
        return [id, { until, sequences: held.filter((sequence) => !over.has(sequence)) }];
      }),
    );
  }

  writeWithout(left: Left): void {
    for (const [id, { sequences }] of left) {
      if (sequences.length === 0) this.#sql.exec("DELETE FROM pull_leases WHERE id = ?", id);
      else this.#sql.exec("UPDATE pull_leases SET sequences = ? WHERE id = ?", JSON.stringify(sequences), id);
    }
  }

  close(left: Left): void {
    for (const [id, { until, sequences }] of left) {
      for (const sequence of this.#leases.get(id)?.sequences ?? []) this.#holders.delete(sequence);
      this.#leases.delete(id);
      if (sequences.length > 0) this.open(id, until, sequences);
    }
  }
}
