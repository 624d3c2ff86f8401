import type { EngineEnv } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { LaneName } from "../lanes/definition.ts";
import type { LaneStanding } from "../lanes/turns-stub.ts";
import { cellOf } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { forgetLane, noteLane } from "../store/lanes.ts";

/** A lane is reported as stuck when its oldest message has waited for this time, in milliseconds. */
const STILL_AFTER_MS = 10_000;
/** Minimum time between two writes of a stuck lane's row, in milliseconds. */
const NOTE_EVERY_MS = 10_000;

/** The database row by which operators find a stuck lane. A lane that makes progress has no such row. */
export class Noticed {
  readonly #env: EngineEnv;
  readonly #kv: SyncKvStorage;
  /** The content of the lane's row. Undefined if the lane has no row, or if this object was recreated and has not read the row. */
  #said: string | undefined;
  #saidAt = 0;
  /** The present write of the row, or the final removal of the row. */
  #writing: Promise<void> | undefined;

  constructor(env: EngineEnv, kv: SyncKvStorage) {
    this.#env = env;
    this.#kv = kv;
  }

  /** When the lane's row must be written or removed next; undefined if nothing changes. */
  dueAt(standing: LaneStanding): number | undefined {
    if (this.#writing !== undefined) return undefined;
    const isNoted = this.#kv.get("noted") === true;
    const stillAt = standsSince(standing);
    if (stillAt === undefined) return isNoted ? this.#saidAt : undefined;
    if (!isNoted) return Math.max(stillAt, this.#saidAt);
    return this.#said === wordsOf(standing) ? undefined : this.#saidAt + NOTE_EVERY_MS;
  }

  /** True if the lane has a row, or if its row is being written. */
  get isThere(): boolean {
    return this.#writing !== undefined || this.#kv.get("noted") === true;
  }

  /**
   * Removes the row of a lane that is being erased, and prevents later writes of the row. The function throws a database error, and after
   * such an error the lane writes its row again.
   */
  async close({ tenant, lane, key }: LaneName): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
    if (tenant === null || !this.isThere) return;
    const removed = cellOf(this.#env, tenant).then(({ DB }) => query(DB, forgetLane({ tenantId: tenant, lane, key })));
    this.#writing = removed.then(
      () => undefined,
      () => {
        this.#writing = undefined;
      },
    );
    await removed;
  }

  /** Writes or removes the lane's row. The function never throws, because it retries a failed write 10 s later. */
  async write(standing: LaneStanding): Promise<void> {
    if (standing.tenant === null || this.#writing !== undefined) return;
    this.#writing = this.#write(standing, standing.tenant).finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  async #write(standing: LaneStanding, tenant: string): Promise<void> {
    const { lane, key, state, why, depth, oldest_at: oldestAt, head, ahead } = standing;
    try {
      const { DB } = await cellOf(this.#env, tenant);
      const isStill = (standsSince(standing) ?? Number.POSITIVE_INFINITY) <= Date.now();
      if (isStill) {
        const row = { tenantId: tenant, lane, key, state, why, depth, oldestAt, head: head && JSON.stringify(head) };
        // The flag is stored before the row, because a row without this flag would never be removed.
        this.#kv.put("noted", true);
        await query(DB, noteLane({ ...row, ahead: JSON.stringify(ahead) }));
        this.#said = wordsOf(standing);
      } else {
        await query(DB, forgetLane({ tenantId: tenant, lane, key }));
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

/** The time since which a lane has made no progress, in milliseconds since 1970; undefined for a lane that makes progress. */
function standsSince({ tenant, state, oldest_at }: LaneStanding): number | undefined {
  if (tenant === null) return undefined;
  if (state === "paused" || state === "held") return 0;
  return oldest_at === null ? undefined : oldest_at + STILL_AFTER_MS;
}

const wordsOf = ({ state, why, depth, head, ahead }: LaneStanding) => JSON.stringify([state, why, depth, head, ahead]);
