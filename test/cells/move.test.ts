import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { ids } from "millrace";
import { tokens as accessTokens } from "millrace/operate";
import { keeperRound } from "millrace/testing";
import { cellOf } from "millrace/worker";
import { beforeAll, expect, it, vi } from "vitest";
import type { Databases, Sql } from "../../packages/millrace/cli/cells/databases.ts";
import { cancelMove, moveTenant } from "../../packages/millrace/cli/cells/move.ts";
import { inCell } from "../../packages/millrace/src/contract/cells.ts";
import { cellsFor } from "../../packages/millrace/src/store/cells.ts";
import { until } from "../until.ts";
import { answer, ask, env, isPerformed, know, letter, oneIn, order, prepare, rows } from "./asked.ts";
import handler from "./worker.ts";

const tenants = Array.from({ length: 30 }, (_, index) => `mover-${index}`);
const used = new Set<string>();

beforeAll(() => prepare(tenants));

/** A tenant of the second cell that no other test uses. */
async function fresh(): Promise<string> {
  const tenant = await oneIn(
    2,
    tenants.filter((one) => !used.has(one)),
  );
  used.add(tenant);
  return tenant;
}

const run: Databases = async (cell, statements) => {
  const { DB } = inCell(env, cell);
  const answers = await DB.batch<Record<string, string | number | null>>(
    statements.map(({ text, params }) => DB.prepare(text).bind(...params)),
  );
  return answers.map(({ results }) => results);
};

let aheadMs = 0;

/** Calls a function at a time when all cached cells have expired, and all instances are older than a move. */
async function later<T>(call: () => Promise<T>): Promise<T> {
  aheadMs += 130_000;
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + aheadMs });
  try {
    return await call();
  } finally {
    vi.useRealTimers();
  }
}

/** Reads the cell of a tenant, as an isolate whose cached cell has expired. */
const forget = (tenant: string) => later(() => cellsFor(env, [tenant]).catch(() => undefined));

interface Moving {
  run?: Databases;
  wait?: (stage: string) => Promise<unknown>;
  patienceMs?: number;
}

const stageOf = async (tenant: string) =>
  (await rows<{ stage: string | null }>(env, "SELECT stage FROM millrace_cells WHERE tenant_id = ?", tenant))[0]?.stage ?? "";

async function move(tenant: string, to: number, { run: own = run, wait = async () => {}, patienceMs = 0 }: Moving = {}): Promise<void> {
  await moveTenant({
    run: own,
    tenant,
    to,
    actor: "cli/ada",
    reason: "a test",
    patienceMs,
    say: () => {},
    wait: async () => wait(await stageOf(tenant)),
  });
  await forget(tenant);
}

/** All rows of a tenant in a cell, without the audit of moves. */
async function rowsOf(tenant: string, cell: number): Promise<Record<string, unknown[]>> {
  const home = inCell(env, cell);
  const tables = await rows<{ name: string }>(
    home,
    "SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name IN ('tenant_id', 'instance_id')",
  );
  const found: Record<string, unknown[]> = {};
  for (const name of new Set(tables.map((table) => table.name))) {
    if (["millrace_cells", "millrace_moved"].includes(name)) continue;
    const where = name === "millrace_inbox" ? "instance_id IN (SELECT id FROM millrace_instances WHERE tenant_id = ?)" : "tenant_id = ?";
    const all = await rows<{ verb?: string }>(home, `SELECT * FROM ${name} WHERE ${where}`, tenant);
    const kept = all.filter(({ verb }) => verb !== "move_tenant").sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    if (kept.length > 0) found[name] = kept;
  }
  return found;
}

/** Gives a tenant of the second cell rows in many tables. */
async function lived(tenant: string): Promise<void> {
  const cell = await cellOf(env, tenant);
  for (const id of ["a", "b"]) await order(tenant, id);
  for (const id of ["a", "b"]) await isPerformed(tenant, id);
  await cell.DB.prepare("INSERT INTO probe_rows (id, kind, name) VALUES (?, 'strict', '')").bind(`strict/${tenant}/s`).run();
  await ask(tenant, "/v1/commands", { type: "strict", payload: { id: "s" } });
  const failed = ids.instance(tenant, "strict", "s");
  const status = async () => (await ask<{ status: string }>(tenant, `/v1/instances/${failed}`)).status;
  expect(await until(status, (is) => is === "errored")).toBe("errored");
  await letter(cell, `letter-of-${tenant}`);
  await cell.DB.prepare("UPDATE millrace_dead_letters SET tenant_id = ? WHERE id = ?").bind(tenant, `letter-of-${tenant}`).run();
  await cell.DB.prepare(
    `INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, changed_at, changed_by)
    VALUES (?, 'nightly', '0 0 * * *', 'UTC', 'order', '{"id":"nightly"}', 0, 'paused', 1, 'ada')`,
  )
    .bind(tenant)
    .run();
  const quiet = async () => [
    ...(await rows(cell, "SELECT id FROM millrace_outbox WHERE body->>'tenant_id' = ?", tenant)),
    ...(await rows(cell, "SELECT id FROM millrace_instances WHERE tenant_id = ? AND status NOT IN ('complete', 'errored')", tenant)),
  ];
  expect(await until(quiet, ({ length }) => length === 0)).toEqual([]);
}

/** Delivers a copy of the tenant's first message, and counts how it was settled. */
async function delivered(tenant: string): Promise<{ retried: number; acknowledged: number }> {
  const [row] = await rows<{ body: string }>(
    inCell(env, 2),
    "SELECT envelope AS body FROM millrace_instances WHERE id = ?",
    ids.instance(tenant, "order", "a"),
  );
  const messages = [{ id: "0", timestamp: new Date(), attempts: 1, body: JSON.parse(row?.body ?? "") }];
  const batch = createMessageBatch("millrace", messages);
  const ctx = createExecutionContext();
  await handler.queue?.(batch, env as never, ctx);
  const { retryMessages, explicitAcks } = await getQueueResult(batch, ctx);
  return { retried: retryMessages.length, acknowledged: explicitAcks.length };
}

it("a moved tenant has its rows, tokens, keys and audit in the new cell, works there, and is unavailable only during the move", async () => {
  const tenant = await fresh();
  await lived(tenant);
  const { token, id: tokenId } = await ask<{ token: string; id: string }>(tenant, "/v1/tokens", {
    actor: "eve",
    scopes: ["read", "enqueue"],
    reason: "a test",
  });
  know(`${tenant} as eve`, token);
  // A removed instance has only its key.
  const pruned = ids.instance(tenant, "order", "pruned");
  await inCell(env, 2)
    .DB.prepare("INSERT INTO millrace_tombstones (id, fingerprint, place) VALUES (unhex(?), x'00', unixepoch() * 1000)")
    .bind(pruned)
    .run();
  const before = await rowsOf(tenant, 2);
  expect(Object.keys(before).length).toBeGreaterThan(6);
  const seen: string[] = [];
  await move(tenant, 3, {
    async wait(stage) {
      await forget(tenant);
      const [read, write] = [
        await answer(tenant, "/v1/instances"),
        await answer(tenant, "/v1/commands", { type: "order", payload: { id: "c" } }),
      ];
      expect(Number(write.headers.get("retry-after"))).toBeGreaterThan(0);
      if (stage === "frozen") expect(await delivered(tenant)).toEqual({ retried: 1, acknowledged: 0 });
      seen.push(`${stage} ${read.status} ${write.status}`);
    },
  });
  expect(seen).toEqual(["closing 200 503", "frozen 503 503"]);
  expect((await cellOf(env, tenant)).CELL).toBe(3);
  expect(await rowsOf(tenant, 3)).toEqual(before);
  expect(await rowsOf(tenant, 2)).toEqual({});
  const { items } = await ask<{ items: { verb: string; target: string }[] }>(tenant, "/v1/audit?verb=move_tenant");
  expect(items).toMatchObject([{ verb: "move_tenant", target: tenant, before: { cell: 2 }, after: { cell: 3 } }]);

  // Keys: repeats run nothing, also the one of a removed instance with another payload.
  expect(await ask(tenant, "/v1/commands", { type: "order", payload: { id: "a" } })).toMatchObject({ replayed: true });
  expect((await answer(tenant, "/v1/commands", { type: "order", payload: { id: "pruned" } })).status).toBe(422);
  expect(await rows(inCell(env, 3), "SELECT 1 FROM millrace_instances WHERE id = ?", pruned)).toEqual([]);
  await order(tenant, "d");
  await isPerformed(tenant, "d");

  // A token with the id of the former cell is valid until its revocation in the new cell.
  expect(await ask(`${tenant} as eve`, "/v1/caller")).toMatchObject({ tenant, actor: "eve" });
  await accessTokens.revoke(await cellOf(env, tenant), { tenantId: tenant, actor: "ada" }, tokenId, "a test");
  expect((await answer(`${tenant} as eve`, "/v1/caller")).status).toBe(401);

  // A retry of a run that the former cell had created runs in the new cell.
  await later(async () => {
    await ask(tenant, `/v1/instances/${ids.instance(tenant, "strict", "s")}/retry`, { reason: "a test" });
    const written = () => rows(inCell(env, 3), "SELECT id FROM probe_rows WHERE id = ?", `strict/${tenant}/s`);
    expect(await until(written, ({ length }) => length > 0, 20_000)).toHaveLength(1);
  });
});

it("a tenant with open work does not move, and accepts commands after the refusal", async () => {
  const tenant = await fresh();
  await ask(tenant, "/v1/commands", { type: "patient", payload: { id: "p" } });
  await expect(move(tenant, 3)).rejects.toThrow("1 instances");
  await forget(tenant);
  expect(await stageOf(tenant)).toBe("");
  await order(tenant, "after");
  await isPerformed(tenant, "after");
});

class Crash extends Error {}

/** Databases that fail after the write with this number. */
function crashing(at: number): { run: Databases; writes: () => number } {
  let writes = 0;
  const isWrite = ({ text }: Sql) => !text.trimStart().startsWith("SELECT");
  return {
    writes: () => writes,
    async run(cell, statements) {
      const isDue = statements.some(isWrite) && ++writes === at;
      const answers = await run(cell, statements);
      if (isDue) throw new Crash();
      return answers;
    },
  };
}

it("a move that crashes at any write is continued, and neither loses nor changes a row", async () => {
  const tenant = await fresh();
  await lived(tenant);
  const before = await rowsOf(tenant, 2);
  let home = 2;
  let crashes = 0;
  for (let at = 1; ; at++) {
    const to = home === 2 ? 3 : 2;
    const crash = crashing(at);
    const isOver = await move(tenant, to, { run: crash.run }).then(
      () => true,
      (error) => {
        if (!(error instanceof Crash)) throw error;
        return false;
      },
    );
    if (!isOver) {
      crashes++;
      await move(tenant, to);
    }
    expect(await rowsOf(tenant, to), `write ${at}`).toEqual(before);
    expect(await rowsOf(tenant, home), `write ${at}`).toEqual({});
    home = to;
    if (isOver) break;
  }
  expect(crashes).toBeGreaterThan(20);
  await order(tenant, "last");
  await isPerformed(tenant, "last");
});

it("a move that crashes at any write before its last stage is cancelled, and leaves no copy", async () => {
  const tenant = await fresh();
  await lived(tenant);
  const before = await rowsOf(tenant, 2);
  let cancelled = 0;
  for (let at = 2; ; at++) {
    const crash = crashing(at);
    const failed = await move(tenant, 3, { run: crash.run }).then(
      () => undefined,
      (error) => error,
    );
    if (failed === undefined) break;
    const stage = await stageOf(tenant);
    if (stage === "ready" || stage === "clearing" || stage === "") {
      await expect(cancelMove(run, tenant)).rejects.toThrow(stage === "" ? "not moving" : "cannot be cancelled");
      break;
    }
    // The cancel crashes as well, and is repeated.
    await cancelMove(crashing(1 + (at % 5)).run, tenant).catch(() => undefined);
    if ((await stageOf(tenant)) !== "") await cancelMove(run, tenant);
    cancelled++;
    expect(await rowsOf(tenant, 2), `write ${at}`).toEqual(before);
    expect(await rowsOf(tenant, 3), `write ${at}`).toEqual({});
  }
  expect(cancelled).toBeGreaterThan(8);
});

it("the writes of a process that was suspended change nothing after the move has ended", async () => {
  const tenant = await fresh();
  await lived(tenant);
  const writes: [number, readonly Sql[]][] = [];
  const recorded: Databases = (cell, statements) => {
    if (statements.some(({ text }) => /^(INSERT|DELETE)/.test(text.trimStart()) && !text.includes("millrace_moved (")))
      writes.push([cell, statements]);
    return run(cell, statements);
  };
  await move(tenant, 3, { run: recorded });
  await move(tenant, 2);
  const now = await rowsOf(tenant, 2);
  for (const [cell, statements] of writes) if (cell === 2) await run(cell, statements);
  expect(await rowsOf(tenant, 2)).toEqual(now);
});

it("the database of the former cell accepts no instance of a moved tenant, and the message is delivered again", async () => {
  const tenant = await fresh();
  await order(tenant, "a");
  await isPerformed(tenant, "a");
  await move(tenant, 3);
  const former = inCell(env, 2);
  await expect(
    former.DB.prepare(
      `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint,
      envelope, status, accepted_at, updated_at) VALUES (?, ?, 'order', 'order', 'late', '', '', '', '', '{}', 'accepted', 1, 1)`,
    )
      .bind("0".repeat(32), tenant)
      .run(),
  ).rejects.toThrow("The tenant lives in another cell");
  await keeperRound(former);
});
