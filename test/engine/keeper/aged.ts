import { env } from "cloudflare:workers";
import { SCOPES } from "millrace/operate";
import type { Retention } from "millrace/worker";
import { expect, vi } from "vitest";
import { engineRetention } from "../../../packages/millrace/src/keeper/retention.ts";
import type { Slice } from "../../../packages/millrace/src/keeper/sweep.ts";
import { app } from "../../probe/worker.ts";
import { fresh, oldFirst, operator, probeEnv, rows } from "../harness.ts";

export const ENGINE_RETENTION = engineRetention(app);
export const reader = { ...operator, scopes: SCOPES };
export const DAY_MS = 86_400_000;
export const daysAgo = (days: number) => Date.now() - days * DAY_MS;

export async function run(sql: string, ...params: unknown[]): Promise<void> {
  await env.DB.prepare(sql)
    .bind(...params)
    .run();
}

export const age = (id: string, days: number) =>
  run("UPDATE millrace_instances SET accepted_at = ?2, updated_at = ?2, check_at = NULL WHERE id = ?1", id, daysAgo(days));

export const count = async (table: string, where: string, ...params: unknown[]) =>
  (await rows<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE ${where}`, ...params))[0]?.n;

/** An instance row of this age in days, for an instance that never started. */
export async function rowOf(status: string, days: number, subject = fresh(status)): Promise<string> {
  const id = crypto.randomUUID().replaceAll("-", "");
  await run(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
     VALUES (?1, 'acme', 'probe', 'probe.requested', ?2, 'c', 'c', ?2, 'ff', '{}', ?3, ?4, ?4)`,
    id,
    subject,
    status,
    daysAgo(days),
  );
  await run(
    `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, updated_at) VALUES (?1, 's', 0, 'keyed', 'done', 1, 't', 0)`,
    id,
  );
  return id;
}

/** Runs one slice of a retention rule, without the repairs of a whole round. */
export function slice(name: string, from: string | null = null): ReturnType<Retention["prune"]> | undefined {
  const rule = ENGINE_RETENTION.find((one) => one.name === name);
  return rule?.prune(probeEnv, rule.keepDays * DAY_MS, from);
}
export const pruneFailed = async () => {
  await oldFirst();
  return slice("instances failed");
};

export async function letter(state: string, days: number, instanceId: string | null = null): Promise<string> {
  const id = crypto.randomUUID();
  await run(
    `INSERT INTO millrace_dead_letters (id, tenant_id, queue, instance_id, body, reason, attempts, first_at, captured_at, state, settled_at)
     VALUES (?1, 'acme', 'probe-commands', ?2, '{}', 'exhausted', 3, ?3, ?3, ?4, iif(?4 = 'open', NULL, ?3))`,
    id,
    instanceId,
    daysAgo(days),
    state,
  );
  return id;
}

/** Runs a function directly before the database gets a statement, so that earlier reads are stale. */
export async function justBefore<T>(
  statement: string,
  meanwhile: () => Promise<unknown>,
  act: () => Promise<T> | undefined,
): Promise<T | undefined> {
  const database = Object.getPrototypeOf(env.DB) as D1Database;
  const real = database.batch;
  let came = false;
  database.batch = async function (this: D1Database, statements) {
    if (!came && JSON.stringify(statements).includes(statement)) {
      came = true;
      await meanwhile();
    }
    return real.call(this, statements) as never;
  };
  try {
    return await act();
  } finally {
    database.batch = real;
    expect(came).toBe(true);
  }
}

/** Runs a function that logs errors, and hides these log lines. */
export async function failing<T>(act: () => Promise<T>): Promise<T> {
  const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
  try {
    return await act();
  } finally {
    error.mockRestore();
  }
}

export const archiveEnv = (days: number) => ({ ...probeEnv, ARCHIVE_AFTER_DAYS: days });

/** Runs slices of a retention rule with an archive, to the end of its scan. Returns the count of moved instances. */
export async function archive(name = "instances ended", days = 30): Promise<number> {
  await oldFirst();
  const rule = ENGINE_RETENTION.find((rule) => rule.name === name);
  let moved = 0;
  for (let from: string | null = null; ; ) {
    const one: number | Slice | undefined = await rule?.prune(archiveEnv(days), rule.keepDays * DAY_MS, from);
    if (typeof one !== "object") throw new Error(`${name} has no scan.`);
    moved += one.removed;
    from = one.next;
    if (from === null) return moved;
  }
}
