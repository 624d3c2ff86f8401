import { env } from "cloudflare:workers";
import { query } from "millrace";
import { expect, it, vi } from "vitest";
import { app } from "../../../src/catalog.ts";
import { markForgotten, pseudonymOf } from "../../../src/systems/contacts/forgotten.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, until } from "../../api/client.ts";
import { batchIn, completed, contactsOf, problemsOf } from "./batch.ts";
import { holdAt } from "./hold.ts";

const row = (id: string, more: object = {}) => ({ contact_id: id, email: `${id}@example.com`, ...more });
const asked = (items: unknown, id = fresh("b"), more: object = {}) => ({
  operation: "import",
  dataset: "contacts",
  batch_id: id,
  items,
  ...more,
});
const withPicture = (caller: Caller, id: string, name = `${id}.png`) =>
  row(id, { properties: { picture: `r2://files/${caller.tenantId}/${name}` } });
const put = (caller: Caller, name: string) => env.PAYLOADS.put(`files/${caller.tenantId}/${name}`, new Uint8Array([137, 80, 78, 71]));
const retry = (caller: Caller, id: string) => caller.post(`/v1/batches/${id}/retry-failed`, { reason: "The pictures are there." });

/** Imports rows with pictures that are missing from the bucket. */
async function failedBatch(caller: Caller, count: number, id = fresh("b")): Promise<Json> {
  const items = [row("good"), ...Array.from({ length: count }, (_, index) => withPicture(caller, `p${index}`))];
  expect(await caller.post("/v1/batches", asked(items, id))).toMatchObject({ status: 202 });
  const batch = await batchIn(caller, id, "complete");
  expect(batch.rows).toMatchObject({ done: 1, failed: count });
  return batch;
}

it("rows in a request become a batch, like a file with these rows; the same request is the same batch", async () => {
  const caller = await callerWith();
  const request = asked([row("c1", { name: "Ada", properties: { plan: "gold" } }), row("c2")]);
  const first = await caller.post("/v1/batches", request);
  expect(first).toMatchObject({ status: 202, body: { format: "jsonl", replayed: false, parent_batch_id: null } });
  expect(await batchIn(caller, request.batch_id, "complete")).toMatchObject({ rows: { done: 2, failed: 0 } });
  expect(await caller.post("/v1/batches", request)).toMatchObject({ status: 202, body: { replayed: true } });
  expectProblem(await caller.post("/v1/batches", { ...request, items: [row("c3")] }), 422, "idempotency_key_reused");
  expect(await contactsOf(caller.tenantId)).toMatchObject([
    { contact_id: "c1", name: "Ada", properties: { plan: "gold" }, revision: 1 },
    { contact_id: "c2", revision: 1 },
  ]);
  const uploads = () => env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/${request.batch_id}/upload/` });
  expect((await until(uploads, ({ objects }) => objects.length === 0)).objects).toEqual([]);
});

it("a reconciliation also accepts rows in the request", async () => {
  const caller = await callerWith();
  await caller.post("/v1/batches", asked([row("c1")], "before"));
  await batchIn(caller, "before", "complete");
  await caller.post("/v1/batches", asked([row("c1"), row("c2")], "check", { operation: "reconcile" }));
  expect(await batchIn(caller, "check", "complete")).toMatchObject({ findings: { same: 1, only_there: 1, only_here: 0 } });
});

it("a report contains only the first characters of a refused row, also the report of a reconciliation", async () => {
  const caller = await callerWith();
  const line = `${JSON.stringify({ contact_id: "c1", email: "none", name: "x".repeat(300) })}\n`;
  const refused = [{ row: 1, line: 1, problem: expect.stringMatching(/^email: /), raw: line.slice(0, 200) }];
  for (const operation of ["import", "reconcile"]) {
    await completed(caller, line, { type: "application/x-ndjson", id: operation, operation });
    expect(await problemsOf(caller, operation)).toEqual(refused);
  }
});

it("an invalid row refuses the request with its place, and nothing is stored", async () => {
  const caller = await callerWith();
  const issuesOf = async (request: object) => expectProblem(await caller.post("/v1/batches", request), 422, "invalid_payload").issues;
  expect(await issuesOf(asked([row("c1"), { contact_id: "c2", email: "none" }, row("c3", { colour: "red" })]))).toMatchObject([
    { path: "items.1.email" },
    { path: expect.stringMatching(/^items\.2/) },
  ]);
  expect(await issuesOf(asked([row("c1"), row("c2", { properties: { text: "x".repeat(70_000) } })]))).toMatchObject([{ path: "items.1" }]);
  expect(await issuesOf(asked([]))).toMatchObject([{ path: "items" }]);
  expect(await issuesOf(asked(Array.from({ length: 1001 }, (_, index) => row(`c${index}`))))).toMatchObject([{ path: "items" }]);
  expect(await issuesOf(asked(undefined))).toMatchObject([{ path: "manifest", message: expect.stringContaining("or `items`") }]);
  expect((await env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/` })).objects).toEqual([]);
  expect(await contactsOf(caller.tenantId)).toEqual([]);
});

it("a request of more than 1 MiB is refused", async () => {
  const caller = await callerWith();
  const large = Array.from({ length: 600 }, (_, index) => row(`c${index}`, { properties: { text: "x".repeat(1_900) } }));
  expectProblem(await caller.post("/v1/batches", asked(large)), 413, "payload_too_large");
});

it("a row can name a picture in the bucket; a missing picture, or a picture of another tenant, fails only its row", async () => {
  const [caller, other] = [await callerWith(), await callerWith()];
  await put(caller, "c1.png");
  await put(other, "theirs.png");
  const theirs = row("c3", { properties: { picture: `r2://files/${other.tenantId}/theirs.png` } });
  await caller.post("/v1/batches", asked([withPicture(caller, "c1"), withPicture(caller, "c2"), theirs], "pictures"));
  expect(await batchIn(caller, "pictures", "complete")).toMatchObject({ rows: { done: 1, failed: 2 } });
  expect(await problemsOf(caller, "pictures")).toMatchObject([
    { row: 2, problem: "properties.picture: names a file that is missing" },
    { row: 3, problem: `properties.picture: is not below r2://files/${caller.tenantId}/` },
  ]);
  expect(await contactsOf(caller.tenantId)).toMatchObject([{ contact_id: "c1" }]);
});

it("a reference with a name that is longer than R2 permits fails only its row", async () => {
  const caller = await callerWith();
  const named = (bytes: number) => "x".repeat(bytes - `files/${caller.tenantId}/`.length);
  await put(caller, named(1024));
  await caller.post("/v1/batches", asked([withPicture(caller, "fits", named(1024)), withPicture(caller, "long", named(1025))], "names"));
  expect(await batchIn(caller, "names", "complete")).toMatchObject({ rows: { done: 1, failed: 1 } });
  expect(await problemsOf(caller, "names")).toMatchObject([{ row: 2, problem: "properties.picture: names a file that is missing" }]);
});

it("a failed row of an erased contact is kept neither for the report nor for a retry, wherever its id is in the row", async () => {
  const caller = await callerWith();
  await query(env.DB, markForgotten(caller.tenantId, [pseudonymOf(env, caller.tenantId, "zoe")]));
  const line = { name: "Zoe ".repeat(50), email: "not an address", contact_id: "zoe" };
  await completed(caller, `${JSON.stringify(line)}\n`, { type: "application/x-ndjson", id: "late" });
  expect(await problemsOf(caller, "late")).toMatchObject([{ row: 1, raw: "" }]);
  expect((await env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/late/rows/` })).objects).toEqual([]);
  expectProblem(await retry(caller, "late"), 409, "invalid_transition");
});

it("failed rows are retried as a batch that names its parent: each once, for any number of requests", async () => {
  const caller = await callerWith();
  const { batch_id: id } = await failedBatch(caller, 3);
  await Promise.all([put(caller, "p0.png"), put(caller, "p2.png")]);
  const answers = await Promise.all(Array.from({ length: 10 }, () => retry(caller, id)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
  expect(new Set(answers.map(({ body }) => body.batch_id)).size).toBe(1);
  expect(answers.filter(({ body }) => !body.replayed)).toHaveLength(1);
  const again = answers[0]?.body.batch_id;
  expect(await batchIn(caller, again, "complete")).toMatchObject({ parent_batch_id: id, rows: { done: 2, failed: 1 } });
  expect(await retry(caller, id)).toMatchObject({ status: 202, body: { batch_id: again, replayed: true, state: "complete" } });
  expect((await contactsOf(caller.tenantId)).map(({ contact_id, revision, imported_by }) => [contact_id, revision, imported_by])).toEqual([
    ["good", 1, id],
    ["p0", 1, again],
    ["p2", 1, again],
  ]);
  const { items: audited } = (await caller.get("/v1/audit?verb=retry")).body;
  const applied = audited.filter(({ target, result }: Json) => target === id && result === "applied");
  expect(applied).toMatchObject([{ detail: { batch_id: again }, reason: "The pictures are there." }]);
  const uploads = () => env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/${again}/upload/` });
  expect((await until(uploads, ({ objects }) => objects.length === 0)).objects).toEqual([]);

  // Rows that failed again become one more batch.
  await put(caller, "p1.png");
  const { body: last } = await retry(caller, again);
  expect(await batchIn(caller, last.batch_id, "complete")).toMatchObject({ parent_batch_id: again, rows: { done: 1, failed: 0 } });
  expectProblem(await retry(caller, last.batch_id), 409, "invalid_transition");
});

it("a retry continues with the next request after a crash between its row and its command", async () => {
  const caller = await callerWith();
  const { batch_id: id } = await failedBatch(caller, 1);
  await put(caller, "p0.png");
  const { performer } = app;
  const failing = vi.spyOn(app, "performer");
  failing.mockImplementationOnce(performer).mockImplementationOnce(() => {
    throw new Error("The process dies between the row and its command.");
  });
  expect((await retry(caller, id)).status).toBe(500);
  failing.mockRestore();
  const { status, body } = await retry(caller, id);
  expect(status).toBe(202);
  expect(await batchIn(caller, body.batch_id, "complete")).toMatchObject({ rows: { done: 1 } });
});

it("a retry of failed rows that is restarted in the middle repeats no row", async () => {
  const caller = await callerWith();
  const { batch_id: id } = await failedBatch(caller, 999);
  for (let from = 0; from < 999; from += 100)
    await Promise.all(Array.from({ length: Math.min(100, 999 - from) }, (_, index) => put(caller, `p${from + index}.png`)));
  const held = holdAt("p500");
  const { body } = await retry(caller, id);
  await until(
    async () => held.attempts(),
    (count) => count >= 1,
  );
  await (await env.IMPORT_ROWS.get(body.instance_id)).restart();
  await until(
    async () => held.attempts(),
    (count) => count >= 2,
  );
  // Both attempts at the chunk write concurrently.
  held.release();
  expect(await batchIn(caller, body.batch_id, "complete")).toMatchObject({ rows: { done: 999, failed: 0 } });
  const contacts = await contactsOf(caller.tenantId);
  expect(contacts).toHaveLength(1000);
  expect(new Set(contacts.map(({ revision }) => revision))).toEqual(new Set([1]));
});

it("rows of a CSV file are retried as they were read; unreadable rows are excluded", async () => {
  const caller = await callerWith();
  const file = `contact_id;email;picture;note
c1;c1@example.com;r2://files/${caller.tenantId}/c1.png;'=1+1
few;c2@example.com
`;
  const headers = { "content-type": "text/csv", "content-length": String(file.length) };
  const path = "/v1/batches?operation=import&dataset=contacts&batch_id=sheet";
  expect((await caller.call("POST", path, undefined, headers, new TextEncoder().encode(file))).status).toBe(202);
  expect(await batchIn(caller, "sheet", "complete")).toMatchObject({ rows: { done: 0, failed: 2 } });
  await put(caller, "c1.png");
  const { body } = await retry(caller, "sheet");
  expect(await batchIn(caller, body.batch_id, "complete")).toMatchObject({ format: "jsonl", rows: { done: 1, failed: 0 } });
  expect(await contactsOf(caller.tenantId)).toMatchObject([{ properties: { note: "=1+1" } }]);
});

it("a retry of a batch of another tenant, of an export, and of a batch without failed rows is refused", async () => {
  const [caller, other] = [await callerWith(), await callerWith()];
  const { batch_id: id } = await failedBatch(other, 1);
  expectProblem(await retry(caller, id), 404, "batch_not_found");
  await caller.post("/v1/batches", { operation: "export", dataset: "contacts", batch_id: "copy" });
  await batchIn(caller, "copy", "complete");
  expectProblem(await retry(caller, "copy"), 409, "invalid_transition");
});
