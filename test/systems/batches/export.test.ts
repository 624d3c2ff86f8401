import { env } from "cloudflare:workers";
import type { Envelope } from "millrace";
import { expect, it } from "vitest";
import { exportPage } from "../../../src/systems/batches/export.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, until } from "../../api/client.ts";
import { batchIn, completed, contactsCsv, contactsOf } from "./batch.ts";

async function exported(caller: Caller, more: object): Promise<{ batch: Json; text: string }> {
  const id = fresh("x");
  const answer = await caller.post("/v1/batches", { operation: "export", dataset: "contacts", batch_id: id, ...more });
  expect(answer).toMatchObject({ status: 202, body: { total_bytes: null } });
  const batch = await batchIn(caller, id, "complete");
  const { body, headers } = await caller.get(`/v1/batches/${id}/result`);
  expect(headers.get("content-disposition")).toContain(`${id}.${batch.format}`);
  return { batch, text: body };
}

it("an export contains the imported rows in the order of their keys, and an import of it into another tenant gives the same export", async () => {
  const caller = await callerWith();
  const other = await callerWith();
  await completed(caller, `${contactsCsv(1300)}odd,o@example.com,"a ""b""\nc\rd, é 😀",\n`);
  const wide = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`p${index}`, "x".repeat(100)]));
  await completed(caller, JSON.stringify({ contact_id: "wide", email: "w@example.com", properties: wide }), {
    type: "application/x-ndjson",
  });
  const rows = (await contactsOf(caller.tenantId)).map(({ contact_id, email, name, properties }) => ({
    contact_id,
    email,
    name,
    properties,
  }));
  for (const more of [{ format: "jsonl" }, { format: "csv", formulas: "keep" }]) {
    const { batch, text } = await exported(caller, more);
    expect(batch.rows.done).toBe(1302);
    if (more.format === "jsonl")
      expect(
        text
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line)),
      ).toEqual(rows);
    await completed(other, text, { type: more.format === "csv" ? "text/csv" : "application/x-ndjson" });
    expect(
      (await contactsOf(other.tenantId)).map(({ contact_id, email, name, properties }) => ({ contact_id, email, name, properties })),
    ).toEqual(rows);
  }
});

it("a CSV for spreadsheets has no formulas, unless an exact one is requested", async () => {
  const caller = await callerWith();
  await completed(caller, "contact_id,email,name\nc1,a@example.com,=1+1\nc2,b@example.com,@home\n");
  const safe = (await exported(caller, { format: "csv" })).text;
  expect(safe).toBe("contact_id,email,name,properties\nc1,a@example.com,'=1+1,\nc2,b@example.com,'@home,\n");
  expect((await exported(caller, { format: "csv", formulas: "keep" })).text).toContain("c1,a@example.com,=1+1,");
});

it("an import of a CSV export changes no contact, and a reconciliation of it finds no difference", async () => {
  const caller = await callerWith();
  const other = await callerWith();
  const ids = ["+4917012345", "@home", "=x", "-x", "＋49", "＝1", "'+49", "''=x", "'quoted", ";=1+1", "a;'-b", `a;"=1`];
  const rows = ids.map((contact_id, at) => ({
    contact_id,
    email: `+${at}@example.com`,
    name: `=${at}\t=1\r\n-2`,
    properties: { note: "x;=1+1;y", "=key": "\t+1" },
  }));
  const jsonl = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  await completed(caller, jsonl, { type: "application/x-ndjson" });
  const before = await contactsOf(caller.tenantId);
  for (const formulas of ["escape", "keep"]) {
    const { text } = await exported(caller, { format: "csv", formulas });
    const more = `&formulas=${formulas}`;
    expect(await completed(caller, text, { operation: "reconcile", more })).toMatchObject({
      findings: { same: 12, different: 0, only_there: 0, only_here: 0 },
    });
    await completed(other, text, { more });
    const said = ({ contact_id, email, name, properties }: Json) => ({ contact_id, email, name, properties });
    expect((await contactsOf(other.tenantId)).map(said)).toEqual(before.map(said));
  }
});

it("an import removes an apostrophe before a formula from any file, and keeps it with `formulas=keep`", async () => {
  const caller = await callerWith();
  const file = "contact_id,email,name\n'+49170,a@example.com,'Ida\n";
  await completed(caller, file);
  await completed(caller, file, { more: "&formulas=keep" });
  expect((await contactsOf(caller.tenantId)).map(({ contact_id, name }) => [contact_id, name])).toEqual([
    ["'+49170", "'Ida"],
    ["+49170", "'Ida"],
  ]);
});

it("an export without rows is a header, and its import has no result", async () => {
  const caller = await callerWith();
  expect((await exported(caller, { format: "csv" })).text).toBe("contact_id,email,name,properties\n");
  const { batch_id: id } = await completed(caller, contactsCsv(1));
  expect(expectProblem(await caller.get(`/v1/batches/${id}/result`), 409, "invalid_transition").detail).toContain(
    `/v1/batches/${id}/errors`,
  );
});

it("a reconciliation lists the rows of one side only and the different rows, and publishes its result as a fact", async () => {
  const caller = await callerWith();
  await completed(caller, contactsCsv(1200));
  const theirs = contactsCsv(1210)
    .replace("c5,p5@example.com", "c5,other@example.com")
    .replace('c6,p6@example.com,"Person, 6",gold', 'c6,p6@example.com,"Somebody, 6",iron')
    .replace(/^c7,.*\n/m, "")
    .replace(/^c8,.*$/m, "c8,no address,,");
  const batch = await completed(caller, theirs, { operation: "reconcile", id: "audit" });
  expect(batch).toMatchObject({
    rows: { done: 1208, failed: 1 },
    findings: { same: 1196, different: 2, only_there: 10, only_here: 2 },
  });
  const { body } = await caller.get("/v1/batches/audit/result");
  const lines = String(body).trim().split("\n");
  expect(lines[0]).toBe("finding,key,row,line,fields");
  expect(lines).toContain("different,c5,6,7,email");
  expect(lines).toContain("different,c6,7,8,name properties");
  expect(lines).toContain("only_here,c7,,,");
  expect(lines).toContain("only_there,c1209,1209,1210,");
  expect(lines).toHaveLength(15);
  // The reconciliation changes nothing.
  expect(new Set((await contactsOf(caller.tenantId)).map(({ revision }) => revision))).toEqual(new Set([1]));
  expect(await env.DB.prepare("SELECT count(*) AS n FROM batch_keys WHERE tenant_id = ?1").bind(caller.tenantId).first("n")).toBe(0);

  const fact = () =>
    env.DB.prepare("SELECT * FROM facts WHERE tenant_id = ?1 AND entity = 'batch/audit'")
      .bind(caller.tenantId)
      .first<Record<string, string>>();
  const stated = await until(fact, (row) => row !== null);
  expect(stated).toMatchObject({ type: "reconciliation", subtype: "contacts" });
  expect(JSON.parse(stated?.payload ?? "")).toEqual({
    about: "contacts",
    same: 1196,
    different: 2,
    only_there: 10,
    only_here: 2,
    unreadable: 1,
  });
});

it("a late attempt of an export cannot change a part of the file that another attempt has committed", async () => {
  const caller = await callerWith();
  await completed(caller, contactsCsv(3));
  const { batch, text } = await exported(caller, { format: "csv" });
  await completed(caller, contactsCsv(5).replaceAll("Person", "Somebody else"));
  // A late attempt of a process that was considered dead: it reads the current state, and stores its part; its commit is refused.
  const call = { env, envelope: { tenant_id: caller.tenantId } as Envelope, batchId: batch.batch_id, progress: () => undefined };
  const late = await exportPage(call, undefined);
  expect(late.statements).toHaveLength(2);
  expect((await caller.get(`/v1/batches/${batch.batch_id}/result`)).body).toBe(text);
});
