import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { fresh } from "../harness.ts";

/** Runs of one tenant with all their records. */
const RUNS = 5000;

const COUNTED = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${RUNS})`;
const FILL = `json_object('schema_version', 1, 'message_type', 'probe.requested', 'payload_inline', printf('%0600d', i))`;

/** The bytes per row by which a statement enlarges the database. Pages that other statements have freed are reused and not counted. */
async function bytesPerRow(insert: string, ...params: unknown[]): Promise<number> {
  const before = (await env.DB.prepare("SELECT 1").run()).meta.size_after;
  const { meta } = await env.DB.prepare(`${insert} SELECT ${COLUMNS[insert]} FROM n`)
    .bind(...params)
    .run();
  return Math.round((meta.size_after - before) / RUNS);
}

const HASH = "lower(hex(randomblob(16)))";
const TOMBSTONE = `${COUNTED} INSERT INTO millrace_tombstones (id, fingerprint, place)`;
const STATED = `${COUNTED} INSERT INTO millrace_stated_events (id, fingerprint, said, stated_at)`;
const RUN = `${COUNTED} INSERT INTO millrace_instances
  (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at)`;
const ENTRY = `${COUNTED} INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, output, updated_at)`;
const EMITTED = `${COUNTED} INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, output, messages, updated_at)`;
const SIGNAL = `${COUNTED} INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at)`;
const COLUMNS: Record<string, string> = {
  [TOMBSTONE]: "randomblob(16), randomblob(6), ?1",
  [STATED]: "randomblob(16), randomblob(32), randomblob(16), ?1",
  [RUN]: `${HASH}, ?1, 'probe', 'probe.requested', ${HASH}, ${HASH}, ${HASH}, i, ${HASH} || ${HASH}, ${FILL}, 'complete', 1, 1`,
  [ENTRY]: `${HASH}, ?1, 0, 'commit', 'done', 1, ${HASH}, '{"ok":true}', 1`,
  [EMITTED]: `${HASH}, ?1, 0, 'commit', 'done', 1, ${HASH}, '{"ok":true}', json_array(json(${FILL})), 1`,
  [SIGNAL]: `${HASH}, ?1, 'probe.signal', ${HASH}, ${FILL}, 1`,
};

it("a tombstone needs at most 40 bytes in the database, and the record of an external event's key fewer than 120", async () => {
  const mark = fresh();
  const bytes = {
    instance: await bytesPerRow(RUN, mark),
    entry: await bytesPerRow(ENTRY, mark),
    entry_with_message: await bytesPerRow(EMITTED, mark),
    signal: await bytesPerRow(SIGNAL, mark),
    tombstone: await bytesPerRow(TOMBSTONE, 1_795_000_000_000),
    stated_event: await bytesPerRow(STATED, 1_767_225_600_001),
  };
  console.log(JSON.stringify({ log: "growth", bytes_per_row: bytes, runs: RUNS }));
  expect(bytes.tombstone).toBeLessThanOrEqual(40);
  expect(bytes.stated_event).toBeLessThan(120);
  await env.DB.batch([
    env.DB.prepare("DELETE FROM millrace_instances WHERE tenant_id = ?1").bind(mark),
    env.DB.prepare("DELETE FROM millrace_inbox WHERE step = ?1").bind(mark),
    env.DB.prepare("DELETE FROM millrace_signals WHERE tenant_id = ?1").bind(mark),
    env.DB.prepare("DELETE FROM millrace_tombstones WHERE place = 1795000000000"),
    env.DB.prepare("DELETE FROM millrace_stated_events WHERE stated_at = 1767225600001"),
  ]);
});
