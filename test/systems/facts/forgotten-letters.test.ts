import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { keeperOf } from "millrace/worker";
import { expect, it } from "vitest";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import { deliverMessages, factsOf, messageOf, recordedFact } from "./derived.ts";

const DAY_MS = 86_400_000;

/** A fact about money with an exhausted message, captured this number of days ago. */
async function letterOf(caller: Caller, type: "outcome" | "charge", days: number): Promise<string> {
  const name = fresh(type);
  const fact = recordedFact(caller.tenantId, type, name, { account: "shop", amount_cents: 7, value_cents: 7 } as never);
  const message = await messageOf(type === "charge" ? ({ ...fact, payload: { account: "shop", amount_cents: 7 } } as never) : fact);
  // Its tenant is not its message's: no retry can fix that.
  await deliverMessages([{ ...message, payload: { ...((message as Json).payload as object), tenant_id: "somebody-else" } } as never]);
  const { items } = (await caller.get("/v1/dead-letters?limit=50")).body;
  const letter = items.find(({ idempotency_key }: Json) => idempotency_key === `${type}/${name}/${name}`);
  expect(letter).toMatchObject({ message_type: `fact.${type}`, queue: "fact-processing" });
  await env.DB.prepare("UPDATE millrace_dead_letters SET captured_at = captured_at - ?2 WHERE id = ?1")
    .bind(letter.id, days * DAY_MS)
    .run();
  return letter.id;
}

/** The keeper's scan that handles open dead letters. */
async function round(): Promise<void> {
  await runInDurableObject(keeperOf(env), async (_, { storage }) => {
    const turns = await storage.get<object>("retention");
    await storage.put("retention", { ...turns, "dead letters open": { dueAt: -1, from: null } });
  });
  await keeperOf(env).round();
}

const statedOf = (caller: Caller) => factsOf(caller.tenantId, "queue/fact-processing");

it("a dead letter about money is deleted after 90 days without an action, with the same fact as a skip, once", async () => {
  const caller = await callerWith();
  const [outcome, charge, young] = [
    await letterOf(caller, "outcome", 91),
    await letterOf(caller, "charge", 91),
    await letterOf(caller, "charge", 89),
  ];
  await round();
  await round();
  const facts = await until(
    () => statedOf(caller),
    (stated) => stated.length >= 2,
  );
  expect(facts.map(({ fact_id }) => fact_id).toSorted()).toEqual([`skip/${outcome}`, `skip/${charge}`].toSorted());
  for (const fact of facts) {
    expect(fact).toMatchObject({ type: "reconciliation", subtype: "skipped_dead_letter", entity: "queue/fact-processing" });
    expect(fact.payload).toMatchObject({ note: "No operator replayed or skipped the dead letter for 90 days.", actor: "retention" });
  }
  expect(facts.map(({ payload }) => (payload as Json).message_type).toSorted()).toEqual(["fact.charge", "fact.outcome"]);
  expect((await caller.get("/v1/dead-letters?state=open")).body.items.map(({ id }: Json) => id)).toEqual([young]);
});

it("a dead letter that an operator skips at the moment of its deletion is published once, in the form of the first action", async () => {
  const caller = await callerWith();
  const letter = await letterOf(caller, "charge", 91);
  await Promise.all([round(), caller.post(`/v1/dead-letters/${letter}/skip`, { reason: "paid in cash" })]);
  const facts = await until(
    () => statedOf(caller),
    (stated) => stated.length >= 1,
  );
  expect(facts).toHaveLength(1);
  const { results } = await env.DB.prepare("SELECT state FROM millrace_dead_letters WHERE id = ?1").bind(letter).all();
  expect([(facts[0] as Json).payload.actor, results]).toEqual(results.length > 0 ? ["ada", [{ state: "skipped" }]] : ["retention", []]);
});
