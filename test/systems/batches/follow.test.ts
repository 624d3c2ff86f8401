import { env } from "cloudflare:workers";
import { tokens } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, send, until } from "../../api/client.ts";
import { completed, contactsCsv, upload } from "./batch.ts";
import { holdAt } from "./hold.ts";

describe("A follower of a batch", () => {
  it.each(["revoked", "expired"])("a follower of a batch gets no further events once the token is %s", async (gone) => {
    const caller = await callerWith();
    const held = holdAt("c1");
    const { batch_id: id } = (await upload(caller, contactsCsv(3))).body;
    await until(
      async () => held.attempts(),
      (attempts) => attempts > 0,
    );
    const expiresAt = gone === "expired" ? Date.now() + 3000 : undefined;
    const token = await tokens.mint(env, { tenantId: caller.tenantId, actor: "eve", scopes: ["read"], expiresAt });
    const follow = () => send(`/v1/batches/${id}/stream`, { headers: { authorization: `Bearer ${token}` } });
    const [{ status, body }] = await Promise.all([
      follow(),
      scheduler
        .wait(500)
        .then(
          () =>
            gone === "revoked" && tokens.revoke(env, { tenantId: caller.tenantId, actor: "ada" }, token.split("_")[1] ?? "", "she left"),
        ),
    ]);
    expect([status, body]).toEqual([200, expect.stringContaining("event: progress")]);
    expect(body).not.toContain("event: end");
    expectProblem(await follow(), 401, "unauthorized");
  });

  it("a follower of a batch can start sixty times a minute, and the error states that starts are limited", async () => {
    const caller = await callerWith();
    const { batch_id: id } = await completed(caller, contactsCsv(1));
    for (let n = 0; n < 60; n++) expect([n, (await caller.get(`/v1/batches/${id}/stream`)).status]).toEqual([n, 200]);
    const refused = expectProblem(await caller.get(`/v1/batches/${id}/stream`), 429, "rate_limited");
    expect(refused.detail).toMatch(/begins at most 60 streams a minute/);
  });

  it("a request for headers only is not counted as a follower of a batch", async () => {
    const caller = await callerWith();
    const { batch_id: id } = await completed(caller, contactsCsv(1));
    for (let n = 0; n < 65; n++) {
      const { status, headers } = await caller.call("HEAD", `/v1/batches/${id}/stream`);
      expect([status, headers.get("content-type")]).toEqual([200, "text/event-stream"]);
    }
    expect((await caller.get(`/v1/batches/${id}/stream`)).status).toBe(200);
  });
});
