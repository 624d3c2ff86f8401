import { query, sql } from "millrace";
import { describe, expect, it, vi } from "vitest";
import { findArchived } from "../../../packages/millrace/src/archive/read.ts";
import { callerWith, expectProblem, type Json } from "../../api/client.ts";
import { fresh, probeEnv } from "../harness.ts";
import { reader } from "../inspect/told.ts";
import { archive, count, rowOf, run } from "./aged.ts";

describe("A read of an archived instance", () => {
  it("an archived instance with megabytes of entries is read", async () => {
    const id = await rowOf("complete", 31);
    await run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
       INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, output, updated_at)
       SELECT ?1, 'l' || i, i, 'commit', 'done', 1, 't', json_quote(hex(zeroblob(200000))), 1 FROM n`,
      id,
    );
    await archive();
    const by = await reader();
    const { body } = await by.get(`/v1/instances/${id}/effects`);
    expect(body.items.map(({ output }: Json) => output?.length ?? null)).toEqual([null, ...Array.from({ length: 12 }, () => 400_000)]);
    for (const path of ["", "/steps", "/record", "/events"]) expect((await by.get(`/v1/instances/${id}${path}`)).status).toBe(200);
  });

  it("a column that a migration adds after the move, and after a read, is NULL in archived rows", async () => {
    const id = await rowOf("complete", 31);
    await archive();
    expect((await (await reader()).get(`/v1/instances/${id}`)).status).toBe(200);
    await run("ALTER TABLE millrace_waits ADD COLUMN added TEXT NOT NULL DEFAULT 'x'");
    try {
      const found = await findArchived(probeEnv, { tenantId: "acme" }, id);
      const statement = sql`SELECT i.id, w.added FROM millrace_instances i LEFT JOIN millrace_waits w ON w.instance_id = i.id`;
      expect(found && (await query(found.env.DB, statement))).toEqual([{ id, added: null }]);
    } finally {
      await run("ALTER TABLE millrace_waits DROP COLUMN added");
    }
  });

  it("an answer of R2 that breaks off or is damaged is a failure of R2, and the next read succeeds", async () => {
    const id = await rowOf("complete", 31);
    await archive();
    const by = await reader();
    const bucket = Object.getPrototypeOf(probeEnv.PAYLOADS) as R2Bucket;
    const real = bucket.get;
    const brokenOff = () => Promise.reject(new Error("Network connection lost."));
    const damaged = async () => new Uint8Array([0, 0, 0, 1]).buffer;
    for (const arrayBuffer of [brokenOff, damaged]) {
      const get = vi.spyOn(bucket, "get").mockImplementation(async function (this: R2Bucket, name: string, options?: R2GetOptions) {
        const object = await real.call(this, name, options as never);
        return object && (Object.assign(object, { arrayBuffer }) as never);
      } as never);
      expectProblem(await by.get(`/v1/instances/${id}`), 503, "unavailable");
      get.mockRestore();
      expect((await by.get(`/v1/instances/${id}`)).status).toBe(200);
    }
  });
});

describe("An act on an archived instance", () => {
  it.each(["retry", "undo", "restart", "run-again", "close"])("the action %s on an archived instance is refused", async (act) => {
    const id = await rowOf("complete", 31);
    await archive();
    const by = await reader();
    const key = { "idempotency-key": fresh("act") };
    for (const body of [{ reason: "r" }, { reason: "r", dry_run: true }]) {
      const { detail } = expectProblem(
        await by.post(`/v1/instances/${id}/${act}`, body, act === "run-again" ? key : {}),
        409,
        "invalid_transition",
      );
      expect(detail).toContain("is archived");
    }
    expect(await count("millrace_instances", "id = ?1", id)).toBe(0);
  });

  it("a decision on an effect or a question of an archived instance is refused", async () => {
    const id = await rowOf("complete", 31);
    const question = `${id}-${"0".repeat(16)}`;
    await archive();
    const [by, stranger] = [await reader(), await callerWith(["read", "operate"])];
    const [{ key }] = (await by.get(`/v1/instances/${id}/effects`)).body.items;
    for (const path of [`effects/${key}/confirm`, `effects/${key}/reject`, `approvals/${question}/approve`]) {
      const body = { reason: "r", ...(path.endsWith("confirm") && { output: 1 }) };
      expect(expectProblem(await by.post(`/v1/${path}`, body), 409, "invalid_transition").detail).toContain("is archived");
      expect((await stranger.post(`/v1/${path}`, body)).status).toBe(404);
    }
  });
});
