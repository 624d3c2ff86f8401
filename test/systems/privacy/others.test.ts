import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { callerWith, fresh, reaches, until } from "../../api/client.ts";
import { settled } from "../../app/other-tenant.ts";
import { bring, callsSince, contactOf, lastCall, linkOf, recordsOf, synced, theCrm } from "../crm/crm.ts";
import { placesOf } from "./everything.ts";
import { unhurried } from "./unhurried.ts";

it("data of an erased person in other contacts, the CRM, exports and a brand's agent is rewritten, and no sync restores it or reports a change", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const caller = await callerWith();
  const word = fresh("q").replaceAll("-", "");
  const person = {
    contact_id: `cust-${word}`,
    email: `ada.${word}@example.com`,
    name: `Ada Quill${word}`,
    properties: { phone: `+44 20 ${word}` },
  };
  const words = [person.contact_id, person.email, `quill${word}`];
  const office = { phone: person.properties.phone };
  const neighbour = {
    contact_id: `next-${word.slice(0, 6)}`,
    email: `next.${word.slice(0, 6)}@example.com`,
    name: "Nora Next",
    properties: { ...office, referred_by: person.email, partner: person.name, jobtitle: `Assistant of ${person.name}`, floor: 4 },
  };
  await bring(caller, [person, neighbour]);
  await synced(caller);
  // In the CRM a user has added to the text, without a webhook so far.
  const { crm_id: crmId } = await linkOf(caller, neighbour.contact_id);
  await theCrm().edit(crmId, { jobtitle: `Assistant of ${person.name} since May`, city: `Paris, with ${person.name}` });
  const exports = ["csv", "jsonl"].map((format) => ({ operation: "export", dataset: "contacts", format, batch_id: fresh("b") }));
  for (const one of exports) expect((await caller.post("/v1/batches", one)).status).toBe(202);
  const cycle = {
    type: "brand.cycle",
    payload: { brand: "acme", cycle: "first", keywords: ["tea"] },
    correlation_id: `for ${person.email}`,
  };
  const planned = (await caller.post("/v1/commands", cycle)).body.instance_id;
  await reaches(caller, planned, "complete");
  await until(
    async () => Promise.all(exports.map(async ({ batch_id }) => (await caller.get(`/v1/batches/${batch_id}`)).body.state)),
    (states) => states.every((state) => state === "complete"),
  );
  await settled(caller.tenantId);
  const before = await contactOf(caller, neighbour.contact_id);

  const asked = await caller.post("/v1/contacts/forget", { contact_id: person.contact_id, reason: "asked" });
  await reaches(caller, asked.body.instance_id, "complete");
  expect(await placesOf(words)).toEqual([]);

  const said = { ...office, referred_by: "[forgotten]", partner: "[forgotten]", jobtitle: "Assistant of [forgotten]", floor: 4 };
  const after = await contactOf(caller, neighbour.contact_id);
  expect(after, "the phone of an office is its own").toMatchObject({ properties: said, revision: before.revision + 1 });
  const record = (await recordsOf(caller)).get(neighbour.contact_id);
  expect(record?.properties).toMatchObject({
    jobtitle: `${said.jobtitle} since May`,
    city: "Paris, with [forgotten]",
    phone: office.phone,
  });
  expect(await linkOf(caller, neighbour.contact_id)).toMatchObject({ state: "linked", crm_id: crmId, pending: false });

  // A sync of changes sends nothing, and a sync of all contacts imports the user's addition.
  const calls = await lastCall();
  await synced(caller);
  expect(await callsSince(calls)).toEqual([]);
  await synced(caller, "all");
  await settled(caller.tenantId);
  const { jobtitle, city } = record?.properties ?? {};
  expect(await contactOf(caller, neighbour.contact_id)).toMatchObject({ properties: { ...said, jobtitle, city } });
  expect((await recordsOf(caller)).get(neighbour.contact_id)).toEqual(record);

  for (const { batch_id } of exports) {
    const { objects } = await env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/${batch_id}/result/` });
    const text = await Promise.all(objects.map(async ({ key }) => (await env.PAYLOADS.get(key))?.text()));
    expect(text.join("")).toContain(neighbour.contact_id);
    expect(text.join("")).toContain("Assistant of [forgotten]");
  }
  expect(await placesOf(words)).toEqual([]);
});
