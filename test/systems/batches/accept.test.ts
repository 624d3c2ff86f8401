import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Accepted } from "millrace";
import { describe, expect, it, vi } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../../src/catalog.ts";
import { batch as queue } from "../../../src/messages/queues.ts";
import { acceptBatch } from "../../../src/systems/batches/accept.ts";
import worker from "../../../src/worker.ts";
import { callerWith, expectProblem, fresh, type Json, reaches, send, until } from "../../api/client.ts";
import { batchIn, completed, contactsCsv, contactsOf, upload } from "./batch.ts";

const ROW = "contact_id,email\nc1,a@example.com\n";

async function putFile(tenantId: string, name: string, text: string): Promise<string> {
  const key = `files/${tenantId}/${name}`;
  await env.PAYLOADS.put(key, text);
  return key;
}

const asked = (key: string, id = fresh("b"), more = {}) => ({
  operation: "import",
  dataset: "contacts",
  batch_id: id,
  manifest: { key, format: "csv" },
  ...more,
});

describe("POST /v1/batches", () => {
  it("POST /v1/batches returns the same batch for the same id and file, and refuses the id for other work", async () => {
    const caller = await callerWith();
    const id = fresh("b");
    const first = await upload(caller, ROW, { id });
    expect(first).toMatchObject({ status: 202, body: { batch_id: id, replayed: false, total_bytes: ROW.length } });
    expect(first.headers.get("location")).toBe(`/v1/batches/${id}`);
    await batchIn(caller, id, "complete");
    expect(await upload(caller, ROW, { id })).toMatchObject({ status: 202, body: { replayed: true, state: "complete" } });
    expectProblem(await upload(caller, `${ROW}c2,b@example.com\n`, { id }), 422, "idempotency_key_reused");
    expectProblem(await upload(caller, ROW, { id, operation: "reconcile" }), 422, "idempotency_key_reused");
    // The first file was deleted with its last row, the others have no owner.
    const uploads = () => env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/${id}/upload/` });
    expect((await until(uploads, ({ objects }) => objects.length === 0)).objects).toEqual([]);
    expect(await contactsOf(caller.tenantId)).toMatchObject([{ revision: 1 }]);
  });

  it("POST /v1/batches creates one batch for twenty concurrent equal requests", async () => {
    const caller = await callerWith();
    const id = fresh("b");
    const answers = await Promise.all(Array.from({ length: 20 }, () => upload(caller, ROW, { id })));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(20);
    expect(answers.filter(({ body }) => !body.replayed)).toHaveLength(1);
    await batchIn(caller, id, "complete");
    expect(await contactsOf(caller.tenantId)).toMatchObject([{ revision: 1 }]);
  });

  it("POST /v1/batches refuses a name that another command uses, and stores nothing", async () => {
    const caller = await callerWith();
    const id = fresh("b");
    await acceptCommands(env, app, { tenantId: caller.tenantId, source: "test" }, [
      { type: "batch.import", payload: { batch_id: "another" }, idempotencyKey: id },
    ]);
    expectProblem(await upload(caller, ROW, { id }), 422, "idempotency_key_reused");
    expectProblem(await caller.get(`/v1/batches/${id}`), 404, "batch_not_found");
    expect((await env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/` })).objects).toEqual([]);
  });

  it("POST /v1/batches keeps an upload after its acceptance failed halfway, and continues with the next request", async () => {
    const caller = await callerWith();
    const id = fresh("b");
    const { performer } = app;
    const failing = vi.spyOn(app, "performer");
    failing.mockImplementationOnce(performer).mockImplementationOnce(() => {
      throw new Error("The process dies between the row and its command.");
    });
    expect((await upload(caller, ROW, { id })).status).toBe(500);
    failing.mockRestore();
    expect((await caller.get(`/v1/batches/${id}`)).body).toMatchObject({ state: "accepted" });
    expect(await upload(caller, ROW, { id })).toMatchObject({ status: 202, body: { replayed: false } });
    expect(await batchIn(caller, id, "complete")).toMatchObject({ rows: { done: 1 } });
  });

  it("POST /v1/batches refuses an invalid file name", async () => {
    const caller = await callerWith();
    const refused = await caller.post("/v1/batches", asked(`files/${caller.tenantId}/${"漢".repeat(400)}`));
    expect(expectProblem(refused, 422, "invalid_payload").issues).toMatchObject([{ path: "manifest.key" }]);
  });

  it("POST /v1/batches accepts a file in the tenant's own folder only", async () => {
    const caller = await callerWith();
    const other = await callerWith();
    const key = await putFile(caller.tenantId, "people.csv", ROW);
    const id = fresh("b");
    expect(await caller.post("/v1/batches", asked(key, id))).toMatchObject({ status: 202, body: { replayed: false } });
    await batchIn(caller, id, "complete");
    for (const gone of [await putFile(other.tenantId, "people.csv", ROW), `files/${caller.tenantId}/nothing.csv`, "payloads/x"]) {
      expectProblem(await caller.post("/v1/batches", asked(gone)), 404, "file_not_found");
    }
    // The batch exists, also without its file.
    await env.PAYLOADS.delete(key);
    expect(await caller.post("/v1/batches", asked(key, id))).toMatchObject({ status: 202, body: { replayed: true } });
  });

  it("POST /v1/batches refuses a file that changes between the check and the read, and accepts it on the next request", async () => {
    const caller = await callerWith();
    const key = await putFile(caller.tenantId, "people.csv", ROW);
    const id = fresh("b");
    const stale = { key, etag: "0".repeat(32), size: ROW.length };
    const request = { operation: "import", dataset: "contacts", batchId: id, format: "csv", formulas: "escape" } as const;
    await expect(acceptBatch(env, app, { tenantId: caller.tenantId, source: "test" }, request, stale)).rejects.toMatchObject({
      code: "invalid_payload",
    });
    expectProblem(await caller.get(`/v1/batches/${id}`), 404, "batch_not_found");
    expect((await caller.post("/v1/batches", asked(key, id))).status).toBe(202);
  });

  it("POST /v1/batches requires a Content-Length that equals the body's length", async () => {
    const caller = await callerWith();
    const query = `?operation=import&dataset=contacts&batch_id=${fresh("b")}`;
    const headers = { authorization: `Bearer ${caller.token}`, "content-type": "text/csv" };
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1000)) });
    expectProblem(await send(`/v1/batches${query}`, { method: "POST", headers, body: endless }), 411, "length_required");
    expectProblem(await upload(caller, ROW, { headers: { "content-length": "1073741825" } }), 413, "payload_too_large");
    expectProblem(await upload(caller, ROW, { headers: { "content-length": "9" } }), 422, "invalid_payload");
    expect((await caller.get("/v1/batches")).body.items).toEqual([]);
    expect((await env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/` })).objects).toEqual([]);
  });

  it.each([
    ["a header that lacks a column", "email,name\n", /lacks the column contact_id/],
    ["a header that names a column twice", "contact_id,email,email\n", /“email” twice/],
    ["a header that is empty", "", /lacks the column/],
    ["a header with a broken quote", 'contact_id,"email\n', /cannot be read: with “,” it has an unclosed quote/],
    ["a header with text after a quote", '"contact_id"x,email\n', /cannot be read: with “,” it has text after a closing quote/],
    ["a header that is the whole file, with CR line endings", "contact_id,email,name\rc1,a@x.org,Ada\rc2,b@x.org,Bo\r", /CR alone/],
    ["a header that is the whole file, with semicolons and CR line endings", "contact_id;email\rc1;a@x.org\r", /CR alone/],
    [
      "a header that is the whole of a large file with CR line endings",
      `contact_id,email,name\r${"c1,a@x.org,Ada\r".repeat(9000)}`,
      /CR alone/,
    ],
    ["a header in UTF-16", new Uint8Array([0xff, 0xfe, 0x63, 0]), /UTF-16/],
    [
      "a header that is longer than the part of the file that is read",
      `contact_id,email,${Array.from({ length: 9000 }, (_, at) => `p${at}`).join(";")}`.replaceAll(";", ",   "),
      /header of more than/,
    ],
    ["a header with too many columns", `contact_id,email,${Array.from({ length: 999 }, (_, at) => `p${at}`)}\n`, /has 1001 columns/],
    ["a header with a nameless column", "contact_id,email,\n", /cannot be named/],
  ])("POST /v1/batches refuses a file with %s, and stores nothing", async (_, file, words) => {
    const caller = await callerWith();
    const problem = expectProblem(await upload(caller, file), 422, "invalid_payload");
    expect(problem.issues).toMatchObject([{ path: "file", message: expect.stringMatching(words) }]);
    expect((await env.PAYLOADS.list({ prefix: `batches/${caller.tenantId}/` })).objects).toEqual([]);
  });

  it.each([
    [
      "separated by tabs",
      "contact_id\temail\tname\nc1\ta@x.org\tAda\n",
      'The file lacks the column contact_id; lacks the column email. Its header was read with “,” as 1 column: "contact_id\\temail\\tname". ' +
        "It is separated by tabs: save it with commas or semicolons.",
    ],
    [
      "separated by |",
      '"contact_id"|"email"\n',
      'Its first line is: "\\"contact_id\\"|\\"email\\"". It is separated by “|”: save it with commas or semicolons.',
    ],
    ["of other names", "id;mail\n", 'Its header was read with “;” as 2 columns: "id;mail".'],
    ["of nothing", "\n", "Its header is empty."],
  ])("the error of a refused header shows the header %s as it was read", async (_, file, words) => {
    const problem = expectProblem(await upload(await callerWith(), file), 422, "invalid_payload");
    expect(problem.detail).toContain(words);
    if (!words.includes("separated by t") && !words.includes("“|”")) expect(problem.detail).not.toContain("It is separated");
  });

  it.each([
    ["an unknown dataset", { dataset: "invoices" }, "dataset"],
    ["an unknown operation", { operation: "delete" }, "operation"],
    ["an id that could be a path", { id: "../x" }, "batch_id"],
    ["formulas that are neither escaped nor kept", { more: "&formulas=run" }, "formulas"],
  ])("POST /v1/batches refuses %s", async (_, options, path) => {
    const caller = await callerWith();
    expect(expectProblem(await upload(caller, ROW, options), 422, "invalid_payload").issues).toMatchObject([{ path }]);
  });

  it("POST /v1/batches refuses other media types, and tokens that may not enqueue", async () => {
    const caller = await callerWith();
    const { detail } = expectProblem(await upload(caller, ROW, { type: "application/zip" }), 415, "unsupported_media_type");
    for (const type of ["text/csv", "application/x-ndjson", "application/json"]) expect(detail).toContain(type);
    expectProblem(await upload(await callerWith(["read"]), ROW), 403, "forbidden");
  });
});

describe("A batch of another tenant", () => {
  it("a batch of another tenant is hidden, and its id is free for this tenant", async () => {
    const caller = await callerWith();
    const other = await callerWith();
    const { batch_id: id } = await completed(caller, ROW);
    for (const path of ["", "/errors", "/result", "/stream"]) {
      expectProblem(await other.get(`/v1/batches/${id}${path}`), 404, "batch_not_found");
    }
    expectProblem(await other.post(`/v1/batches/${id}/cancel`, { reason: "x" }), 404, "batch_not_found");
    expect((await other.get("/v1/batches")).body.items).toEqual([]);
    expect(await completed(other, ROW, { id })).toMatchObject({ batch_id: id, rows: { done: 1 } });
  });
});

it("a command for an unknown batch, or for another operation, is refused, and the error names the route of batches", async () => {
  const caller = await callerWith();
  const { batch_id: id } = await completed(caller, ROW);
  for (const [type, batch] of [
    ["batch.import", "nobody"],
    ["batch.export", id],
  ] as const) {
    const payload = { batch_id: batch };
    const [accepted] = await acceptCommands(env, app, { tenantId: caller.tenantId, source: "test" }, [{ type, payload }]);
    expect(await reaches(caller, (accepted as Accepted).instanceId, "errored")).toMatchObject({
      error: { message: expect.stringContaining("POST /v1/batches") },
    });
  }
});

it("batches are listed newest first, page by page", async () => {
  const caller = await callerWith();
  const ids: string[] = [];
  for (const count of [1, 2, 3]) ids.push((await completed(caller, contactsCsv(count))).batch_id);
  await env.DB.prepare("UPDATE batches SET created_at = 5 WHERE tenant_id = ?1").bind(caller.tenantId).run();
  const first = await caller.get("/v1/batches?limit=2");
  const second = await caller.get(`/v1/batches?limit=2&cursor=${first.body.next_cursor}`);
  const seen = [...first.body.items, ...second.body.items].map(({ batch_id }: Json) => batch_id);
  expect(seen).toHaveLength(3);
  expect(new Set(seen)).toEqual(new Set(ids));
  expect(second.body.next_cursor).toBeNull();
});

it("fifty shuffled deliveries of a batch's command, some in one queue batch, create one batch", async () => {
  const caller = await callerWith();
  const { batch_id: id, instance_id: instance } = (await upload(caller, contactsCsv(1500))).body;
  const row = await env.DB.prepare("SELECT envelope FROM millrace_instances WHERE id = ?1").bind(instance).first<{ envelope: string }>();
  const body = JSON.parse(row?.envelope ?? "");
  for (let round = 0; round < 5; round++) {
    const messages = Array.from({ length: 10 }, (_, index) => ({
      id: `${round}-${index}`,
      timestamp: new Date(),
      attempts: 1 + index,
      body,
    }));
    const deliveries = createMessageBatch(queue.name, messages);
    const ctx = createExecutionContext();
    await worker.queue(deliveries, env, ctx);
    expect((await getQueueResult(deliveries, ctx)).explicitAcks).toHaveLength(10);
  }
  await batchIn(caller, id, "complete");
  const contacts = await contactsOf(caller.tenantId);
  expect(contacts).toHaveLength(1500);
  expect(new Set(contacts.map(({ revision }) => revision))).toEqual(new Set([1]));
  const instances = await env.DB.prepare("SELECT count(*) AS n FROM millrace_instances WHERE tenant_id = ?1")
    .bind(caller.tenantId)
    .first("n");
  expect(instances).toBe(1);
});
