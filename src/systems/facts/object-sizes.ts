import { errors, logLine, query, sql } from "millrace";
import type { AppGauges } from "millrace/worker";

/** An object's size is recorded from this size on, and again after each further growth by this size. */
const STEP_BYTES = 1_000_000_000;
const DAY_MS = 86_400_000;
/** An older record is ignored. Its object is no longer used or has become smaller, because the record would otherwise have been renewed. */
const CURRENT_MS = 7 * DAY_MS;
/** Maximum number of records that one query of the gauge reads. */
const MOST_READ = 10_000;

type Watched = Pick<DurableObjectState, "waitUntil"> & {
  readonly id: Pick<DurableObjectId, "name" | "toString">;
  readonly storage: { readonly sql: Pick<SqlStorage, "databaseSize"> };
};

/**
 * Watches the storage of one object against the platform's limit of 10 GB. Below 1 GB a check reads one number and writes nothing. Above 1
 * GB, a check writes the object's row after each further GB and at least once per day.
 */
export class SizeWatch {
  #step = 0;
  #notedAt = 0;

  constructor(
    readonly object: Watched,
    readonly env: Pick<Env, "DB">,
    readonly binding: "LEDGER" | "BUDGET" | "CONTACT_BOOK",
  ) {}

  /** The size of the storage in bytes. */
  get bytes(): number {
    return this.object.storage.sql.databaseSize;
  }

  /** Records the size if that is due. The caller does not wait for the write. */
  check(): void {
    const { bytes } = this;
    const step = Math.floor(bytes / STEP_BYTES);
    // An object that is woken by its alarm does not know its own name, so the next call from outside records the size.
    const tenantId = this.object.id.name?.split("/")[0];
    if (step === 0 || tenantId === undefined) return;
    if (step === this.#step && Date.now() - this.#notedAt < DAY_MS) return;
    this.#step = step;
    this.#notedAt = Date.now();
    this.object.waitUntil(this.#note(tenantId, bytes));
  }

  async #note(tenantId: string, bytes: number): Promise<void> {
    const object_id = this.object.id.toString();
    logLine("warn", { log: "object_size", binding: this.binding, tenant_id: tenantId, object_id, bytes });
    try {
      await query(
        this.env.DB,
        sql`
          INSERT INTO object_sizes (tenant_id, binding, object_id, bytes, noted_at)
          VALUES (${tenantId}, ${this.binding}, ${object_id}, ${bytes}, ${sql.now})
          ON CONFLICT (tenant_id, binding, object_id) DO UPDATE SET bytes = excluded.bytes, noted_at = excluded.noted_at`,
      );
    } catch (error) {
      this.#step = 0;
      logLine("warn", { log: "object_size", binding: this.binding, object_id, error: errors.messageOf(error) });
    }
  }
}

/** The size of the largest recorded object of each class. The table contains no objects of less than 1 GB. */
export async function largestObjects({ DB }: Pick<Env, "DB">): Promise<Awaited<ReturnType<AppGauges>>> {
  const rows = await query<{ binding: string; bytes: number }>(
    DB,
    sql`
      SELECT binding, max(bytes) AS bytes FROM (SELECT * FROM object_sizes LIMIT ${MOST_READ})
      WHERE noted_at >= ${sql.now} - ${CURRENT_MS} GROUP BY binding`,
  );
  return rows.map(({ binding, bytes }) => ({ name: "object_bytes", labels: { binding }, value: bytes }));
}
