import { env } from "cloudflare:workers";
import { settleCounts } from "millrace/testing";
import { expect, it, onTestFinished, vi } from "vitest";
import { count } from "../../../../packages/millrace/src/observe/metrics/count.ts";
import { exposition } from "../../../../packages/millrace/src/observe/metrics/exposition.ts";
import { readCounted } from "../../../../packages/millrace/src/observe/metrics/folding.ts";
import { readGauges, Vitals } from "../../../../packages/millrace/src/observe/metrics/vitals.ts";
import { howMany, IS_FULL_SIZE } from "../../../full-size.ts";
import { app } from "../../../probe/worker.ts";
import { rowsRead } from "../../../rows-read.ts";
import { fresh, probeEnv, reaches, start } from "../../harness.ts";

const read = async () => readGauges(probeEnv, app.consumers, await readCounted(probeEnv, Date.now()));

async function reading(name: string, labels: Record<string, string> = {}): Promise<number | undefined> {
  const found = (await read()).filter((one) => one.name === name);
  return found.find((one) => Object.entries(labels).every(([label, text]) => one.labels[label] === text))?.value;
}

it("the gauges of a queue's backlog have its depth and the age of its oldest message", async () => {
  expect(await reading("queue_depth", { queue: "probe-commands" })).toBeGreaterThanOrEqual(0);
  expect(await reading("queue_oldest_seconds", { queue: "probe-commands" })).toBeGreaterThanOrEqual(0);
});

it("the gauge of open dead letters counts a dead letter until it is settled", async () => {
  const queue = fresh("queue");
  const insert =
    "INSERT INTO millrace_dead_letters (id, queue, body, reason, attempts, first_at, captured_at) VALUES (?1, ?2, '{}', 'exhausted', 1, 1, 1)";
  await env.DB.prepare(insert).bind(fresh("letter"), queue).run();
  expect(await reading("dead_letters_open", { queue })).toBe(1);
  await env.DB.prepare("UPDATE millrace_dead_letters SET state = 'skipped' WHERE queue = ?1").bind(queue).run();
  expect(await reading("dead_letters_open", { queue })).toBeUndefined();
});

it("a storm of dead letters in one queue leaves the gauges of another queue correct", async () => {
  const [storm, other] = [fresh("a-storm"), fresh("z-other")];
  const insert = `
    INSERT INTO millrace_dead_letters (id, queue, body, reason, attempts, first_at, captured_at)
    SELECT ?1 || value, ?1, '{}', 'exhausted', 1, 1, 1 FROM json_each(?2)`;
  const many = JSON.stringify(Array.from({ length: 10_500 }, (_, index) => index));
  await env.DB.batch([env.DB.prepare(insert).bind(storm, many), env.DB.prepare(insert).bind(other, "[1]")]);
  expect(await reading("dead_letters_open", { queue: storm })).toBe(10_000);
  expect(await reading("dead_letters_open", { queue: other })).toBe(1);
  await env.DB.prepare("DELETE FROM millrace_dead_letters WHERE queue IN (?1, ?2)").bind(storm, other).run();
});

it("a storm of failures in one workflow leaves the gauge of another workflow correct, and is counted up to 10,000", async () => {
  const [storm, other] = [fresh("a-storm"), fresh("z-other")];
  const { instanceId } = await start(fresh(), []);
  await reaches(instanceId, "complete");
  const copies = (workflow: string, many: number) =>
    env.DB.prepare(`
      INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
      SELECT lower(hex(randomblob(16))), tenant_id, ?1, message_type, ?1 || i, i, causation_id, subject, fingerprint, '{}', 'errored', 1, 1
      FROM n, millrace_instances WHERE id = ?2`).bind(workflow, instanceId, many);
  onTestFinished(async () => {
    await env.DB.prepare("DELETE FROM millrace_instances WHERE workflow IN (?1, ?2)").bind(storm, other).run();
  });
  await env.DB.batch([copies(storm, 10_500), copies(other, 1)]);
  expect(await reading("instances_errored_open", { workflow: storm })).toBe(10_000);
  expect(await reading("instances_errored_open", { workflow: other })).toBe(1);
});

it("a gauge of the app that fails or never answers delays no other gauge, and its own value becomes unknown", {
  timeout: 30_000,
}, async () => {
  const own = { name: "own", labels: {}, value: 7 };
  const answers = [() => [own], () => new Promise<never>(() => undefined), () => Promise.reject(new Error("broken"))];
  const vitals = new Vitals(probeEnv, [], () => (answers.shift() ?? (() => []))());
  const said = async () => (await vitals.read()).samples.find(({ name }) => name === "own")?.value;
  expect([await said(), await said(), await said()]).toEqual([7, Number.NaN, Number.NaN]);
});

it("an invalid result of the app's gauges affects no other gauge, and the log names the error", async () => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
  const own = { name: "own", labels: {}, value: 7 };
  const answers: unknown[] = [
    { own: 7 },
    [own, null],
    [{ ...own, labels: { shop: 7 } }],
    [{ name: "own", value: 7 }],
    [{ ...own, value: "7" }],
  ];
  const wrong = answers.length;
  const vitals = new Vitals(probeEnv, [], () => (answers.shift() ?? [own]) as never);
  for (let time = 0; time < wrong; time++) {
    const { samples } = await vitals.read();
    expect(exposition({}, samples, "text")).toContain("millrace_outbox_unconfirmed");
  }
  const lines = warned.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('"gauges"'));
  expect(lines).toHaveLength(wrong);
  expect(lines[2]).toContain('the gauge \\"own\\"');
  expect((await vitals.read()).samples).toContainEqual(own);
  warned.mockRestore();
});

it("a queue's ratio of retries is shown once it has 20 deliveries", async () => {
  const [few, many] = [fresh("few"), fresh("many")];
  for (const [queue, received] of [
    [few, 2],
    [many, 20],
  ] as const) {
    count(probeEnv, "queue_messages_received_total", { queue }, received);
    count(probeEnv, "queue_messages_retried_total", { queue }, 1);
  }
  await settleCounts(probeEnv);
  expect(await reading("queue_retry_ratio", { queue: few })).toBeUndefined();
  expect(await reading("queue_retry_ratio", { queue: many })).toBe(0.05);
});

// In full size this test has a million instances: MILLRACE_FULL_SIZE=true npx vitest run --project engine
// test/engine/observe/metrics/gauges.test.ts
it("K01 gauges and counts read the rows of open failures only, not the whole history of a deployment", { timeout: 900_000 }, async () => {
  const tenantId = fresh("tenant");
  const { instanceId } = await start(fresh(), []);
  await reaches(instanceId, "complete");
  onTestFinished(async () => {
    for (const table of ["millrace_instances", "millrace_dead_letters"])
      await env.DB.prepare(`DELETE FROM ${table} WHERE tenant_id = ?1`).bind(tenantId).run();
  }, 300_000);
  const { read: few } = await rowsRead(read);
  const size = howMany(2000, 1_000_000);
  for (let from = 0; from < size; from += 50_000) {
    const numbers = `WITH RECURSIVE n(i) AS (SELECT ${from + 1} UNION ALL SELECT i + 1 FROM n WHERE i < ${Math.min(size, from + 50_000)})`;
    for (const text of [
      `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)
       ${numbers} SELECT substr(hex(?1) || printf('%032d', i), -32), ?1, workflow, message_type, i, i, causation_id, subject, fingerprint, '{}', 'complete', i, i
       FROM n, millrace_instances WHERE id = '${instanceId}'`,
      `INSERT INTO millrace_dead_letters (id, tenant_id, queue, body, reason, attempts, first_at, captured_at, state)
       ${numbers} SELECT ?1 || i, ?1, 'q', '{}', 'exhausted', 1, 1, i, 'skipped' FROM n`,
    ])
      await env.DB.prepare(text).bind(tenantId).run();
  }
  const { read: many } = await rowsRead(read);
  console.log(
    `Rows read by gauges and counts: ${few} of few instances, ${many} of ${size}${IS_FULL_SIZE ? "" : " (MILLRACE_FULL_SIZE=true: a million)"}.`,
  );
  expect(many).toBeLessThanOrEqual(few + 20);
});
