import { expect, it } from "vitest";
import { callerWith } from "../api/client.ts";
import { completed, contactsCsv, contactsOf, problemsOf } from "./batch.ts";

it("an uploaded file becomes rows, each written once, and the batch says how many", async () => {
  const caller = await callerWith();
  const batch = await completed(caller, contactsCsv(2500));
  expect(batch).toMatchObject({ state: "complete", rows: { done: 2500, failed: 0, skipped: 0 }, error: null, findings: null });
  expect(batch.read_bytes).toBe(batch.total_bytes);
  const contacts = await contactsOf(caller.tenantId);
  expect(contacts).toHaveLength(2500);
  expect(contacts[0]).toMatchObject({
    contact_id: "c0",
    email: "p0@example.com",
    name: "Person, 0",
    properties: { plan: "gold" },
    revision: 1,
    imported_by: batch.batch_id,
  });
  expect(await problemsOf(caller, batch.batch_id)).toEqual([]);
});
