import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { callerWith, expectProblem, until } from "../../api/client.ts";
import { endpoint, outcome, received, tell } from "./hook.ts";

describe("A rotation of a secret", () => {
  it("a rotation of a secret makes both secrets sign during the overlap, and only the new one after it", async () => {
    const caller = await callerWith();
    const { hook, id, path, secret } = await endpoint(caller);
    const rotated = await caller.post(`${path}/rotate`, {});
    expect(rotated).toMatchObject({ status: 200, body: { generation: 2, secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/) } });
    expect(rotated.body.secret).not.toBe(secret);
    await tell(hook, { secrets: [secret, rotated.body.secret] });
    await outcome(caller.tenantId);
    expect(await received(hook, 1)).toMatchObject([{ verified: [true, true], signatures: [expect.any(String), expect.any(String)] }]);
    const { items } = (await caller.get(`${path}/secrets`)).body;
    expect(items).toMatchObject([
      { generation: 2, valid_until: null },
      { generation: 1, valid_until: expect.any(String) },
    ]);
    expect(Date.parse(items[1].valid_until) - Date.now()).toBeGreaterThan(86_000_000);

    await env.DB.prepare("UPDATE webhook_secrets SET valid_until = 1 WHERE endpoint_id = ?1 AND generation = 1").bind(id).run();
    await outcome(caller.tenantId);
    expect((await received(hook, 2))[1]).toMatchObject({ verified: [false, true], signatures: [expect.any(String)] });
    expect((await caller.get(`${path}/secrets`)).body.items).toMatchObject([{ generation: 2 }]);
  });

  it("a rotation without an overlap ends the old secret at once", async () => {
    const caller = await callerWith();
    const { hook, path, secret } = await endpoint(caller);
    const { body } = await caller.post(`${path}/rotate`, { overlap_seconds: 0 });
    await tell(hook, { secrets: [secret, body.secret] });
    await outcome(caller.tenantId);
    expect(await received(hook, 1)).toMatchObject([{ verified: [false, true] }]);
  });

  it("a rotation that is requested twice keeps the first secret signing, up to five secrets at once", async () => {
    const caller = await callerWith();
    const { hook, path, secret } = await endpoint(caller);
    for (let generation = 2; generation <= 5; generation++) {
      expect((await caller.post(`${path}/rotate`, {})).body).toMatchObject({ generation });
    }
    expect(await caller.post(`${path}/rotate`, {})).toMatchObject({ status: 409, body: { code: "invalid_transition" } });
    await outcome(caller.tenantId);
    expect(await received(hook, 1)).toMatchObject([{ verified: [true], signatures: { length: 5 } }]);
    expect(secret).toMatch(/^whsec_/);
  });

  it("a rotation leaves an older secret its overlap, which can be ended at once by its generation; the newest secret cannot be ended", async () => {
    const caller = await callerWith();
    const { hook, path, secret } = await endpoint(caller);
    const second = (await caller.post(`${path}/rotate`, {})).body.secret;
    const third = (await caller.post(`${path}/rotate`, {})).body.secret;
    await tell(hook, { secrets: [secret, second, third] });
    for (const _ of ["asked", "repeated"]) {
      const { status, body } = await caller.post(`${path}/secrets/1/end`, {});
      expect({ status, body }).toMatchObject({ status: 200, body: { items: [{ generation: 3 }, { generation: 2 }] } });
    }
    expect((await caller.get(`${path}/secrets`)).body.items).toMatchObject([{ generation: 3 }, { generation: 2 }]);
    await outcome(caller.tenantId);
    expect(await received(hook, 1)).toMatchObject([{ verified: [false, true, true] }]);
    for (const [generation, said] of [
      [3, "rotate with overlap_seconds 0"],
      [4, "does not exist"],
    ] as const) {
      const answer = await caller.post(`${path}/secrets/${generation}/end`, {});
      expect(expectProblem(answer, 409, "invalid_transition").detail).toContain(said);
    }
    expectProblem(await (await callerWith()).post(`${path}/secrets/1/end`, {}), 404, "webhook_not_found");
  });

  it.each(["0x1", "1.0", "%201", "1%20", "1e0", "01", "+1", "-1", "0", "1x", "9".repeat(17)])(
    "a secret is not ended by %s, which is not a generation",
    async (generation) => {
      const caller = await callerWith();
      const { path } = await endpoint(caller);
      await caller.post(`${path}/rotate`, {});
      expectProblem(await caller.post(`${path}/secrets/${generation}/end`, {}), 422, "invalid_payload");
      expect((await caller.get(`${path}/secrets`)).body.items).toMatchObject([{ generation: 2 }, { generation: 1 }]);
    },
  );

  it("a rotation with an overlap of more than a week is refused", async () => {
    const caller = await callerWith();
    const { path } = await endpoint(caller);
    const { status, body } = await caller.post(`${path}/rotate`, { overlap_seconds: 7 * 86_400 + 1 });
    expect({ status, body }).toMatchObject({ status: 422, body: { issues: [{ path: "overlap_seconds" }] } });
  });
});

it("an endpoint's secret is in one response only, and never in D1, the logs or another response", async () => {
  const logged: unknown[][] = [];
  for (const method of ["log", "info", "warn", "error", "debug"] as const) {
    vi.spyOn(console, method).mockImplementation((...words) => void logged.push(words));
  }
  const caller = await callerWith();
  const { hook, path, secret, delivery } = await endpoint(caller);
  const { body: rotated } = await caller.post(`${path}/rotate`, {});
  await tell(hook, { treatments: [{ status: 429, headers: { "retry-after": "1" }, times: 1 }] });
  await outcome(caller.tenantId);
  const { id } = await delivery("sent");
  await until(
    async () => (await caller.get(`/v1/instances/${id}/steps`)).body.items,
    (steps) => steps?.[0]?.state === "complete",
  );
  const paths = [path, "/v1/webhooks", `${path}/secrets`, `${path}/deliveries`, `${path}/deliveries/${id}`];
  const about = [`/v1/instances/${id}`, ...["steps", "effects", "events?payload=true"].map((part) => `/v1/instances/${id}/${part}`)];
  const answers = await Promise.all([...paths, ...about].map((one) => caller.get(one)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));

  const { results: tables } = await env.DB.prepare(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%\\_cf\\_%' ESCAPE '\\'",
  ).all<{
    name: string;
  }>();
  const rows = await Promise.all(tables.map(({ name }) => env.DB.prepare(`SELECT * FROM "${name}"`).all()));
  const kept = JSON.stringify([rows.map(({ results }) => results), answers.map(({ body }) => body), logged]);
  expect(kept).toContain(id);
  for (const one of [secret, rotated.secret]) {
    const [bare] = [one.replace("whsec_", "")];
    expect(kept).not.toContain(bare);
    expect(kept).not.toContain(Buffer.from(bare, "base64").toString("hex"));
  }
  vi.restoreAllMocks();
});
