import { expect, it, onTestFinished } from "vitest";
import { callerWith, expectProblem, type Json } from "../../api/client.ts";
import { routing } from "../../probe/routing.ts";
import { deliver, fresh, rows, until } from "../harness.ts";
import { state } from "./stating.ts";

it("the dead letter of a published event is found by the idempotency key, and by the subject while it is open", async () => {
  const [caller, stranger, name] = [await callerWith(), await callerWith(), fresh()];
  const key = fresh("lost");
  routing.failing.add(name);
  onTestFinished(() => void routing.failing.delete(name));
  expect((await state(caller, { type: "probe.routed", payload: { name } }, key)).status).toBe(202);
  const [kept] = await until(
    () => rows<{ body: string }>("SELECT body FROM millrace_outbox WHERE body LIKE ?1", `%${name}%`),
    (found) => found.length === 1,
  );
  await deliver("probe-events", [JSON.parse(kept?.body ?? "")], 3);

  const { holders, captured } = (await caller.get(`/v1/keys/${key}`)).body;
  expect(holders).toMatchObject([{ kind: "event", name: "probe.routed", status: "stated" }]);
  expect(captured).toMatchObject([{ message_type: "probe.routed", state: "open", reason: "exhausted" }]);
  expect(captured[0].fingerprint).toBe(holders[0].fingerprint);
  const id = captured[0].dead_letter_id;
  const found = async (text: string, by = caller): Promise<Json[]> =>
    (await by.get(`/v1/search?q=${text}`)).body.items.filter((item: Json) => item.kind === "dead_letter");
  const way = { kind: "dead_letter", id, status: "open", url: `/v1/dead-letters/${id}`, match: "exact" };
  expect(await found(key)).toMatchObject([{ ...way, by: "idempotency_key" }]);
  expect(await found(name)).toMatchObject([{ ...way, by: "subject" }]);
  for (const text of [key, name]) expect(await found(text, stranger)).toEqual([]);
  expectProblem(await stranger.get(`/v1/keys/${key}`), 404, "key_not_found");

  await caller.post(`/v1/dead-letters/${id}/skip`, { reason: "nobody needs it" });
  expect(await found(name)).toEqual([]);
});
