import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Caller, callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { seedInstance } from "../../api/seed.ts";
import { bring } from "../crm/crm.ts";
import { placesOf } from "./everything.ts";
import { unhurried } from "./unhurried.ts";

/** A contact, and a running instance with their address and their name, which cannot be derived from their id. */
async function named() {
  const caller = await callerWith();
  const word = fresh("q").replaceAll("-", "");
  const person = { contact_id: `cust-${word}`, email: `ada.${word}@example.com`, name: `Ada Quill${word}` };
  await bring(caller, [person]);
  const running = await seedInstance(caller.tenantId, { status: "waiting", error: { note: `${person.name}, ${person.email}` } });
  return { caller, person, running, words: [person.contact_id, person.email, `quill${word}`] };
}

async function ask(caller: Caller, contactId: string, request: string, more: object = {}): Promise<Json> {
  return (await caller.post("/v1/contacts/forget", { contact_id: contactId, reason: "asked", request, ...more })).body;
}

/** No endpoint ends an instance that waits: the test changes the row. */
const end = (id: string) => env.DB.prepare("UPDATE millrace_instances SET status = 'terminated' WHERE id = ?1").bind(id).run();

it("a second erasure under another id while work is unfinished continues with all known data of the person, and the first one ends", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const { caller, person, running, words } = await named();
  const first = await ask(caller, person.contact_id, "first");
  await until(
    async () => (await caller.get("/v1/contacts")).body.items,
    (items) => items.length === 0,
  );
  const second = await ask(caller, person.contact_id, "second");
  expect(second).toMatchObject({ replayed: false, person: first.person });
  const look = await ask(caller, person.contact_id, "look", { dry_run: true });
  expect(look, "the erasure still searches for the person's address").toMatchObject({ waiting: 1 });
  await reaches(caller, first.instance_id, "complete");
  await end(running);
  await reaches(caller, second.instance_id, "complete");
  expect(await placesOf(words)).toEqual([]);
  const { items } = (await caller.get("/v1/audit")).body;
  expect(items.filter(({ verb }: Json) => verb === "forget")).toMatchObject([
    { target: first.person, detail: { removed: { contacts: 1, instances: 1 } } },
  ]);
});

it("an erasure that timed out reports what blocks it, continues when it is retried, and completes once nothing runs", {
  timeout: 240_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const { caller, person, running, words } = await named();
  const { instance_id } = await ask(caller, person.contact_id, "first");
  const { error } = await reaches(caller, instance_id, "errored");
  expect(error).toMatchObject({ code: "not_retryable", message: expect.stringContaining("Then retry this") });
  expect(error.message, "the instance that it waits for").toContain(`(instances ${running})`);
  await end(running);
  const { status, body } = await caller.post(`/v1/instances/${instance_id}/retry`, { reason: "It has ended." });
  expect(status, JSON.stringify(body)).toBe(202);
  await reaches(caller, instance_id, "complete");
  expect(await placesOf(words)).toEqual([]);
});

it("an erasure with the person in its request does not wait for itself, and is found by that request", {
  timeout: 120_000,
}, async () => {
  await unhurried("FORGET_CONTACT");
  const { caller, person, running, words } = await named();
  await end(running);
  const request = `ticket 7 of ${person.email}, ${person.name}`;
  const first = await ask(caller, person.contact_id, request);
  await reaches(caller, first.instance_id, "complete");
  expect(await placesOf(words)).toEqual([]);
  expect(await ask(caller, person.contact_id, request)).toMatchObject({ replayed: true, instance_id: first.instance_id });
  expect(await placesOf(words)).toEqual([]);
});
