import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { type Caller, callerWith, fresh, reaches } from "../../api/client.ts";
import { bring, callsSince, command, lastCall, linkOf, merge, people, type Row, recordsOf, synced, theCrm } from "./crm.ts";

afterEach(() => theCrm().setFaults([]));

const refusesToConnect = { match: "associate", status: 400, category: "VALIDATION_ERROR", remaining: null };

/** A tenant with two contacts that are not in the CRM yet. */
async function some() {
  const caller = await callerWith();
  const [row, other] = people(caller, 2) as [Row, Row];
  await bring(caller, [row, other]);
  return { caller, change: (properties: object) => bring(caller, [{ ...row, properties: { ...properties } }]) };
}

const asked = (caller: Caller) => command(caller, "contact.sync", { contact_id: "c0000", occasion: fresh("o") });

/** Syncs one contact. Returns its steps, and the calls of the CRM. */
async function syncs(caller: Caller) {
  const before = await lastCall();
  const id = await asked(caller);
  await reaches(caller, id, "complete");
  return { steps: await stepsOf(id), calls: await callsSince(before) };
}

async function stepsOf(id: string): Promise<string[]> {
  const rows = env.DB.prepare(
    "SELECT step || iif(item = '', '', ', ' || item) AS step FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position",
  ).bind(id);
  return (await rows.all<{ step: string }>()).results.map(({ step }) => step);
}

it("a CRM sync of a contact has the steps of the calls that it needs, and one read", async () => {
  const { caller, change } = await some();
  expect(await syncs(caller)).toEqual({ steps: ["look at contact", "upsert contact"], calls: ["batch/upsert 1"] });
  expect(await syncs(caller)).toEqual({ steps: ["look at contact"], calls: ["batch/read 1"] });
  await change({ company: "Acme" });
  const steps = ["look at contact", "upsert contact", "upsert company", "connect company"];
  expect(await syncs(caller)).toEqual({ steps, calls: ["batch/read 1", "batch/upsert 1", "batch/upsert 1", "associate/default 1"] });
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked", pending: false });
});

it("a call that the CRM defers is repeated alone", async () => {
  await using introspector = await introspectWorkflow(env.SYNC_CONTACT);
  await introspector.modifyAll((each) => each.disableRetryDelays());
  const { caller, change } = await some();
  await change({ company: "Acme" });
  await theCrm().setFaults([{ match: "associate", status: 503, remaining: 2 }]);
  const { calls } = await syncs(caller);
  expect(calls).toEqual(["batch/upsert 1", "batch/upsert 1", ...Array(3).fill("associate/default 1")]);
});

it("a call that the CRM refuses is named in the error, delays no other contact, and is repeated by a retry, which sends later changes", async () => {
  const { caller, change } = await some();
  await change({ company: "Acme" });
  await theCrm().setFaults([refusesToConnect]);
  const id = await asked(caller);
  const failed = await reaches(caller, id, "errored");
  expect(failed.error).toMatchObject({ code: "not_retryable", step: "connect company" });
  expect(failed.error.message).toContain("did not connect the contact with its company: VALIDATION_ERROR");
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked", pending: true, error: { category: "VALIDATION_ERROR" } });
  expect(await env.DB.prepare("SELECT count(*) AS n FROM crm_sends WHERE tenant_id = ?1").bind(caller.tenantId).first("n")).toBe(0);

  await theCrm().setFaults([]);
  const before = await lastCall();
  expect((await caller.post(`/v1/instances/${id}/retry`, { reason: "mended" })).status).toBe(202);
  await reaches(caller, id, "complete");
  // Its record is read and has all sent properties: only the company remains.
  expect(await callsSince(before)).toEqual(["batch/read 1", "batch/upsert 1", "associate/default 1"]);
  expect(await linkOf(caller, "c0000")).toMatchObject({ state: "linked", pending: false });
  expect(await theCrm().associations()).toContainEqual(expect.objectContaining({ contact: (await recordsOf(caller)).get("c0000")?.id }));
});

it("a merge of a CRM record into another contact's record is a separate step", async () => {
  const { caller } = await some();
  await synced(caller);
  await theCrm().setFaults([{ match: "/merge", status: 400, category: "VALIDATION_ERROR", remaining: null }]);
  await merge(caller, "c0000", "c0001");
  const id = await asked(caller);
  expect((await reaches(caller, id, "errored")).error).toMatchObject({ step: "merge records" });
  await theCrm().setFaults([]);
  expect((await caller.post(`/v1/instances/${id}/retry`, { reason: "mended" })).status).toBe(202);
  await reaches(caller, id, "complete");
  expect([...(await recordsOf(caller)).keys()]).toEqual(["c0001"]);
  expect((await stepsOf(id)).at(-1)).toBe("merge records, round 2");
});

it("a call that the CRM refuses as a whole, for example because of its token, releases its contacts, in any sync", async () => {
  for (const type of ["contact.sync", "contacts.sync"]) {
    const { caller, change } = await some();
    await synced(caller);
    await change({ phone: "1" });
    await theCrm().setFaults([{ match: `${caller.tenantId}/c0000`, status: 401, remaining: 1 }]);
    const id = type === "contact.sync" ? await asked(caller) : await command(caller, type, { sync_id: fresh("s") });
    expect((await reaches(caller, id, "errored")).error, type).toMatchObject({ code: "not_retryable" });
    await change({ phone: "2" });
    await reaches(caller, await asked(caller), "complete");
    expect((await recordsOf(caller)).get("c0000")?.properties, type).toMatchObject({ phone: "2" });
    expect((await caller.post(`/v1/instances/${id}/retry`, { reason: "mended" })).status).toBe(202);
    await reaches(caller, id, "complete");
    expect(await linkOf(caller, "c0000"), type).toMatchObject({ state: "linked", pending: false });
  }
});
