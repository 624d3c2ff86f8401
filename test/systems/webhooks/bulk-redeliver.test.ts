import { expect, it } from "vitest";
import { callerWith, type Json, until } from "../../api/client.ts";
import { endpoint, outcome, received } from "./hook.ts";

const many = { verb: "redeliver", reason: "the shop has lost an hour", rate_per_second: 50, ramp: [1] };

it("a bulk redelivery repeats an endpoint's deliveries of a period, each once, and none of other endpoints", async () => {
  const caller = await callerWith();
  const [one, other] = [await endpoint(caller), await endpoint(caller)];
  for (let n = 0; n < 3; n++) await outcome(caller.tenantId);
  for (const { path } of [one, other]) {
    await until(
      async () => (await caller.get(`${path}/deliveries?state=sent`)).body.items as Json[],
      (items) => items.length === 3,
    );
  }
  const between = new Date().toISOString();
  await outcome(caller.tenantId);
  await received(one.hook, 4);
  const filter = { endpoint_id: one.id, until: between };
  const plan = await caller.post("/v1/bulk-actions", { ...many, filter, dry_run: true });
  expect(plan).toMatchObject({ status: 200, body: { matched: 3, stages: [1, 2] } });
  const { status, body } = await caller.post("/v1/bulk-actions", { ...many, filter });
  expect({ status, ...body }).toMatchObject({ status: 202, matched: 3 });
  const end = await until(
    async () => (await caller.get(`/v1/bulk-actions/${body.id}`)).body,
    ({ state }) => state !== "running",
  );
  expect(end).toMatchObject({ state: "complete", done: 3, skipped: 0, failed: 0, remaining: 0 });
  const sent = Map.groupBy(await received(one.hook, 7), ({ id }) => id);
  expect([...sent.values()].map((all) => all.length).toSorted()).toEqual([1, 2, 2, 2]);
  expect(await received(other.hook)).toHaveLength(4);
  const audit = (await caller.get("/v1/audit")).body.items.filter(({ verb }: Json) => verb === "redeliver");
  expect(audit).toHaveLength(3);
  expect(audit).toMatchObject([1, 2, 3].map(() => ({ target: one.id, detail: { bulk: body.id } })));
});

it("a bulk redelivery fails for a deleted delivery, and for a delivery of another tenant, without affecting the others", async () => {
  const caller = await callerWith();
  const stranger = await callerWith();
  const theirs = await endpoint(stranger);
  await outcome(stranger.tenantId);
  const { id } = await theirs.delivery("sent");
  const ids = [id, "none"];
  const plan = await caller.post("/v1/bulk-actions", { ...many, ids, dry_run: true });
  expect(plan.body.sample).toMatchObject(ids.map((one) => ({ id: one, refused: `There is no delivery ${one}.` })));
  const { body } = await caller.post("/v1/bulk-actions", { ...many, ids, stop_at_error_rate: 1 });
  const end = await until(
    async () => (await caller.get(`/v1/bulk-actions/${body.id}`)).body,
    ({ state }) => state !== "running",
  );
  expect(end).toMatchObject({ state: "complete", failed: 2, done: 0 });
  const { items } = (await caller.get(`/v1/bulk-actions/${body.id}/items?result=failed`)).body;
  expect(items).toMatchObject([1, 2].map(() => ({ code: "delivery_not_found" })));
  expect(await received(theirs.hook)).toHaveLength(1);
});
