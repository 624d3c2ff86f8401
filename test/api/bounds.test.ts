import { env } from "cloudflare:workers";
import { bodies } from "millrace/http";
import { describe, expect, it, vi } from "vitest";
import { contactsCsv, upload } from "../systems/batches/batch.ts";
import { cycle } from "../systems/brand/brand.ts";
import { callerWith, expectProblem, fresh, reaches, send } from "./client.ts";

/** Inserts rows of a tenant into a table up to a number. Columns other than the row's number are given as SQL. */
async function fill(table: string, tenantId: string, count: number, columns: string, values: string): Promise<void> {
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
     INSERT INTO ${table} (tenant_id, ${columns}) SELECT ?1, ${values} FROM n`,
  )
    .bind(tenantId)
    .run();
}

describe("One tenant is limited to", () => {
  it("a tenant can have 1,000 brands: a further brand is refused with a reason from every source, and existing brands can still be changed", async () => {
    const caller = await callerWith();
    await fill("brands", caller.tenantId, 999, "brand", "'b' || i");
    expect((await caller.call("PUT", "/v1/brands/last", {})).status).toBe(200);
    expect(expectProblem(await caller.call("PUT", "/v1/brands/more", {}), 409, "invalid_transition").detail).toContain("1000 brands");
    expect((await caller.call("PUT", "/v1/brands/last", { max_drafts: 3 })).body.settings.max_drafts).toBe(3);
    const id = await cycle(caller, { brand: "more", cycle: "c1", keywords: ["mint"] });
    expect((await reaches(caller, id, "errored")).error).toMatchObject({
      code: "not_retryable",
      message: expect.stringContaining("1000 brands"),
    });
    expectProblem(await caller.get("/v1/brands/more/keywords"), 404, "brand_not_found");
  });

  it("a tenant can have 10,000 accounts with a limit", async () => {
    const caller = await callerWith();
    await fill("budget_accounts", caller.tenantId, 9999, "account, since_at", "'a' || i, 1");
    const put = (account: string, limit_cents: number) => caller.call("PUT", `/v1/budgets/${account}`, { limit_cents });
    expect((await put("last", 100)).status).toBe(200);
    expect(expectProblem(await put("more", 100), 409, "invalid_transition").detail).toContain("10000 accounts");
    expect((await put("last", 200)).body.limit_cents).toBe(200);
    expect((await caller.get("/v1/budgets/more")).body.limit_cents).toBeNull();
    await env.DB.prepare("DELETE FROM budget_accounts WHERE tenant_id = ?1").bind(caller.tenantId).run();
  });

  it("a tenant can have 1,000 versions of the rules", async () => {
    const caller = await callerWith();
    await fill("qualification_rules", caller.tenantId, 999, "version, effective_at, rules, created_at, who", "i, i + 1, '[]', i, 'ada'");
    const put = (expected_version: number) => caller.call("PUT", "/v1/qualification-rules", { rules: [], expected_version });
    expect((await put(999)).body.version).toBe(1000);
    // The response may have been lost: a repeat is still answered.
    expect((await put(999)).body.version).toBe(1000);
    expect(expectProblem(await put(1000), 409, "invalid_transition").detail).toContain("1000 versions");
  });

  it("a tenant can reserve 20 GiB of uploads in a day; the quota is counted before acceptance and is free again a day later", async () => {
    const caller = await callerWith();
    const hour = Math.floor(Date.now() / 3_600_000);
    const put = (hour: number, bytes: number) =>
      env.DB.prepare("INSERT OR REPLACE INTO uploads (tenant_id, hour, bytes) VALUES (?1, ?2, ?3)")
        .bind(caller.tenantId, hour, bytes)
        .run();
    const file = contactsCsv(1);
    await put(hour - 23, 20 * 1024 ** 3 - file.length);
    const id = fresh("b");
    expect((await upload(caller, file, { id })).status).toBe(202);
    const refused = await upload(caller, file);
    expect(expectProblem(refused, 429, "rate_limited").detail).toContain("20 GiB");
    expect(Number(refused.headers.get("retry-after"))).toBe(3600);
    expect((await upload(await callerWith(), file)).status).toBe(202);
    await put(hour - 23, 0);
    await put(hour - 24, 20 * 1024 ** 3);
    expect((await upload(caller, file)).status).toBe(202);
    const { results } = await env.DB.prepare("SELECT hour FROM uploads WHERE tenant_id = ?1").bind(caller.tenantId).all();
    expect(results.length).toBeLessThanOrEqual(3);
  });

  it("the upload quota holds for fifty concurrent uploads", async () => {
    const caller = await callerWith();
    const file = contactsCsv(1);
    const hour = Math.floor(Date.now() / 3_600_000);
    const room = 20 * 1024 ** 3 - 3 * file.length;
    await env.DB.prepare("INSERT INTO uploads VALUES (?1, ?2, ?3)")
      .bind(caller.tenantId, hour - 1, room)
      .run();
    const answers = await Promise.all(Array.from({ length: 50 }, () => upload(caller, file)));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(3);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(47);
  });

  it("a tenant can open 60 streams per minute; streams that have ended do not count", async () => {
    const caller = await callerWith();
    const { body } = await upload(caller, contactsCsv(1));
    await reaches(caller, body.instance_id, "complete");
    const follow = (headers = {}) =>
      send(`/v1/batches/${body.batch_id}/stream`, { headers: { authorization: `Bearer ${caller.token}`, ...headers } });
    const [, seen = ""] = /id: (.+)\nevent: end/.exec(String((await follow()).body)) ?? [];
    for (let n = 0; n < 40; n++) expect((await follow({ "last-event-id": seen })).status).toBe(204);
    for (let n = 1; n < 60; n++) expect((await follow()).status).toBe(200);
    const refused = await follow();
    expect(expectProblem(refused, 429, "rate_limited").detail).toContain("60 streams");
    const seconds = Number(refused.headers.get("retry-after"));
    expect([seconds > 0, seconds <= 65]).toEqual([true, true]);
  });
});

/** A request with an endless body, one byte at a time. */
function slowly(headers: Record<string, string> = {}): Request {
  const body = new ReadableStream({
    async pull(controller) {
      await scheduler.wait(10);
      controller.enqueue(new TextEncoder().encode(" "));
    },
  });
  return new Request("http://localhost/", { method: "POST", headers, body });
}

it("a request body of an authenticated caller must arrive within 30 seconds", () => {
  // Fake timers are limited to this place: objects of the same isolate use timers, too.
  const timer = vi.spyOn(globalThis, "setTimeout");
  const reading = bodies.text(new Request("http://localhost/", { method: "POST", body: "{}" }), 1000);
  const waits = timer.mock.calls.map(([, ms]) => ms);
  timer.mockRestore();
  expect(waits).toEqual([30_000]);
  return expect(reading).resolves.toBe("{}");
});

it("a body that exceeds its time is refused, for any interval between its bytes", async () => {
  for (const length of [undefined, "100"]) {
    const refused = await bodies
      .text(slowly(length === undefined ? {} : { "content-length": length }), 100_000, 200)
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "invalid_json", message: expect.stringContaining("0.2 s") });
  }
});

it("a body that is longer than its length and than the limit is refused", async () => {
  const request = new Request("http://localhost/", { method: "POST", headers: { "content-length": "2" }, body: " ".repeat(1001) });
  await expect(bodies.text(request, 1000)).rejects.toMatchObject({ code: "payload_too_large" });
});
