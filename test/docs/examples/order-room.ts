import { DurableObject } from "cloudflare:workers";
import { type EngineEnv, type Envelope, enqueueOne } from "millrace";
import { type Task, TaskRun, taskCatalog } from "./order-tasks.ts";

/** The delay before the object sends a command again that may be lost: the object died, or the database was unavailable. */
const ASK_AGAIN_MS = 10_000;

/** Coordinates one order: `pick` and `label` in parallel, then `hand over`. A task is waiting, owed, asked, done or failed. */
export class OrderRoom extends DurableObject<EngineEnv> {
  readonly #sql = this.ctx.storage.sql;

  /** Begins the order, once. */
  async place(tenantId: string, order: string): Promise<void> {
    this.#sql.exec("CREATE TABLE IF NOT EXISTS tasks (task TEXT PRIMARY KEY, state TEXT NOT NULL)");
    this.#sql.exec("INSERT OR IGNORE INTO tasks VALUES ('pick', 'owed'), ('label', 'owed'), ('hand over', 'waiting')");
    this.ctx.storage.kv.put("order", { tenantId, order });
    await this.#ask();
  }

  /** Receives the end of a task. An event can arrive twice. */
  async onEvent({ payload_inline }: Envelope): Promise<void> {
    const { task, ok } = payload_inline as Task & { ok: boolean };
    this.#sql.exec("UPDATE tasks SET state = ? WHERE task = ? AND state <> 'done'", ok ? "done" : "failed", task);
    this.#sql.exec("UPDATE tasks SET state = 'owed' WHERE state = 'waiting' AND (SELECT count(*) FROM tasks WHERE state = 'done') = 2");
    await this.#ask();
  }

  override alarm(): Promise<void> {
    return this.#ask();
  }

  /** The state of every task of the order. */
  tasks(): Record<string, string> {
    return Object.fromEntries(this.#sql.exec("SELECT task, state FROM tasks").raw<[string, string]>());
  }

  async #ask(): Promise<void> {
    const owed = this.#sql.exec<{ task: Task["task"] }>("SELECT task FROM tasks WHERE state = 'owed'").toArray();
    const at = this.ctx.storage.kv.get<{ tenantId: string; order: string }>("order");
    if (owed.length === 0 || !at) return;
    // In the same write as the owed tasks. A task that is sent twice is one instance, by its key.
    await this.ctx.storage.setAlarm(Date.now() + ASK_AGAIN_MS);
    for (const { task } of owed) {
      const by = { tenantId: at.tenantId, source: "order-room" };
      await enqueueOne(this.env, taskCatalog, by, { command: TaskRun, payload: { order: at.order, task } });
      this.#sql.exec("UPDATE tasks SET state = 'asked' WHERE task = ? AND state = 'owed'", task);
    }
  }
}
