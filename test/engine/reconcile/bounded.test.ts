import { env } from "cloudflare:workers";
import { expect, it, onTestFinished } from "vitest";
import { IS_FULL_SIZE } from "../../full-size.ts";
import { fresh, probeEnv } from "../harness.ts";
import { CHECKS } from "./walking.ts";

/** The number of instances in the database, each with three inbox entries and a wait. Only the full size has the documented number. */
const MANY = IS_FULL_SIZE ? 1_000_000 : 3000;
/** The maximum number of rows that a slice of the scan may read. */
const MOST_READ = 4000;

const run = (text: string, ...params: unknown[]) =>
  env.DB.prepare(text)
    .bind(...params)
    .run();

async function crowd(tenant: string): Promise<void> {
  onTestFinished(async () => {
    for (const table of ["millrace_inbox", "millrace_waits"])
      await run(`DELETE FROM ${table} WHERE instance_id IN (SELECT id FROM millrace_instances WHERE tenant_id = ?1)`, tenant);
    await run("DELETE FROM millrace_instances WHERE tenant_id = ?1", tenant);
  }, 120_000);
  for (let at = 0; at < MANY; at += 50_000) {
    await run(
      `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at, check_at, seen)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       SELECT lower(hex(randomblob(16))), ?2, 'lab', 'lab.requested', i, 'c', 'c', ?2, 'ff', '{}', iif(i % 10, 'complete', 'waiting'), 1, 1, iif(i % 10, NULL, 8e15 + i), 1 FROM n`,
      Math.min(50_000, MANY - at),
      tenant,
    );
  }
  const entry = `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, updated_at)
     SELECT id, ?2, 0, 'keyed', 'done', 1, 't', 0 FROM millrace_instances WHERE tenant_id = ?1`;
  for (const step of ["a", "b", "c"]) await run(entry, tenant, step);
  await run(
    `INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at, due_at)
     SELECT id, 'w', 'lab', tenant_id, 'probe.signal', id, 'e', 1, 9e15 FROM millrace_instances WHERE tenant_id = ?1`,
    tenant,
  );
}

/** The engine's environment, with a database that counts reads. */
function counting() {
  const read = { rows: 0, statements: 0 };
  const DB = {
    prepare: (text: string) => env.DB.prepare(text),
    async batch(statements: D1PreparedStatement[]) {
      const results = await env.DB.batch(statements);
      for (const { meta } of results) read.rows += meta.rows_read;
      read.statements += results.length;
      return results;
    },
  };
  return { read, env: { ...probeEnv, DB } as unknown as Cloudflare.Env };
}

it("a slice of the reconciliation scan reads a limited number of rows, for any number of instances", { timeout: 600_000 }, async () => {
  await crowd(fresh("crowd"));
  const most: Record<string, number> = {};
  for (const check of CHECKS) {
    let from: string | null = null;
    for (let slices = 0; slices < 4; slices++) {
      const counted = counting();
      const { next } = await check.slice(counted.env, from);
      most[check.name] = Math.max(most[check.name] ?? 0, counted.read.rows);
      from = next;
      if (from === null) break;
    }
  }
  console.log(JSON.stringify({ instances: MANY, rowsReadBySlice: most }));
  expect(Object.entries(most).filter(([, rows]) => rows > MOST_READ)).toEqual([]);
});
