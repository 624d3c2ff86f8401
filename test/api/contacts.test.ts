import { expect, it } from "vitest";
import { completed, contactsCsv } from "../systems/batches/batch.ts";
import { callerWith, type Json } from "./client.ts";

it("GET /v1/contacts lists all contacts page by page, and marks the last page", async () => {
  const caller = await callerWith();
  await completed(caller, contactsCsv(4));
  const first = (await caller.get("/v1/contacts?limit=2")).body;
  const second = (await caller.get(`/v1/contacts?limit=2&cursor=${first.next_cursor}`)).body;
  expect([first, second].flatMap(({ items }) => items.map(({ contact_id }: Json) => contact_id))).toEqual(["c0", "c1", "c2", "c3"]);
  expect((await caller.get("/v1/contacts?contact_id=c1")).body).toMatchObject({ items: [{ contact_id: "c1" }], next_cursor: null });
  expect([first.next_cursor, second.next_cursor]).toEqual([expect.any(String), null]);
});
