import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { callerWith, fresh, until } from "../../api/client.ts";
import { bring, callsSince, command, ended, lastCall, linkOf, people, recordsOf, synced, theCrm } from "./crm.ts";

it("a sync sends every contact to the CRM once, with its company, a hundred in each call, and reports that", async () => {
  const caller = await callerWith();
  const rows = people(caller, 250).map((row, index) => ({
    ...row,
    properties: { company: index % 2 ? "Acme" : " acme ", phone: `+${index}` },
  }));
  await bring(caller, rows);
  const before = await lastCall();
  const sync = await synced(caller);
  expect(sync).toMatchObject({
    state: "complete",
    contacts: { done: 250, failed: 0, waiting: 0, skipped: 0, merged: 0, taken: 0 },
    chunks: 3,
    error: null,
  });
  expect((await callsSince(before)).sort()).toEqual(
    [
      "batch/upsert 100",
      "batch/upsert 100",
      "batch/upsert 50",
      "batch/upsert 1",
      "batch/upsert 1",
      "batch/upsert 1",
      "associate/default 100",
      "associate/default 100",
      "associate/default 50",
    ].sort(),
  );

  const records = await recordsOf(caller);
  expect(records.size).toBe(250);
  expect(records.get("c0007")?.properties).toMatchObject({
    email: rows[7]?.email,
    firstname: "Person",
    lastname: "c0007",
    phone: "+7",
    company: "Acme",
  });
  const companies = (await theCrm().list("companies")).filter(({ key }) => key === `${caller.tenantId}/acme`);
  expect(companies).toHaveLength(1);
  const ids = new Set([...records.values()].map(({ id }) => id));
  expect((await theCrm().associations()).filter(({ contact }) => ids.has(contact))).toHaveLength(250);
  expect(await linkOf(caller, "c0007")).toMatchObject({
    crm_id: records.get("c0007")?.id,
    state: "linked",
    revision: 1,
    synced_revision: 1,
    pending: false,
  });

  const events = await env.DB.prepare("SELECT messages FROM millrace_inbox WHERE instance_id = ?1")
    .bind(sync.instance_id)
    .all<{ messages: string }>();
  const said = events.results.flatMap(
    ({ messages }) => JSON.parse(messages) as { message_type: string; payload_inline: { contact_id: string } }[],
  );
  expect(new Set(said.map(({ message_type: type, payload_inline: { contact_id: id } }) => `${type} ${id}`)).size).toBe(250);
});

it("a CRM sync sends nothing for unchanged contacts, and only the changed properties of others", async () => {
  const caller = await callerWith();
  const rows = people(caller, 30);
  await bring(caller, rows);
  await synced(caller);
  // The same file once more: every row is written again, without a change.
  await bring(caller, rows);
  let before = await lastCall();
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, skipped: 30 });
  expect((await synced(caller)).contacts).toMatchObject({ done: 0, skipped: 0 });
  expect(await callsSince(before)).toEqual([]);

  const [first] = rows as [(typeof rows)[0]];
  const id = (await recordsOf(caller)).get("c0000")?.id ?? "";
  await theCrm().edit(id, { phone: "by hand" });
  await bring(caller, [{ ...first, name: "Ada Lovelace" }]);
  before = await lastCall();
  expect((await synced(caller)).contacts).toMatchObject({ done: 1, taken: 1 });
  expect(await callsSince(before)).toEqual(["batch/read 1", "batch/upsert 1"]);
  expect((await recordsOf(caller)).get("c0000")?.properties).toMatchObject({ firstname: "Ada", lastname: "Lovelace", phone: "by hand" });
});

it("two commands with one name of a CRM sync are one sync, and another command cannot use that name", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 3));
  const id = fresh("s");
  const first = await synced(caller, "changed", id);
  expect(await synced(caller, "changed", id)).toEqual(first);
  const { body } = await caller.post("/v1/commands", { type: "contacts.sync", payload: { sync_id: id } }, { "idempotency-key": "another" });
  const { body: stopped } = await until(
    () => caller.get(`/v1/instances/${body.instance_id}`),
    ({ body }) => body.status === "errored",
  );
  expect(stopped.error.message).toContain("give each sync a new name");
  expect((await caller.get(`/v1/crm/syncs/${id}`)).body).toEqual(first);
});

it("a recreated CRM record has no state of the earlier one: a property that was cleared with the earlier record and then restored is sent", async () => {
  const caller = await callerWith();
  const change = (name: string, phone: string) =>
    bring(
      caller,
      people(caller, 1).map((row) => ({ ...row, name, properties: { phone } })),
    );
  await change("Ada King", "5");
  await synced(caller);
  await theCrm().edit((await recordsOf(caller)).get("c0000")?.id ?? "", null);
  await change("Ada", "");
  await ended(caller, await command(caller, "contact.sync", { contact_id: "c0000", occasion: "1" }));
  await change("Ada King", "5");
  await synced(caller);
  expect((await recordsOf(caller)).get("c0000")?.properties).toMatchObject({ firstname: "Ada", lastname: "King", phone: "5" });
});
