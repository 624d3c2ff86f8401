import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { SteerRequest } from "../lanes/turns-stub.ts";
import { auditDone, operatorOf } from "../store/actions.ts";
import { cellOf } from "../store/cells.ts";
import { atomically } from "../store/d1/retry.ts";

/** An operator's completed or refused action on a lane. The audit row of the action is not written yet. */
export interface Owed extends SteerRequest {
  readonly tenantId: string;
  readonly target: string;
  readonly result: "applied" | "no_change";
  readonly detail: Record<string, unknown>;
  readonly before?: Record<string, unknown>;
  readonly after?: Record<string, unknown>;
}

const PAUSE_MS = 10_000;

/**
 * The audit of operators' actions on one lane. An audit entry is stored in the transaction of the change, and is removed after the entry's
 * audit row is in the database.
 */
export class Audits {
  readonly #env: EngineEnv;
  readonly #kv: SyncKvStorage;
  #triedAt = 0;

  constructor(env: EngineEnv, kv: SyncKvStorage) {
    this.#env = env;
    this.#kv = kv;
  }

  /** When the pending audit rows are due; undefined if there are none. */
  get dueAt(): number | undefined {
    return this.#owed.length > 0 ? this.#triedAt : undefined;
  }

  /** Stores an audit entry. The call must be in the transaction of the audited change. */
  owe(owed: Owed): void {
    this.#kv.put("audits", [...this.#owed, owed]);
  }

  /**
   * Writes the pending audit rows to the database. The function never throws, because an audit row remains stored in this object until the
   * row is written.
   */
  async write(): Promise<void> {
    const owed = this.#owed;
    if (owed.length === 0) return;
    this.#triedAt = Date.now() + PAUSE_MS;
    // The time of an audit row is the time when it is written, so that readers of the audit get rows in order.
    const rows = owed.map(({ actionId, result, ...action }) =>
      auditDone(operatorOf(action), { ...action, id: actionId, instanceId: null }, result),
    );
    try {
      await crashPoint("L15 lane changed, not audited");
      const { DB } = await cellOf(this.#env, owed[0]?.tenantId ?? "");
      await atomically(DB, rows);
      const written = new Set(owed.map(({ actionId }) => actionId));
      const left = this.#owed.filter(({ actionId }) => !written.has(actionId));
      if (left.length > 0) this.#kv.put("audits", left);
      else this.#kv.delete("audits");
    } catch (error) {
      logLine("warn", { log: "audit_owed", actions: owed.length, error: messageOf(error) });
    }
  }

  get #owed(): Owed[] {
    return this.#kv.get<Owed[]>("audits") ?? [];
  }
}
