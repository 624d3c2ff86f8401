import { erasure } from "millrace/operate";
import { keeperOf } from "millrace/worker";
import { expect, it } from "vitest";
import { asking } from "../asking.ts";
import { deliver, dieAt, envelopeOf, fresh, keeperRound, probeEnv, reaches, rows, until } from "../harness.ts";
import { held } from "../lab.ts";
import { addressOf, ask, endsIn } from "./heard.ts";

it("E01 the keeper sends the callback of an ended instance once when the process dies before it stores the callback", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  let go = false;
  const id = await ask(caller, () => held(() => go), { callback_url: url });
  const death = dieAt("ended, callback not stored", id);
  go = true;
  await reaches(id, "complete");
  await until(async () => death.died(), Boolean);
  expect(await heard()).toEqual([]);
  await keeperRound();
  expect(endsIn(await heard(1))).toEqual(["1 complete"]);
  await keeperRound();
  expect(await heard()).toHaveLength(1);
});

it("E02 the keeper starts a stored callback once when the process dies before it starts the callback", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  const death = dieAt("callback stored, not started");
  const id = await ask(caller, async () => null, { callback_url: url });
  await until(async () => death.died(), Boolean);
  expect((await caller.get(`/v1/instances/${id}`)).body.callback.called).toEqual({ run: 1, status: "complete" });
  expect(await heard()).toEqual([]);
  await keeperRound();
  expect(endsIn(await heard(1))).toEqual(["1 complete"]);
  await keeperRound();
  expect(await heard()).toHaveLength(1);
});

it("an end of an instance that many callers detect at once causes one callback", async () => {
  const caller = await asking();
  const addresses = await Promise.all(Array.from({ length: 5 }, () => addressOf(caller)));
  const ids = await Promise.all(addresses.map(({ url }) => ask(caller, async () => null, { callback_url: url })));
  const keeper = keeperOf(probeEnv);
  await Promise.all([...ids.map((id) => reaches(id, "complete")), ...Array.from({ length: 10 }, () => keeper.callBack()), keeper.round()]);
  for (const { heard } of addresses) expect(endsIn(await heard(1))).toEqual(["1 complete"]);
  await keeper.round();
  for (const { heard } of addresses) expect(await heard()).toHaveLength(1);
});

it("the callback address of a command with an invalid message is called when the command is dead, and when it is discarded", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  const asked = { type: "lab.requested", payload: { name: fresh("given-up") }, callback_url: url, delay_seconds: 3600 };
  const id = (await caller.post("/v1/commands", asked)).body.instance_id;
  await deliver("probe-commands", [{ ...(await envelopeOf(id)), schema_version: 99 }]);
  expect(await reaches(id, "dead")).toBe("dead");
  await keeperRound();
  expect(endsIn(await heard(1))).toEqual(["1 dead"]);
  const [letter] = await rows<{ id: string }>(
    "SELECT id FROM millrace_dead_letters WHERE tenant_id = ?1 AND state = 'open'",
    caller.tenantId,
  );
  expect((await caller.post(`/v1/dead-letters/${letter?.id}/skip`, { reason: "not wanted" })).status).toBe(200);
  await keeperRound();
  expect(endsIn(await heard(2))).toEqual(["1 dead", "1 skipped"]);
});

it("no callback is sent for a deleted tenant", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  const id = await ask(caller, ({ step }) => step.sleep("long", "1 day"), { callback_url: url });
  await until(
    () => caller.get(`/v1/instances/${id}/steps`),
    ({ body }) => body.items.length > 0,
  );
  await erasure.stopInstances(probeEnv, caller.tenantId, "");
  expect(await reaches(id, "terminated")).toBe("terminated");
  await keeperRound();
  expect(await heard()).toEqual([]);
});
