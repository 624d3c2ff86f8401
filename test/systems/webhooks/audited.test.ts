import { expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json } from "../../api/client.ts";
import { endpoint, hookUrl } from "./hook.ts";

it("every change of a webhook is one row of the audit, with its actor and its new state, and without its secrets", async () => {
  const caller = await callerWith();
  const { path, id, secret, hook } = await endpoint(caller);
  const url = `${hookUrl(hook)}?key=only-for-the-receiver`;
  const did = [
    await caller.call("PUT", path, { version: 1, url, fact_types: ["charge"], enabled: false }),
    await caller.post(`${path}/enable`, { version: 2 }),
    await caller.post(`${path}/rotate`, { overlap_seconds: 60 }),
    await caller.post(`${path}/secrets/1/end`, {}),
    await caller.post(`${path}/secrets/1/end`, {}),
    await caller.call("DELETE", path),
  ];
  expect(did.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);

  const { items } = (await caller.get("/v1/audit")).body;
  const { host } = new URL(url);
  expect(items.map(({ verb, result, detail }: Json) => ({ verb, result, detail })).reverse()).toEqual([
    { verb: "register", result: "applied", detail: { host, fact_types: ["outcome"], state: "enabled" } },
    { verb: "change", result: "applied", detail: { version: 2, host, fact_types: ["charge"], state: "disabled" } },
    { verb: "enable", result: "applied", detail: { version: 3, host, fact_types: ["charge"], state: "enabled" } },
    { verb: "rotate", result: "applied", detail: { overlap_seconds: 60 } },
    { verb: "end_secret", result: "applied", detail: { generation: 1 } },
    { verb: "end_secret", result: "no_change", detail: { generation: 1 } },
    { verb: "delete", result: "applied", detail: { version: 4, host, fact_types: ["charge"], state: "deleted" } },
  ]);
  for (const item of items) expect(item).toMatchObject({ actor: "ada", target: id, instance_id: null });
  const told = JSON.stringify(items);
  for (const unsaid of [secret, did[2]?.body.secret, "only-for-the-receiver"]) expect(told).not.toContain(unsaid);
});

it("a change of a deleted webhook, or of an old version of one, is refused, and is one audit row", async () => {
  const caller = await callerWith();
  const { path, id, hook } = await endpoint(caller);
  await caller.call("PUT", path, { version: 1, url: hookUrl(hook), fact_types: ["charge"], enabled: false });
  expectProblem(await caller.post(`${path}/enable`, { version: 1 }), 409, "invalid_transition");
  expect((await caller.call("DELETE", path)).status).toBe(200);
  expectProblem(await caller.call("DELETE", path), 409, "invalid_transition");
  expectProblem(await caller.post(`${path}/rotate`, { overlap_seconds: 60 }), 409, "invalid_transition");
  const { items } = (await caller.get("/v1/audit")).body;
  expect(items.map(({ verb, target, result }: Json) => [verb, target, result]).reverse()).toEqual([
    ["register", id, "applied"],
    ["change", id, "applied"],
    ["enable", id, "no_change"],
    ["delete", id, "applied"],
    ["delete", id, "no_change"],
    ["rotate", id, "no_change"],
  ]);
});

it("a refused request, also for another tenant, is an audit row of its caller only", async () => {
  const [caller, other] = await Promise.all([callerWith(), callerWith()]);
  const { path, hook } = await endpoint(caller);
  const config = { url: hookUrl(hook), fact_types: ["outcome"] };
  expectProblem(await caller.call("PUT", path, { version: 7, ...config }), 409, "invalid_transition");
  expectProblem(await caller.post("/v1/webhooks", { ...config, url: "https://169.254.169.254/" }), 422, "invalid_payload");
  for (const act of [
    () => other.call("PUT", path, { version: 1, ...config }),
    () => other.post(`${path}/enable`, { version: 1 }),
    () => other.post(`${path}/rotate`, {}),
    () => other.post(`${path}/secrets/1/end`, {}),
    () => other.call("DELETE", path),
    () => other.post(`/v1/webhooks/${fresh("none")}/rotate`, {}),
  ]) {
    expectProblem(await act(), 404, "webhook_not_found");
  }
  const told = async (by: typeof caller) => (await by.get("/v1/audit")).body.items.map(({ result, detail }: Json) => [result, detail.code]);
  expect(new Set((await told(other)).map(String))).toEqual(new Set(["refused,webhook_not_found"]));
  expect((await told(caller)).reverse()).toEqual([
    ["applied", undefined],
    ["refused", "invalid_transition"],
    ["refused", "invalid_payload"],
  ]);
});
