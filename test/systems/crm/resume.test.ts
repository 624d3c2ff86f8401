import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { callerWith, fresh, type Json, until } from "../../api/client.ts";
import { bring, callsSince, command, lastCall, people, recordsOf, syncIn, theCrm } from "./crm.ts";

afterEach(() => theCrm().setFaults([]));

const upserts = async (since: number) => (await callsSince(since)).filter((call) => call.startsWith("batch/upsert"));

async function restart(instanceId: string): Promise<void> {
  const instance = await env.SYNC_CONTACTS.get(instanceId);
  await instance.restart();
}

it("a CRM sync that is restarted halfway and after its end sends no contact twice and requests no chunk again", async () => {
  const caller = await callerWith();
  await bring(caller, people(caller, 450));
  // The third chunk's response is lost, and the fourth is deferred for an hour: the run dies in both waits.
  await theCrm().setFaults([
    { match: `${caller.tenantId}/c0250`, status: 503, remaining: 1, retryAfter: 3600, afterEffect: true },
    { match: `${caller.tenantId}/c0350`, status: 503, remaining: 1, retryAfter: 3600 },
  ]);
  const before = await lastCall();
  const id = fresh("s");
  const instance = await command(caller, "contacts.sync", { sync_id: id });
  const beganAt = Date.now();
  // The lost call's result is found in the CRM by the engine's names: the third chunk is not sent again.
  for (const asked of [3, 4]) {
    expect(
      await until(
        () => upserts(before),
        ({ length }) => length >= asked,
      ),
    ).toHaveLength(asked);
    expect((await caller.get(`/v1/crm/syncs/${id}`)).body).toMatchObject({ state: "running", contacts: { done: asked === 3 ? 200 : 300 } });
    // A run that dies this early is treated as one that never ran: it queries first and detects the earlier run when it writes.
    await until(async () => Date.now() - beganAt > 2500, Boolean);
    await restart(instance);
  }
  const sync = await syncIn(caller, id, "complete");
  expect(sync.contacts).toMatchObject({ done: 450, failed: 0, skipped: 0 });
  expect(await upserts(before)).toEqual([...Array(5).fill("batch/upsert 100"), "batch/upsert 50"]);
  expect((await recordsOf(caller)).size).toBe(450);

  await until(
    async () => (await (await env.SYNC_CONTACTS.get(instance)).status()).status,
    (status) => status === "complete",
  );
  const ended = await lastCall();
  await restart(instance);
  await until(
    async () => (await (await env.SYNC_CONTACTS.get(instance)).status()).status,
    (status) => status === "complete",
  );
  expect(await callsSince(ended)).toEqual([]);
  expect((await caller.get(`/v1/crm/syncs/${id}`)).body).toEqual(sync);

  // Each contact was reported as synced once.
  const { results } = await env.DB.prepare("SELECT messages FROM millrace_inbox WHERE instance_id = ?1")
    .bind(instance)
    .all<{ messages: string }>();
  const said = results.flatMap(({ messages }) => (JSON.parse(messages) as Json[]).map((message) => message.payload_inline.contact_id));
  expect(said).toHaveLength(450);
  expect(new Set(said).size).toBe(450);
});

it("a contact that changes during its sync is recorded as it was sent, and the next sync sends the change", async () => {
  const caller = await callerWith();
  const rows = people(caller, 3);
  await bring(caller, rows);
  await theCrm().setFaults([{ match: `${caller.tenantId}/c0000`, status: 503, remaining: 1, retryAfter: 3600, afterEffect: true }]);
  const before = await lastCall();
  const id = fresh("s");
  const instance = await command(caller, "contacts.sync", { sync_id: id });
  await until(
    () => upserts(before),
    ({ length }) => length >= 1,
  );
  await bring(caller, [{ ...(rows[1] as (typeof rows)[0]), name: "Changed meanwhile" }]);
  await restart(instance);
  await syncIn(caller, id, "complete");
  const links = (await caller.get("/v1/crm/links")).body.items;
  expect(links.map(({ revision, synced_revision, pending }: Json) => [revision, synced_revision, pending])).toEqual([
    [1, 1, false],
    [2, 2, false],
    [1, 1, false],
  ]);
  expect((await recordsOf(caller)).get("c0001")?.properties).toMatchObject({ firstname: "Changed", lastname: "meanwhile" });
});
