import { env } from "cloudflare:workers";
import { approvals, bulkActions, deadLetters, effects, instances } from "millrace/operate";
import { keeperOf } from "millrace/worker";
import { expect, it, onTestFinished } from "vitest";
import { howMany, IS_FULL_SIZE } from "../../full-size.ts";
import { app } from "../../probe/worker.ts";
import { rowsRead } from "../../rows-read.ts";
import { fresh, probeEnv, reaches, start, withKeeperAtRest } from "../harness.ts";

/** The tenant's number of instances at the first and at the second measurement. */
const SIZES = IS_FULL_SIZE ? [2000, 1_000_000] : [1000, 4000];
/** Rows per INSERT. D1 aborts a statement after 30 seconds. */
const PORTION = 50_000;

/** The number of instances that one page checks for a workflow or a subject. */
const LOOKED_AT = 50_000;
/** The number of rows that a list checks first. A frequent filter fills its page from these rows. */
const LOOKED_AT_FIRST = 2_000;

/** The rows that the larger size may read in addition, because its indexes have a few more levels. */
const MORE = 20;
/** The gauges of a keeper round read the first thousand pending questions, each with its instance. */
const MORE_IN_A_ROUND = 2 * 1000 + MORE;

const OF_TAG = { status: "complete", tag: "vip" };

const rowsOf = async (list: () => Promise<unknown>) => (await rowsRead(list)).read;

/**
 * Adds numbered instances to a tenant, each with an inbox row, a dead letter and a question. Of each thousand, one is errored, one
 * is running, and the others are complete.
 */
async function fill(tenantId: string, like: string, from: number, to: number): Promise<void> {
  const numbers = `WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to})`;
  const id = "substr(hex(?1) || printf('%032d', i), -32)";
  const status = "CASE i % 1000 WHEN 0 THEN 'errored' WHEN 1 THEN 'running' ELSE 'complete' END";
  const far = "(unixepoch() + 86400) * 1000";
  for (const text of [
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at, check_at, cause, must_end_by)
     ${numbers} SELECT ${id}, ?1, workflow, message_type, i, i / 10, causation_id, subject, fingerprint, '{}', ${status}, i, i, iif(i % 1000 = 1, ${far}, NULL), iif(i % 1000 = 0, 'c' || (i / 1000 % 3), NULL), iif(i % 2 = 1 AND i % 2000 <> 1001, i, NULL)
     FROM n, millrace_instances WHERE id = '${like}'`,
    `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, updated_at)
     ${numbers} SELECT ${id}, 's', 0, 'commit', 'done', 1, 't', 1 FROM n`,
    `INSERT INTO millrace_dead_letters (id, tenant_id, queue, body, reason, attempts, first_at, captured_at, state, cause, escalated_at)
     ${numbers} SELECT ?1 || i, ?1, 'q', '{}', 'exhausted', 1, 1, i, iif(i % 1000 = 0, 'open', 'skipped'), 'c' || (i / 1000 % 3), iif(i % 1000 = 0, 1, NULL) FROM n`,
    `INSERT INTO millrace_approvals (instance_id, step, id, tenant_id, workflow, question, state, otherwise, due_at, asked_at, decided_at)
     ${numbers} SELECT ${id}, 's', ${id} || '-1', ?1, 'probe', 'May it continue?', iif(i % 1000 = 0, 'pending', 'approved'), 'reject', ${far}, i, iif(i % 1000 = 0, NULL, 1)
     FROM n`,
  ])
    await env.DB.prepare(text).bind(tenantId).run();
}

/** The number of rows that each list of a tenant and a keeper round read. */
async function asked(tenantId: string): Promise<Record<string, number>> {
  const by = { tenantId, actor: "tess" };
  return {
    newest: await rowsOf(() => instances.list(probeEnv, by, { limit: 10 })),
    errored: await rowsOf(() => instances.list(probeEnv, by, { status: "errored", limit: 1 })),
    running: await rowsOf(() => instances.list(probeEnv, by, { status: "running", limit: 1 })),
    overdue: await rowsOf(() => instances.list(probeEnv, by, { overdue: true, limit: 1 })),
    job: await rowsOf(() => instances.list(probeEnv, by, { correlation: "7" })),
    doubts: await rowsOf(() => effects.list(probeEnv, by, { state: "in_doubt" })),
    "letter causes": await rowsOf(() => deadLetters.causes(probeEnv, { ...by, scopes: [] }, {})),
    "dead letters of a cause": await rowsOf(() => deadLetters.list(probeEnv, { ...by, scopes: [] }, { cause: "c1", limit: 1 })),
    escalated: await rowsOf(() => deadLetters.list(probeEnv, { ...by, scopes: [] }, { escalated: true, limit: 1 })),
    "instance causes": await rowsOf(() => instances.causes(probeEnv, by, {})),
    "instances of a cause": await rowsOf(() => instances.list(probeEnv, by, { cause: "c1", limit: 1 })),
    letters: await rowsOf(() => deadLetters.list(probeEnv, { ...by, scopes: [] }, { limit: 1 })),
    questions: await rowsOf(() => approvals.list(probeEnv, by, { state: "pending", limit: 1 })),
    "bulk action of a tag": await rowsOf(() =>
      bulkActions.plan(probeEnv, app, { ...by, scopes: ["operate"] }, { verb: "run_again", filter: OF_TAG, reason: "look" }),
    ),
    round: await quietRound(),
  };
}

/** Takes the round with the fewest reads, because the first rounds also process due rows of other tests. */
async function quietRound(): Promise<number> {
  const rounds: number[] = [];
  for (let round = 0; round < 4; round++) rounds.push(await rowsOf(() => keeperOf(probeEnv).round()));
  return Math.min(...rounds);
}

// MILLRACE_FULL_SIZE=true npx vitest run --project engine test/engine/inspect/lists.test.ts: with 2,000 and with a million instances.
it("K01 a list of instances and a keeper round read only the rows that they need, not the tenant's whole history", {
  timeout: 900_000,
}, async () => {
  const tenantId = fresh("tenant");
  const { instanceId } = await start(fresh(), [{ do: "commit", name: "z" }]);
  await reaches(instanceId, "complete");
  onTestFinished(async () => {
    const run = (text: string) => env.DB.prepare(text).bind(tenantId).run();
    await run("DELETE FROM millrace_inbox WHERE instance_id IN (SELECT id FROM millrace_instances WHERE tenant_id = ?1)");
    for (const table of ["millrace_instances", "millrace_dead_letters", "millrace_approvals"])
      await run(`DELETE FROM ${table} WHERE tenant_id = ?1`);
  }, 300_000);
  await keeperOf(probeEnv).round();
  const read: Record<string, number>[] = [];
  let filled = 0;
  for (const size of SIZES) {
    for (; filled < size; filled = Math.min(size, filled + PORTION))
      await fill(tenantId, instanceId, filled + 1, Math.min(size, filled + PORTION));
    read.push(await asked(tenantId));
    console.log(`Rows read with ${size} instances: ${JSON.stringify(read.at(-1))}`);
  }
  const [few = {}, many = {}] = read;
  // Open instances are sorted when they are read. An index in that order would cost two more row writes per run.
  const perOpen = ({ running = 0 } = {}, size = 0) => running / (size / 1000);
  expect(perOpen(many, SIZES[1])).toBeLessThanOrEqual(perOpen(few, SIZES[0]));
  for (const one of read) delete one.running;
  expect(Object.entries(many).filter(([list, count]) => count > (few[list] ?? 0) + (list === "round" ? MORE_IN_A_ROUND : MORE))).toEqual(
    [],
  );
  expect(Object.entries(many).filter(([list, count]) => list !== "round" && count > 200)).toEqual([]);
});

it("K01 a list with a rare subject or workflow checks a limited number of instances for each page", {
  timeout: 300_000,
}, async () => {
  await withKeeperAtRest();
  const tenantId = fresh("tenant");
  const by = { tenantId, actor: "tess" };
  const size = howMany(120_000, 1_000_000);
  onTestFinished(async () => {
    for (let left = true; left; ) {
      const one = env.DB.prepare(
        "DELETE FROM millrace_instances WHERE id IN (SELECT id FROM millrace_instances WHERE tenant_id = ?1 LIMIT 50000)",
      );
      left = (await one.bind(tenantId).run()).meta.changes > 0;
    }
  }, 300_000);
  for (let from = 0; from < size; from += PORTION) {
    await env.DB.prepare(
      `WITH RECURSIVE n(i) AS (SELECT ?2 + 1 UNION ALL SELECT i + 1 FROM n WHERE i < min(?2 + ${PORTION}, ?3))
       INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       SELECT substr(hex(?1) || printf('%032d', i), -32), ?1, iif(i = 7, 'rare', 'usual'), 't', i, i, 'c', iif(i = 7, 'rare', 'usual'), 'f', '{"tags":["all"]}', 'complete', i, i FROM n`,
    )
      .bind(tenantId, from, size)
      .run();
  }
  for (const filter of [
    { subject: "rare" },
    { workflow: "rare" },
    { subject: "rare", status: "complete" as const },
    { subject: "rare", workflow: "rare" },
    { tag: "all", subject: "rare" },
  ]) {
    const pages: number[] = [];
    const began = Date.now();
    for (let cursor: string | null = ""; cursor !== null; ) {
      let page: Awaited<ReturnType<typeof instances.list>> = { items: [], next: null };
      const read = await rowsOf(async () => {
        page = await instances.list(probeEnv, by, { ...filter, cursor: cursor ?? "" });
      });
      // A list of a tag reads a row of the index of tags, and two rows of each instance.
      expect(read).toBeLessThanOrEqual(("tag" in filter ? 4 : 2) * (LOOKED_AT + LOOKED_AT_FIRST) + MORE);
      pages.push(page.items.length);
      cursor = page.next;
    }
    console.log(`${JSON.stringify(filter)}: ${pages.length} pages of ${size} instances in ${Date.now() - began} ms`);
    expect(pages).toEqual([...Array.from({ length: Math.ceil(size / LOOKED_AT) - 1 }, () => 0), 1]);
  }
  let usual: Awaited<ReturnType<typeof instances.list>> = { items: [], next: null };
  const read = await rowsOf(async () => {
    usual = await instances.list(probeEnv, by, { subject: "usual", limit: 200 });
  });
  expect(read).toBeLessThanOrEqual(2 * LOOKED_AT_FIRST + 200);
  expect([usual.items.length, Date.parse(usual.items.at(-1)?.accepted_at ?? "")]).toEqual([200, size - 199]);
});
