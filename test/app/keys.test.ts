import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it } from "vitest";
import { keyPart } from "../../src/messages/key-part.ts";
import { callerWith, fresh } from "../api/client.ts";
import { cycle, decided, stands, verdicts } from "../systems/brand/brand.ts";

it("cycles and keywords that contain a slash do not collide: two jobs remain two jobs, and both lead to an article", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100 });
  await decided(caller, await cycle(caller, { brand, cycle: "2026/40", keywords: ["milk"] }));
  await decided(caller, await cycle(caller, { brand, cycle: "2026", keywords: ["40/milk"] }));
  expect(await verdicts(caller, brand)).toEqual(["milk requested", "40/milk requested"]);
  await stands(caller, brand, { live: 2 });
  const { results } = await env.DB.prepare(
    "SELECT idempotency_key AS key FROM millrace_instances WHERE tenant_id = ?1 AND workflow = 'research-keyword' ORDER BY key",
  )
    .bind(caller.tenantId)
    .all();
  // A cycle without a slash is unchanged in the key.
  expect(results).toEqual([{ key: `${brand}/2026%2F40/milk` }, { key: `${brand}/2026/40/milk` }]);
});

it("an account and an occasion that contain a slash do not collide either", async () => {
  const caller = await callerWith();
  const asked = [
    { account: "embedded/62515", occasion: "moved" },
    { account: "embedded", occasion: "62515/moved" },
  ].map((payload) => caller.post("/v1/commands", { type: "crm.adopt_account", payload }));
  const answers = await Promise.all(asked);
  expect(answers.map(({ status }) => status)).toEqual([202, 202]);
  expect(new Set(answers.map(({ body }) => body.instance_id))).toHaveProperty("size", 2);
});

it("a part of a key contains no slash, and two different texts have different parts", () => {
  const text = fc.array(fc.constantFrom("a", "/", "%", "%2F", "%25", "2", "5", "F")).map((parts) => parts.join(""));
  fc.assert(
    fc.property(text, text, (one, other) => {
      expect(keyPart(one)).not.toContain("/");
      expect(keyPart(one) === keyPart(other)).toBe(one === other);
    }),
  );
});
