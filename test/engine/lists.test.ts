import { env } from "cloudflare:workers";
import { expect, it, onTestFinished } from "vitest";
import { listApprovals, listDeadLetters, listEffects, listInstances } from "../../src/engine/index.ts";
import { fresh, probeEnv, reaches, start } from "./harness.ts";

const MANY = 3000;

/** How many rows the database reads to answer. */
async function rowsRead(list: () => Promise<unknown>): Promise<number> {
  const proto = Object.getPrototypeOf(env.DB) as D1Database;
  const own = proto.batch;
  let read = 0;
  proto.batch = async function batch(this: D1Database, statements: D1PreparedStatement[]) {
    const results = await own.call(this, statements);
    read += results.reduce((sum, { meta }) => sum + (meta.rows_read ?? 0), 0);
    return results;
  } as typeof own;
  try {
    await list();
  } finally {
    proto.batch = own;
  }
  return read;
}

it("K01 a list reads what it answers, not all that a tenant has ever had", async () => {
  const tenantId = fresh("tenant");
  const { instanceId } = await start(fresh(), [{ do: "commit", name: "z" }]);
  await reaches(instanceId, "complete");
  const run = (text: string) => env.DB.prepare(text).bind(tenantId).run();
  onTestFinished(async () => {
    await run("DELETE FROM inbox WHERE instance_id IN (SELECT id FROM instances WHERE tenant_id = ?1)");
    for (const table of ["instances", "dead_letters", "approvals"]) await run(`DELETE FROM ${table} WHERE tenant_id = ?1`);
  });
  const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY})`;
  const id = "substr(hex(?1) || printf('%032d', i), -32)";
  await run(
    `INSERT INTO instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
     ${numbers} SELECT ${id}, ?1, workflow, message_type, i, i % 1000, causation_id, subject, fingerprint, '{}', iif(i % 1000 = 0, 'errored', 'complete'), i, i
     FROM n, instances WHERE id = '${instanceId}'`,
  );
  await run(
    `INSERT INTO inbox (instance_id, step, position, class, state, epoch, token, updated_at)
     SELECT id, 's', 0, 'commit', 'done', 1, 't', 1 FROM instances WHERE tenant_id = ?1`,
  );
  await run(
    `INSERT INTO dead_letters (id, tenant_id, queue, body, reason, attempts, first_at, captured_at, state)
     ${numbers} SELECT ?1 || i, ?1, 'q', '{}', 'exhausted', 1, 1, i, iif(i % 1000 = 0, 'open', 'skipped') FROM n`,
  );
  await run(
    `INSERT INTO approvals (instance_id, step, id, tenant_id, workflow, question, state, otherwise, due_at, asked_at, decided_at)
     SELECT id, 's', id || '-1', ?1, workflow, 'May it?', iif(accepted_at % 1000 = 0, 'pending', 'approved'), 'reject', 1, accepted_at, iif(accepted_at % 1000 = 0, NULL, 1)
     FROM instances WHERE tenant_id = ?1`,
  );
  const by = { tenantId, actor: "tess" };
  const read = {
    newest: await rowsRead(() => listInstances(probeEnv, by, { limit: 10 })),
    errored: await rowsRead(() => listInstances(probeEnv, by, { status: "errored" })),
    running: await rowsRead(() => listInstances(probeEnv, by, { status: "running" })),
    job: await rowsRead(() => listInstances(probeEnv, by, { correlation: "7" })),
    doubts: await rowsRead(() => listEffects(probeEnv, by, { state: "in_doubt" })),
    letters: await rowsRead(() => listDeadLetters(probeEnv, { ...by, seesUnattributed: false }, {})),
    questions: await rowsRead(() => listApprovals(probeEnv, by, { state: "pending" })),
  };
  console.log(`Rows read with ${MANY} instances: ${JSON.stringify(read)}`);
  expect(Object.entries(read).filter(([, count]) => count > 500)).toEqual([]);
});
