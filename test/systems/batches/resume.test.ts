import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { callerWith, type Json, reaches, until } from "../../api/client.ts";
import { batchIn, completed, contactsCsv, contactsOf, problemsOf, upload } from "./batch.ts";
import { holdAt } from "./hold.ts";

/** Every fifth row is invalid. */
function withBrokenRows(count: number): string {
  return contactsCsv(count).replaceAll(/^(c\d*[07],)(.*)$/gm, "$1not an address,,");
}

async function restart(instanceId: string, from?: string): Promise<void> {
  const instance = await env.IMPORT_ROWS.get(instanceId);
  await instance.restart(from ? { from: { name: from } } : undefined);
}

const platformStatus = async (id: string) => (await (await env.IMPORT_ROWS.get(id)).status()).status;

it("a batch with repeated restarts and late attempts repeats no row", async () => {
  const caller = await callerWith();
  const held = holdAt("c4501");
  const { batch_id: id, instance_id: instance } = (await upload(caller, withBrokenRows(8000))).body;
  const attempts = async (count: number) =>
    expect(
      await until(
        async () => held.attempts(),
        (seen) => seen >= count,
      ),
    ).toBe(count);
  await attempts(1);
  expect((await caller.get(`/v1/batches/${id}`)).body).toMatchObject({ state: "running", rows: { done: 3200, failed: 800 } });
  await restart(instance);
  await attempts(2);
  const { items } = (await caller.get(`/v1/instances/${instance}/steps`)).body;
  await restart(instance, items.at(-1).name);
  await attempts(3);
  expect((await caller.get(`/v1/batches/${id}`)).body.rows).toMatchObject({ done: 3200, failed: 800 });
  // Three attempts at one chunk, two of them of dead replays, write concurrently.
  held.release();
  const batch = await batchIn(caller, id, "complete");
  expect(batch.rows).toMatchObject({ done: 6400, failed: 1600, skipped: 0 });
  const contacts = await contactsOf(caller.tenantId);
  expect(contacts).toHaveLength(6400);
  expect(new Set(contacts.map(({ revision }) => revision))).toEqual(new Set([1]));
  const problems = await problemsOf(caller, id);
  expect(problems).toHaveLength(1600);
  expect(problems.map(({ line }) => line)).toEqual(problems.map(({ line }) => line).toSorted((one: number, other: number) => one - other));

  // The same holds when every row is done already.
  await until(
    () => platformStatus(instance),
    (status) => status === "complete",
  );
  await restart(instance);
  await until(
    () => platformStatus(instance),
    (status) => status === "complete",
  );
  expect((await caller.get(`/v1/batches/${id}`)).body).toEqual(batch);
  expect(new Set((await contactsOf(caller.tenantId)).map(({ revision }) => revision))).toEqual(new Set([1]));
});

it("a chunk with a committed outcome and a lost step result is not written again", async () => {
  const caller = await callerWith();
  const batch = await completed(caller, contactsCsv(2500));
  // The platform loses all its records; the inbox does not.
  const instance = await env.IMPORT_ROWS.get(batch.instance_id);
  await until(
    () => platformStatus(batch.instance_id),
    (status) => status === "complete",
  );
  await instance.restart();
  await until(
    () => platformStatus(batch.instance_id),
    (status) => status === "complete",
  );
  const steps = await env.DB.prepare("SELECT item, state FROM millrace_inbox WHERE instance_id = ?1").bind(batch.instance_id).all();
  // Three chunks, and the upload's removal.
  expect(steps.results).toHaveLength(4);
  expect(await contactsOf(caller.tenantId)).toHaveLength(2500);
  expect((await caller.get(`/v1/batches/${batch.batch_id}`)).body.rows).toMatchObject({ done: 2500 });
});

it("a batch stops when its file disappears or changes, and its error names the file to restore; a retry continues", async () => {
  const caller = await callerWith();
  const key = `files/${caller.tenantId}/people.csv`;
  const file = contactsCsv(1200);
  await env.PAYLOADS.put(key, file);
  const asked = { operation: "import", dataset: "contacts", batch_id: "people", manifest: { key, format: "csv" } };
  // The file is deleted between acceptance and the first chunk: the command is held until then.
  const { body } = await caller.post("/v1/batches", asked);
  await env.PAYLOADS.delete(key);
  const first: Json = await batchIn(caller, "people", "errored", "complete");
  if (first.state === "complete") throw new Error("The batch was faster than this test.");
  expect(first.error.message).toContain(`The file ${key} is missing in the bucket: restore it`);

  await env.PAYLOADS.put(key, file.replace("gold", "iron"));
  await caller.post(`/v1/instances/${body.instance_id}/retry`, { reason: "put back" });
  await until(
    () => caller.get("/v1/batches/people"),
    ({ body }) => /has changed/.test(body.error?.message ?? ""),
  );
  expect((await caller.get("/v1/batches/people")).body.error.message).toContain("has changed since its batch was accepted");

  await env.PAYLOADS.put(key, file);
  expect(await caller.post(`/v1/instances/${body.instance_id}/retry`, { reason: "restored unchanged" })).toMatchObject({ status: 202 });
  expect(await batchIn(caller, "people", "complete")).toMatchObject({ rows: { done: 1200 }, error: null });
  await reaches(caller, body.instance_id, "complete");
  expect(new Set((await contactsOf(caller.tenantId)).map(({ revision }) => revision))).toEqual(new Set([1]));
});
