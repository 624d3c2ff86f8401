import { env } from "cloudflare:workers";
import { onTestFinished, vi } from "vitest";
import { digest, sha256 } from "../../../packages/millrace/src/contract/ids.ts";
import { withAuditOpen } from "../../opened-audit.ts";
import { blocked } from "../../probe/turns.ts";
import { fresh, pauseAt, reaches, rows, until } from "../harness.ts";
import { LAB, platformReaches, runLab } from "../lab.ts";
import { hear, openWaits } from "../signals/waiting.ts";

/** A divergence that a test has created: its kind, the id of its item, and a test of the repair. */
export interface Plant {
  readonly kind: string;
  readonly what: string;
  /** Returns whether the item has been repaired. */
  readonly healed?: () => Promise<boolean>;
}

const HOUR_MS = 3_600_000;
const ago = (ms: number) => Date.now() - ms;
const hex = () => crypto.randomUUID().replaceAll("-", "");
const is = async (text: string, ...params: unknown[]) => (await rows(text, ...params)).length > 0;

const run = (text: string, ...params: unknown[]) =>
  env.DB.prepare(text)
    .bind(...params)
    .run();

/** A run that waits for an event with its name. */
async function waiting(): Promise<{ id: string; name: string }> {
  const name = fresh("walk");
  const { instanceId: id } = await runLab(({ step }) => hear(step, "heard", name, HOUR_MS), { name });
  await openWaits(id, 1);
  await reaches(id, "waiting");
  return { id, name };
}

/** A waiting run that the keeper does not check for an hour. */
async function asleep(): Promise<{ id: string; name: string }> {
  const one = await waiting();
  await run("UPDATE millrace_instances SET seen = 1, check_at = ?2 WHERE id = ?1", one.id, ago(-HOUR_MS));
  return one;
}

async function complete(): Promise<string> {
  const { instanceId } = await runLab(async () => 1, { name: fresh("walk") });
  await reaches(instanceId, "complete");
  return instanceId;
}

/**
 * A run that has ended in its row and not on the platform, as the local platform leaves the run of a killed process. It ends when it
 * gets an event.
 */
async function leftStanding(): Promise<string> {
  const name = fresh("walk");
  const pass = pauseAt("W33 end recorded, replay not over", name);
  const { instanceId } = await runLab(async () => 1, { name });
  await until(async () => pass.reached(), Boolean);
  await reaches(instanceId, "complete");
  const platform = Object.getPrototypeOf(LAB) as Workflow;
  const get = platform.get;
  const stands = vi.spyOn(platform, "get").mockImplementation(async function (this: Workflow, id: string) {
    const instance = await get.call(this, id);
    if (id !== instanceId) return instance;
    return { id, status: () => instance.status(), sendEvent: async () => pass.release() } as unknown as WorkflowInstance;
  });
  onTestFinished(() => stands.mockRestore());
  return instanceId;
}

/** Inserts the row of an instance that was never started. */
async function row(status: string, { id = hex(), envelope = "{}" } = {}): Promise<string> {
  await run(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
     VALUES (?1, 'acme', 'lab', 'lab.requested', ?1, 'c', 'c', ?1, 'ff', ?3, ?2, ?4, ?4)`,
    id,
    status,
    envelope,
    ago(100),
  );
  return id;
}

async function entry(id: string, state: string, leaseUntil: number | null = null): Promise<string> {
  await run(
    `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, lease_until, updated_at) VALUES (?1, 's', 0, 'once', ?2, 1, 't', ?3, ?4)`,
    id,
    state,
    leaseUntil,
    ago(0),
  );
  return id;
}

const bury = (id: string) =>
  run("INSERT INTO millrace_tombstones (id, fingerprint, place) VALUES (unhex(?1), unhex('ff'), unixepoch() * 1000)", id);

/** Stores an event with a run's name that no wait has consumed. */
async function kept(name: string): Promise<string> {
  const id = hex();
  const envelope = JSON.stringify({ payload_inline: { about: name, value: "at last" }, schema_version: 1, tenant_id: "acme" });
  await run(
    "INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at) VALUES (?1, 'acme', 'probe.signal', ?2, ?3, ?4)",
    id,
    name,
    envelope,
    ago(0),
  );
  return id;
}

async function message(queue: string, attempts: number): Promise<string> {
  const id = hex();
  const body = JSON.stringify({ tenant_id: "acme", message_type: "probe.signal" });
  await run(
    "INSERT INTO millrace_outbox (id, queue, body, attempts, due_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    id,
    queue,
    body,
    attempts,
    ago(-HOUR_MS),
  );
  return id;
}

const mended = (kind: string, what: string, healed: () => Promise<boolean>): Plant => ({ kind, what, healed });

/** Creates each kind of divergence. */
export const PLANTS: readonly (() => Promise<Plant>)[] = [
  async () => {
    const tenant = fresh("elsewhere").toLowerCase();
    await run("INSERT INTO millrace_cells (tenant_id, cell) VALUES (?1, 1)", tenant);
    await run("INSERT INTO millrace_moved (tenant_id, cell) VALUES (?1, 2)", tenant);
    return { kind: "tenant_elsewhere", what: sha256(tenant).slice(0, 32) };
  },
  async () => {
    const { id } = await waiting();
    await run("UPDATE millrace_instances SET check_at = NULL WHERE id = ?1", id);
    return mended("unwatched", id, () => is("SELECT 1 FROM millrace_instances WHERE id = ?1 AND check_at IS NOT NULL", id));
  },
  async () => {
    const { id } = await waiting();
    await run("UPDATE millrace_instances SET status = 'in_doubt' WHERE id = ?1", id);
    return mended("in_doubt_without_doubt", id, () =>
      is("SELECT 1 FROM millrace_instances WHERE id = ?1 AND status IN ('running', 'waiting')", id),
    );
  },
  async () => {
    const { id } = await waiting();
    await run("DELETE FROM millrace_waits WHERE instance_id = ?1", id);
    await run("UPDATE millrace_instances SET updated_at = ?2 WHERE id = ?1", id, ago(HOUR_MS));
    return { kind: "database_set_back", what: id };
  },
  async () => {
    const { id } = await asleep();
    await entry(id, "in_doubt");
    return mended("doubt_unseen", id, () => is("SELECT 1 FROM millrace_instances WHERE id = ?1 AND status = 'in_doubt'", id));
  },
  async () => {
    const { id, name } = await asleep();
    await run("UPDATE millrace_waits SET signal_id = ?2 WHERE instance_id = ?1", id, await kept(name));
    return mended("event_untold", id, async () => (await reaches(id, "complete")) === "complete");
  },
  async () => {
    const { id, name } = await asleep();
    await kept(name);
    return mended("event_unassigned", id, async () => (await reaches(id, "complete")) === "complete");
  },
  async () => {
    const id = await complete();
    await run("UPDATE millrace_instances SET status = 'errored', check_at = NULL, updated_at = ?2 WHERE id = ?1", id, ago(HOUR_MS));
    return mended("not_failed", id, () => is("SELECT 1 FROM millrace_instances WHERE id = ?1 AND status = 'complete'", id));
  },
  async () => {
    const id = await leftStanding();
    await run("UPDATE millrace_instances SET updated_at = ?2, check_at = NULL WHERE id = ?1", id, ago(HOUR_MS));
    return mended("run_left_standing", id, async () => (await platformReaches(id, "complete")) === "complete");
  },
  async () => {
    const id = await entry(hex(), "done");
    await bury(id);
    return mended("entries_left", id, async () => !(await is("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1", id)));
  },
  async () => {
    const name = fresh("lock");
    await run("INSERT INTO millrace_locks (tenant_id, name, token) VALUES ('acme', ?1, 7)", name);
    return mended(
      "lock_without_holder",
      digest("lock", "acme", name),
      async () => !(await is("SELECT 1 FROM millrace_locks WHERE name = ?1", name)),
    );
  },
  async () => {
    const [lane, key] = [blocked.queue.name.slice("lane:".length), fresh("key")];
    await run(
      "INSERT INTO millrace_lanes (tenant_id, lane, key, state, depth, ahead, recorded_at) VALUES ('acme', ?1, ?2, 'held', 3, '[]', ?3)",
      lane,
      key,
      ago(HOUR_MS),
    );
    return mended(
      "lane_row_stale",
      digest("lane", "acme", lane, key),
      async () => !(await is("SELECT 1 FROM millrace_lanes WHERE key = ?1", key)),
    );
  },
  async () => ({ kind: "dead_without_letter", what: await row("dead") }),
  async () => {
    const id = await row("complete");
    await bury(id);
    return { kind: "beside_tombstone", what: id };
  },
  async () => ({ kind: "entries_without_row", what: await entry(hex(), "done") }),
  async () => {
    const { id } = await waiting();
    await entry(id, "done");
    await run("DELETE FROM millrace_instances WHERE id = ?1", id);
    return { kind: "run_without_row", what: id };
  },
  async () => ({ kind: "claim_unreleased", what: await entry(await row("complete"), "claimed", ago(2 * HOUR_MS)) }),
  async () => {
    const { id } = await waiting();
    await run("UPDATE millrace_instances SET status = 'skipped', check_at = NULL, updated_at = ?2 WHERE id = ?1", id, ago(HOUR_MS));
    return { kind: "ended_otherwise", what: id };
  },
  async () => {
    const { id } = await asleep();
    await run("UPDATE millrace_waits SET due_at = ?2 WHERE instance_id = ?1", id, ago(HOUR_MS));
    return { kind: "wait_overdue", what: id };
  },
  async () => ({ kind: "message_without_taker", what: await message("no-such-queue", 0) }),
  async () => ({ kind: "message_unconfirmed", what: await message("probe-events", 20) }),
  async () => {
    const id = hex();
    await run(
      `INSERT INTO millrace_dead_letters (id, tenant_id, queue, instance_id, body, reason, attempts, first_at, captured_at)
       VALUES (?1, 'acme', 'probe-commands', ?2, '{}', 'exhausted', 4, 1, ?3)`,
      id,
      await row("complete"),
      ago(0),
    );
    return { kind: "letter_of_ended", what: id };
  },
  async () => {
    const id = hex();
    await run(
      `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, result, at, due_at) VALUES (?1, 'acme', 'tess', 'retry', 't', ?2, 'walk', 'applied', ?3, ?4)`,
      id,
      hex(),
      ago(2 * HOUR_MS),
      ago(-HOUR_MS),
    );
    return { kind: "promise_unkept", what: id };
  },
  async () => {
    const name = fresh("schedule");
    await run(
      `INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, next_at, changed_at, changed_by)
       VALUES ('acme', ?1, 'no pattern', 'UTC', 'probe.requested', '{}', 1, 'active', ?2, 1, 'tess')`,
      name,
      ago(HOUR_MS),
    );
    return { kind: "schedule_overdue", what: digest("schedule", "acme", name) };
  },
  async () => ({ kind: "payload_missing", what: await row("errored", { envelope: `{"payload_ref":"r2://payloads/acme/${hex()}"}` }) }),
];

/** Deletes the rows of the divergences, so that other tests do not find them. */
export async function removePlants(plants: readonly Plant[]): Promise<void> {
  const whats = JSON.stringify(plants.map(({ what }) => what));
  const among = "IN (SELECT value FROM json_each(?1))";
  for (const [table, column] of [
    ["millrace_divergences", "what"],
    ["millrace_instances", "id"],
    ["millrace_inbox", "instance_id"],
    ["millrace_outbox", "id"],
    ["millrace_dead_letters", "id"],
  ])
    await run(`DELETE FROM ${table} WHERE ${column} ${among}`, whats);
  await withAuditOpen(`DELETE FROM millrace_actions WHERE id ${among}`, whats);
  await run("DELETE FROM millrace_schedules WHERE cron = 'no pattern'");
  for (const table of ["millrace_cells", "millrace_moved"]) await run(`DELETE FROM ${table}`);
}
