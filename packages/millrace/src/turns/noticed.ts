import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { LaneName } from "../lanes/lane-name.ts";
import type { LaneStanding } from "../lanes/turns-stub.ts";
import { query } from "../store/d1/retry.ts";
import { forgetLane, noteLane } from "../store/lanes.ts";

/** A lane whose oldest message has waited for so long does not flow. */
const STILL_AFTER_MS = 10_000;
/** The row of a lane that changes is written no more often. */
const NOTE_EVERY_MS = 10_000;

/** The row by which people find a lane that does not flow. A lane that flows writes none. */
export class Noticed {
  readonly #db: D1Database;
  readonly #kv: SyncKvStorage;
  /** What the row says; undefined when there is none, or when this object was made anew and does not know. */
  #said: string | undefined;
  #saidAt = 0;
  /** The row that is being written, or removed for good. */
  #writing: Promise<void> | undefined;

  constructor(db: D1Database, kv: SyncKvStorage) {
    this.#db = db;
    this.#kv = kv;
  }

  /** When the row is to be written or removed next; undefined for never, while nothing changes. */
  dueAt(standing: LaneStanding): number | undefined {
    if (this.#writing !== undefined) return undefined;
    const isNoted = this.#kv.get("noted") === true;
    const stillAt = standsSince(standing);
    if (stillAt === undefined) return isNoted ? this.#saidAt : undefined;
    if (!isNoted) return Math.max(stillAt, this.#saidAt);
    return this.#said === wordsOf(standing) ? undefined : this.#saidAt + NOTE_EVERY_MS;
  }

  /** True while the row is being written, or there is one. */
  get isThere(): boolean {
    return this.#writing !== undefined || this.#kv.get("noted") === true;
  }

  /** Removes the row of a lane that is being erased; nothing is written from now on. Throws what the database said: then it goes on. */
  async close({ tenant, lane, key }: LaneName): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
    if (tenant === null || !this.isThere) return;
    const removed = query(this.#db, forgetLane({ tenantId: tenant, lane, key }));
    this.#writing = removed.then(
      () => undefined,
      () => {
        this.#writing = undefined;
      },
    );
    await removed;
  }

  /** Writes the row, or removes it. Never throws: what is not written now is written ten seconds later. */
  async write(standing: LaneStanding): Promise<void> {
    if (standing.tenant === null || this.#writing !== undefined) return;
    this.#writing = this.#write(standing, standing.tenant).finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  async #write(standing: LaneStanding, tenant: string): Promise<void> {
    const { lane, key, state, why, depth, oldestAt, head, ahead } = standing;
    try {
      const isStill = (standsSince(standing) ?? Number.POSITIVE_INFINITY) <= Date.now();
      if (isStill) {
        const row = { tenantId: tenant, lane, key, state, why, depth, oldestAt, head: head && JSON.stringify(head) };
        // Before the row: what is not known to be there would never be removed.
        this.#kv.put("noted", true);
        await query(this.#db, noteLane({ ...row, ahead: JSON.stringify(ahead) }));
        this.#said = wordsOf(standing);
      } else {
        await query(this.#db, forgetLane({ tenantId: tenant, lane, key }));
        this.#kv.delete("noted");
        this.#said = undefined;
      }
      this.#saidAt = isStill ? Date.now() : 0;
    } catch (error) {
      this.#saidAt = Date.now() + NOTE_EVERY_MS;
      logLine("warn", { log: "lane_not_noted", lane, error: messageOf(error) });
    }
  }
}

/** When a lane began to be one that people should see, in milliseconds since 1970; undefined for one that flows. */
function standsSince({ tenant, state, oldestAt }: LaneStanding): number | undefined {
  if (tenant === null) return undefined;
  if (state === "paused" || state === "held") return 0;
  return oldestAt === null ? undefined : oldestAt + STILL_AFTER_MS;
}

const wordsOf = ({ state, why, depth, head, ahead }: LaneStanding) => JSON.stringify([state, why, depth, head, ahead]);
