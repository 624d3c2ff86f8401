import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { sql } from "../../../../packages/millrace/src/contract/sql.ts";
import { foldTallies, readCounted } from "../../../../packages/millrace/src/observe/metrics/folding.ts";
import { GatheredCounts, WRITE_MS } from "../../../../packages/millrace/src/observe/metrics/gathered.ts";
import { addCount, MAX_SERIES, type Tally } from "../../../../packages/millrace/src/observe/metrics/tally.ts";
import { GroupCommit } from "../../../../packages/millrace/src/store/d1/group-commit.ts";
import { insertTally } from "../../../../packages/millrace/src/store/tallies.ts";
import { fresh, probeEnv } from "../../harness.ts";

function tallyOf(queue: string, number = 1): Tally {
  const tally: Tally = {};
  addCount(tally, "queue_messages_sent_total", { queue }, number);
  return tally;
}

async function sent(queue: string): Promise<unknown> {
  const { ever } = await readCounted(probeEnv, Date.now());
  return ever.queue_messages_sent_total?.[JSON.stringify([queue])];
}

/** A group commit that writes these counts with its first batch. The database refuses each batch for which `refuses` returns true. */
function committing(counts: GatheredCounts, atOnce: boolean, refuses: (batch: number) => boolean = () => false) {
  let batches = 0;
  const db = {
    prepare: (text: string) => env.DB.prepare(text),
    batch: (statements: D1PreparedStatement[]) => {
      if (refuses(++batches)) throw new Error("NOT NULL constraint failed: millrace_inbox.state: SQLITE_CONSTRAINT");
      return env.DB.batch(statements);
    },
  } as unknown as D1Database;
  return { commits: new GroupCommit(db, {}, () => counts.along(atOnce)), batches: () => batches };
}

const NOTHING = { statements: [sql`SELECT 1 AS one`], read: ([rows]: Record<string, unknown>[][]) => rows?.[0]?.one };

it("metric counts in memory are written in the batch of the next commit, without a separate round trip", async () => {
  const queue = fresh("queue");
  const counts = new GatheredCounts({});
  counts.add(tallyOf(queue, 2));
  const { commits, batches } = committing(counts, true);
  expect(await commits.commit(NOTHING)).toBe(1);
  expect(batches()).toBe(1);
  expect(await sent(queue)).toBe(2);
});

it("metric counts in memory wait up to ten seconds for a write, and are written before their minute ends", () => {
  const counts = new GatheredCounts({});
  counts.add(tallyOf(fresh("queue")));
  const isNewMinute = Date.now() % 60_000 > 60_000 - WRITE_MS;
  if (!isNewMinute) expect(counts.along()).toBeUndefined();
  expect(counts.along(true)).toBeDefined();
});

it("metric counts are written although the database refuses other statements of the same group commit", async () => {
  const queue = fresh("queue");
  const counts = new GatheredCounts({});
  counts.add(tallyOf(queue, 5));
  // The database refuses the batch of the group, and then the batch of the other unit alone.
  const { commits } = committing(counts, true, (batch) => batch <= 2);
  await expect(commits.commit(NOTHING)).rejects.toThrow("NOT NULL");
  await expect.poll(() => sent(queue), { timeout: 20_000 }).toBe(5);
  expect(counts.isEmpty).toBe(true);
});

it("metric counts are written again after a database error, and added once although the first write had succeeded", async () => {
  const queue = fresh("queue");
  const counts = new GatheredCounts({});
  counts.add(tallyOf(queue, 4));
  const first = counts.along(true);
  // The write succeeds, and its answer is lost.
  if (first)
    await env.DB.prepare(first.statement.text)
      .bind(...first.statement.params)
      .run();
  first?.settled(false);
  expect(counts.isEmpty).toBe(false);
  const { commits } = committing(counts, true);
  await commits.commit(NOTHING);
  expect(await sent(queue)).toBe(4);
});

it("metric counts that two keepers merge at the same time are added once", async () => {
  const queue = fresh("queue");
  const { text, params } = insertTally({ id: crypto.randomUUID(), at: Date.now(), body: JSON.stringify(tallyOf(queue, 7)) });
  await env.DB.prepare(text)
    .bind(...params)
    .run();
  await Promise.allSettled(Array.from({ length: 4 }, () => foldTallies(probeEnv)));
  await foldTallies(probeEnv);
  expect(await sent(queue)).toBe(7);
  const hours = await env.DB.prepare("SELECT body FROM millrace_counts WHERE span = 'hour' AND instr(body, ?1) > 0")
    .bind(queue)
    .first<string>("body");
  expect(JSON.parse(hours ?? "{}").queue_messages_sent_total[JSON.stringify([queue])]).toBe(7);
});

it("metric counts that another keeper has merged are not added again by a keeper with a slow database", async () => {
  const queue = fresh("queue");
  const { text, params } = insertTally({ id: crypto.randomUUID(), at: Date.now(), body: JSON.stringify(tallyOf(queue, 7)) });
  await env.DB.prepare(text)
    .bind(...params)
    .run();
  let reads = 0;
  const slow = {
    prepare: (statement: string) => env.DB.prepare(statement),
    async batch(statements: D1PreparedStatement[]) {
      if (++reads === 2) await foldTallies(probeEnv);
      return env.DB.batch(statements);
    },
  };
  await Promise.allSettled([foldTallies({ DB: slow as unknown as D1Database })]);
  expect(reads).toBeGreaterThan(1);
  expect(await sent(queue)).toBe(7);
});

it("a metric has a limited number of time series; each further label is counted as other", () => {
  const tally: Tally = {};
  for (let queue = 0; queue < MAX_SERIES + 10; queue++) addCount(tally, "queue_messages_sent_total", { queue: `made-up-${queue}` }, 1);
  const series = tally.queue_messages_sent_total ?? {};
  expect(Object.keys(series)).toHaveLength(MAX_SERIES + 1);
  expect(series['["other"]']).toBe(10);
});

it("metric counts are also written to a bound Analytics Engine dataset, and are stored although that dataset refuses them", () => {
  const points: unknown[] = [];
  const METRICS = { writeDataPoint: (point: unknown) => void points.push(point) };
  const counts = new GatheredCounts({ METRICS });
  counts.add(tallyOf("orders", 3));
  counts.along(true)?.settled(true);
  expect(points).toEqual([{ indexes: ["queue_messages_sent_total"], blobs: ["orders"], doubles: [3] }]);
  const refusing = new GatheredCounts({
    METRICS: {
      writeDataPoint: () => {
        throw new Error("No.");
      },
    },
  });
  refusing.add(tallyOf("orders"));
  refusing.along(true)?.settled(true);
  expect(refusing.isEmpty).toBe(true);
});
