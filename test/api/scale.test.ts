import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { engineRoutes } from "millrace/http";
import { effects } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { fillStatements, PORTION } from "../../bench/fill/statements.ts";
import { LIVE_KINDS } from "../../packages/millrace/src/inspect/live/happened.ts";
import { app } from "../../src/catalog.ts";
import { howMany, IS_FULL_SIZE } from "../full-size.ts";
import { rowsRead } from "../rows-read.ts";
import { ALL_SCOPES, callerWith, type Json } from "./client.ts";
import { open } from "./live.ts";
import { reads } from "./reads.ts";
import { hexId } from "./seed.ts";

/** The number of instances at the first and the second measurement: with three entries each, and a dead letter for every tenth instance. */
const SIZES = [2000, howMany(8000, 1_000_000)] as const;
/**
 * The rows read for a full page: nine rows for each of 50 instances, and the levels of the indexes. At the smaller size no page of a rare
 * filter is full.
 */
const FULL_PAGE = 450;

/** Reads that grow, with their maximum of rows and the reason. `open` is the number of running instances of all tenants. */
const BOUNDED: [start: RegExp, most: (open: number) => number, why: string][] = [
  [
    /^\/v1\/instances\?.*(status=(accepted|queued|running|waiting)|activity=)/,
    (open) => 8 * open + 200,
    "Open instances are read from an index that has no other rows.",
  ],
  [
    /^\/v1\/instances\?.*(workflow|version|subject)=/,
    () => 2 * (50_000 + 2_000) + 200,
    "For a rare filter the newest 50,000 rows are checked, page by page.",
  ],
  [
    /^\/v1\/dead-letters\?.*(queue|reason|type|escalated)=/,
    () => 2 * 2 * 5_000 + 200,
    "For a rare filter the newest 5,000 rows are checked, page by page: those of the tenant, and those without a tenant.",
  ],
  [
    /^\/v1\/approvals\?.*(workflow=|state=(approved|rejected))/,
    () => 2 * 5_000 + 200,
    "For a rare filter the newest 50,000 rows of one tenant are checked, page by page.",
  ],
  [
    /^\/v1\/audit\?.*&/,
    () => 2 * 2 * 5_000 + 200,
    "For two filters together, the newest 5,000 rows of one filter are checked, page by page.",
  ],
  [/^\/v1\/search/, () => 2 * 2000 + 1000, "For a subject or a trace the newest 2,000 rows are checked."],
  [
    /^\/v1\/instances\/counts/,
    (open) => 8 * 2 * 2_000 + 8 * open + 200,
    "The newest 2,000 rows of each index are counted, and open instances are sorted.",
  ],
  [/^\/v1\/workflows\?/, () => 2 * 10_000 + 200, "The list counts the newest 10,000 instances by status."],
  [
    /^\/v1\/(workflows\/by-time|messages\/by-minute)/,
    () => 10_000 + 200,
    "Once a minute such a request counts the started instances by version, at most 10,000.",
  ],
  [/^\/v1\/costs/, () => 2 * 2000 + 2000, "The costs are read from the newest 2,000 instances."],
  [/^\/v1\/queues/, () => 150_000, "The list of queues counts open problems, at most 10,000 of each kind."],
  [/^\/v1\/lanes\/causes/, () => 2 * 10_000 + 200, "The list counts at most 10,000 lanes, each with the instance at its head."],
  [/^\/v1\/lanes\?.*(state|cause)=/, () => 2 * 2 * 5_000 + 200, "For a rare filter 5,000 rows are checked, page by page."],
  [/^\/v1\/messages\/dead-letters/, () => 30_000, "The overview counts the rows of the last day, at most 10,000."],
  [/^\/v1\/stream\?.*last_event_id=/, () => 10_000, "A resumed stream reads 1,000 new events of each kind, and returns 100."],
  [/^\/v1\/stream/, () => 2 * 1_000 + 200, "A stream checks the newest 1,000 instances and 1,000 questions."],
  [/^\/v1\/effects/, (open) => 8 * open + 200, "Effects with unknown outcomes have an index with no other rows."],
];

/** The start points of a stream: the present, and after the beginning. */
const STREAMS = ["", ...LIVE_KINDS.map((kind) => `kinds=${kind}`)].flatMap((kinds) => [kinds, `${kinds}&last_event_id=1`]);

// MILLRACE_FULL_SIZE=true npx vitest run --project app test/api/scale.test.ts: 2,000 and 1,000,000 instances. It prints the table of docs/performance.md.
it("every list, filter and search reads as many rows of a large database as of a small one", {
  timeout: IS_FULL_SIZE ? 3_000_000 : 120_000,
}, async () => {
  const caller = await callerWith([...ALL_SCOPES]);
  const { tenantId } = caller;
  const mark = hexId().slice(0, 8);
  // Only this test creates a runtime with a million instances, and ends it.
  if (!IS_FULL_SIZE) onTestFinished(() => remove(tenantId, mark), 60_000);
  const api = engineRoutes(app);
  const get = async (path: string): Promise<Json> => {
    const request = new Request(`http://localhost${path}`, { headers: { authorization: `Bearer ${caller.token}` } });
    const response = await api.fetch(request, env, createExecutionContext());
    expect(response.status, path).toBeLessThan(500);
    return response.headers.get("content-type")?.includes("json") ? response.json() : undefined;
  };

  const measured: Map<string, number>[] = [];
  let filled = 0;
  for (const size of SIZES) {
    const began = Date.now();
    for (; filled < size; filled = Math.min(size, filled + PORTION)) {
      const portion = { tenantId, mark, from: filled, to: Math.min(size, filled + PORTION), of: SIZES[1] };
      for (const statement of fillStatements(portion)) await env.DB.prepare(statement).run();
    }
    console.log(`${size} instances exist after ${Math.round((Date.now() - began) / 1000)} s.`);
    const found = await existing(tenantId, mark);
    const counts = new Map<string, number>();
    for (const { path, queries } of reads(await get("/openapi.json"), found.filters)) {
      for (const query of queries) {
        const asked = `${named(path, found.names)}?${query}`;
        const first = await rowsRead(() => get(asked));
        const next = first.answer?.next_cursor;
        const second = next ? await rowsRead(() => get(`${asked}&cursor=${encodeURIComponent(next)}`)) : first;
        counts.set(`${path}?${query}`.replaceAll(mark, ""), Math.max(first.read, second.read));
      }
    }
    // The request limit of the token fills again before the streams.
    await scheduler.wait(5000);
    for (const query of STREAMS) {
      const look = async () => {
        const stream = await open(caller, `/v1/stream?${query}`);
        await stream.untilRaw("id: ");
        await stream.close();
      };
      counts.set(`/v1/stream?${query}`, (await rowsRead(look)).read);
    }
    measured.push(counts);
  }

  const [small, large] = measured as [Map<string, number>, Map<string, number>];
  const underWay = (SIZES[1] / 1000) * 2;
  const grown: string[] = [];
  for (const [asked, many] of large) {
    const few = small.get(asked) ?? 0;
    const bound = BOUNDED.find(([start]) => start.test(asked))?.[1](underWay);
    if (!/&(?!last_event_id)/.test(asked)) console.log(`| \`${asked}\` | ${few} | ${many} |`);
    if (many > few + FULL_PAGE && many > (bound ?? 0)) grown.push(`${asked}: ${few} rows, then ${many}`);
  }
  expect(large.size).toBeGreaterThan(100);
  expect(grown).toEqual([]);
});

/** The queries. */
async function existing(tenantId: string, mark: string) {
  const first = async (text: string) => (await env.DB.prepare(text).bind(tenantId).first<Json>()) ?? {};
  const instance = (await first(
    "SELECT id, correlation_id, idempotency_key FROM millrace_instances WHERE tenant_id = ?1 AND status = 'complete' LIMIT 1",
  )) as Json;
  const letter = await first("SELECT id, idempotency_key FROM millrace_dead_letters WHERE tenant_id = ?1 LIMIT 1");
  const approval = await first("SELECT id FROM millrace_approvals WHERE tenant_id = ?1 LIMIT 1");
  const action = await first("SELECT id FROM millrace_actions WHERE tenant_id = ?1 LIMIT 1");
  const effect = effects.key({ instanceId: instance.id, step: "put page", item: "", generation: 1 });
  const texts = [instance.id, instance.id.slice(0, 8), instance.idempotency_key, instance.correlation_id, `job-${mark}`, letter.id];
  const filters: Record<string, string> = {
    q: [...texts, letter.idempotency_key, approval.id, action.id, effect, "acme/word-7", `${instance.id}/put page`, "nothing like it"].join(
      "|",
    ),
    workflow: "research-keyword|forget-contact",
    subject: "acme/word-7|nothing like it",
    correlation: instance.correlation_id,
    queue: "gatherfeed-commands|alerts",
    reason: "exhausted|nothing",
  };
  const names = {
    instance: instance.id,
    job: instance.correlation_id,
    key: letter.idempotency_key,
    letter: letter.id,
    approval: approval.id,
  };
  return { filters, names };
}

function named(path: string, names: Record<string, string>): string {
  const { instance = "", job = "", key = "", letter = "", approval = "" } = names;
  return path
    .replace("/instances/{id}", `/instances/${instance}`)
    .replace("/correlations/{id}", `/correlations/${job}`)
    .replace("/keys/{key}", `/keys/${encodeURIComponent(key)}`)
    .replace("/dead-letters/{id}", `/dead-letters/${letter}`)
    .replace("/approvals/{id}", `/approvals/${approval}`)
    .replaceAll(/\{\w+\}/g, "x1");
}

/** Removes all added rows. */
async function remove(tenantId: string, mark: string): Promise<void> {
  const run = async (text: string, ...values: string[]) => {
    for (let gone = 1; gone > 0; ) gone = await removed(text, values);
  };
  for (const table of ["millrace_instances", "millrace_dead_letters", "millrace_approvals", "millrace_actions"]) {
    const key = table === "instances" ? "rowid" : "id";
    await run(
      `DELETE FROM ${table} WHERE ${key} IN (SELECT ${key} FROM ${table} WHERE tenant_id = ?1 OR tenant_id LIKE ?1 || '-%' LIMIT 50000)`,
      tenantId,
    );
  }
  await run(
    "DELETE FROM millrace_inbox WHERE instance_id IN (SELECT instance_id FROM millrace_inbox WHERE substr(instance_id, 9, 8) = ?1 LIMIT 50000)",
    mark,
  );
}

/** The number of rows that a statement removes, including the audit's. */
async function removed(text: string, values: readonly string[]): Promise<number> {
  const [, removal] = await env.DB.batch([
    env.DB.prepare("INSERT INTO millrace_audit_opened (id) VALUES (1)"),
    env.DB.prepare(text).bind(...values),
    env.DB.prepare("DELETE FROM millrace_audit_opened"),
  ]);
  return removal?.meta.changes ?? 0;
}
