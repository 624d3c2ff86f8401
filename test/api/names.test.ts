import { describe, expect, it } from "vitest";
import { callerWith, expectProblem } from "./client.ts";
import { seedInstance, seedLetter } from "./seed.ts";

describe("A list filtered by a name", () => {
  it.each([
    ["/v1/instances?workflow=publish-artcle", "workflow", "publish-article"],
    ["/v1/approvals?workflow=publish_article", "workflow", "publish-article"],
    ["/v1/dead-letters?queue=publish-comands", "queue", "publish-commands"],
    ["/v1/dead-letters?reason=invalid_paylod", "reason", "invalid_payload"],
    ["/v1/dead-letters?reason=exausted", "reason", "exhausted"],
    ["/v1/dead-letters?queue=publish-commands&reason=invalid_paylod", "reason", "invalid_payload"],
  ])("a list filtered by a name that no item has is refused with the most similar name: %s", async (path, filter, meant) => {
    const { issues } = expectProblem(await (await callerWith()).get(path), 422, "invalid_payload");
    expect(issues).toEqual([{ path: filter, message: `is not known here: perhaps \`${meant}\` is meant` }]);
  });

  it("a filter name that resembles none is refused without a suggestion", async () => {
    const { issues } = expectProblem(await (await callerWith()).get("/v1/instances?workflow=zzzzzzzzzz"), 422, "invalid_payload");
    expect(issues).toEqual([{ path: "workflow", message: "is not known here" }]);
  });

  it("a filter by an existing name is empty when there is no item, also for an error code of the app", async () => {
    const caller = await callerWith();
    for (const path of [
      "/v1/instances?workflow=audit-brand",
      "/v1/dead-letters?queue=batch&reason=exhausted",
      "/v1/dead-letters?reason=article_not_found",
    ])
      expect((await caller.get(path)).body, path).toEqual({ items: [], next_cursor: null });
  });

  it("a filter by a type that was removed from the catalog is answered while rows of it exist", async () => {
    const caller = await callerWith();
    const id = await seedInstance(caller.tenantId, { workflow: "gone-since" });
    const letter = await seedLetter(caller.tenantId, { queue: "gone-commands", reason: "gone_code" });
    expect((await caller.get("/v1/instances?workflow=gone-since")).body.items).toMatchObject([{ id }]);
    expect((await caller.get("/v1/dead-letters?queue=gone-commands&reason=gone_code")).body.items).toMatchObject([{ id: letter }]);
  });
});
