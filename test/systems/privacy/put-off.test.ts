import { expect, it } from "vitest";
import { callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { bring } from "../crm/crm.ts";
import { endpoint, outcome, received, tell } from "../webhooks/hook.ts";
import { placesOf } from "./everything.ts";
import { unhurried } from "./unhurried.ts";

it("a delivery that names an erased person and waits for a disabled endpoint ends with the reason; a redelivery has a pseudonym", {
  timeout: 180_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const word = fresh("q").replaceAll("-", "");
  const person = { contact_id: `cust-${word}`, email: `ada.${word}@example.com`, name: `Ada Quill${word}` };
  await bring(caller, [person]);
  const hook = await endpoint(caller);
  await tell(hook.hook, { treatments: [{ status: 429, headers: { "retry-after": "1" }, times: 2 }] });
  const said = (who: string) =>
    outcome(caller.tenantId, { payload: { account: "a1", value_cents: 1200, note: `said by ${who}` } } as object);
  const [theirs, other] = [await said(person.email), await said("somebody else")];
  await received(hook.hook, 2);
  const { url } = (await caller.get(hook.path)).body;
  const off = await caller.call("PUT", hook.path, { version: 1, url, fact_types: ["outcome"], enabled: false });
  expect(off.status).toBe(200);
  const deliveries = async () => {
    const { items } = (await caller.get(`${hook.path}/deliveries`)).body;
    return new Map<string, Json>(items.map((one: Json) => [one.fact_id, one]));
  };
  const waiting = () => caller.get("/v1/instances?workflow=deliver-webhook&status=waiting");
  await until(waiting, ({ body }) => body.items.length === 2);

  const ask = { contact_id: person.contact_id, reason: "asked" };
  expect((await caller.post("/v1/contacts/forget", { ...ask, dry_run: true })).body.found).toMatchObject({ "deliveries put off": 1 });
  const { instance_id } = (await caller.post("/v1/contacts/forget", ask)).body;
  await reaches(caller, instance_id, "complete");
  expect(await placesOf([person.contact_id, person.email, `quill${word}`])).toEqual([]);
  const ended = (await deliveries()).get(theirs.fact_id);
  expect(ended).toMatchObject({ state: "skipped" });
  expect((await deliveries()).get(other.fact_id)).toMatchObject({ state: "pending" });
  const ledger = `entity=${encodeURIComponent(`webhook/${hook.id}`)}`;
  const facts = async () =>
    (await caller.get(`/v1/facts?${ledger}&limit=100`)).body.items.filter(({ type }: Json) => type === "webhook_failed");
  const [failed] = await until(facts, (found) => found.length > 0);
  expect(failed.payload).toMatchObject({
    delivery_id: ended.id,
    reason: expect.stringContaining("erased while the endpoint was disabled"),
  });
  const audited = (await caller.get("/v1/audit")).body.items.find(({ verb }: Json) => verb === "forget");
  expect(audited.detail.removed).toMatchObject({ "deliveries put off": 1 });

  expect((await caller.post(`${hook.path}/enable`, { version: 2 })).status).toBe(200);
  expect((await received(hook.hook, 3)).at(-1)?.body).toContain("somebody else");
  expect((await caller.post(`${hook.path}/deliveries/${ended.id}/redeliver`, { reason: "it is on" })).status).toBe(202);
  expect((await received(hook.hook, 4)).at(-1)?.body).toContain("said by [forgotten]");
});
