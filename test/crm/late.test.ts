import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { syncChunk } from "../../src/crm/chunk.ts";
import { batch, type Envelope } from "../../src/engine/index.ts";
import { type Caller, callerWith, type Json } from "../api/client.ts";
import { bring, contactOf, people, recordsOf, synced, theCrm } from "./crm.ts";

afterEach(() => theCrm().setFaults([]));

/** A tenant with contacts that are in the CRM already. */
async function inStep(count = 1, name = "Gina Gold") {
  const caller = await callerWith();
  const rows = people(caller, count, 100).map((row) => ({ ...row, name }));
  await bring(caller, rows);
  await synced(caller);
  const id: string = (await recordsOf(caller)).get("c0100")?.id ?? "";
  const change = (properties: object, of = rows) =>
    bring(
      caller,
      of.map((row) => ({ ...row, properties: { ...properties } })),
    );
  return { caller, rows, id, change };
}

/** The attempts of one chunk's step. */
function attemptsOf({ tenantId }: Caller) {
  const instanceId = crypto.randomUUID().replaceAll("-", "");
  const call = { env, envelope: { tenant_id: tenantId } as Envelope, instanceId, syncId: instanceId, scope: "changed" } as const;
  return () => syncChunk(call, { after: "", waiting: 0, mayCut: false });
}

/** One property on both sides. */
async function sides(caller: Caller, contact: string, property: string) {
  const here: Json = (await contactOf(caller, contact)).properties;
  return [here[property] ?? "", (await recordsOf(caller)).get(contact)?.properties[property] ?? ""];
}

it("what an attempt sent of a contact that the next attempt does not bring any more is not taken for a person's", async () => {
  const { caller, rows, change } = await inStep(100);
  await change({ phone: "2" });
  await theCrm().setFaults([{ match: `${caller.tenantId}/c0199`, status: 503, remaining: 1, afterEffect: true }]);
  const attempt = attemptsOf(caller);
  await expect(attempt()).rejects.toThrow();
  await bring(caller, people(caller, 3));
  await change({ phone: "3" }, rows.slice(-3));
  await batch(env.DB, (await attempt()).statements ?? []);
  expect(await sides(caller, "c0199", "phone")).toEqual(["3", "2"]);
  expect((await synced(caller)).contacts).toMatchObject({ done: 3, taken: 0, failed: 0 });
  expect(await sides(caller, "c0199", "phone")).toEqual(["3", "3"]);
});
