import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { crm } from "../../src/providers/index.ts";

describe("crm", () => {
  it("creates, updates and reads", async () => {
    const one = await crm(env).upsert("contacts", [{ key: "a", properties: { email: "a@example.com" } }], { key: "k" });
    console.log(one);
    console.log(await crm(env).read([one[0]?.state === "done" ? one[0].crmId : ""], ["email"], { key: "k" }));
    expect(one).toMatchObject([{ state: "done", created: true }]);
  });
});
