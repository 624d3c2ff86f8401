import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { StatedFact } from "../../../src/messages/fact.ts";
import { FactObserved } from "../../../src/messages/facts.ts";
import { appendEach, appendFacts, ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { callerWith, fresh } from "../../api/client.ts";
import { deliver, ledger, projectedUntil, sent } from "./facts.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";

/** A step's message about an observed fact. */
function observed(tenantId: string, fact: ReturnType<typeof sent>): object {
  const { type, subject, payload } = FactObserved.from(fact);
  return {
    schema_version: 1,
    message_type: type,
    kind: "event",
    source: "workflow:deliver-webhook",
    correlation_id: "job 7",
    causation_id: "9c/send",
    idempotency_key: fresh("9c."),
    subject,
    tenant_id: tenantId,
    created_at: new Date().toISOString(),
    traceparent: `00-${TRACE}-b7ad6b7169203331-01`,
    payload_inline: payload,
  };
}

it("a step's observed fact is appended once, for any number of deliveries, with its message's trace and job", async () => {
  const caller = await callerWith();
  const entity = fresh("endpoint/");
  const message = observed(caller.tenantId, sent(entity));
  expect(await deliver("fact-processing", [message, message])).toEqual({ acked: 2, retried: 0 });
  expect(await deliver("fact-processing", [message])).toEqual({ acked: 1, retried: 0 });
  expect(await projectedUntil(caller.tenantId, 1)).toMatchObject([{ entity, trace_id: TRACE, correlation_id: "job 7" }]);
  expect((await ledger(caller, entity)).last).toBe(1);
});

it("a fact with another fact's name becomes a dead letter at once, because no retry can succeed, and the other facts continue", async () => {
  const caller = await callerWith();
  const entity = fresh("endpoint/");
  const fact = sent(entity);
  const other = { ...fact, subtype: "else" };
  await deliver("fact-processing", [observed(caller.tenantId, fact)]);
  const batch = [observed(caller.tenantId, other), observed(caller.tenantId, sent(entity))];
  expect(await deliver("fact-processing", batch)).toEqual({ acked: 2, retried: 0 });
  expect((await ledger(caller, entity)).last).toBe(2);
  const letters = (await caller.get("/v1/dead-letters")).body.items;
  expect(letters).toMatchObject([{ message_type: "fact.observed", reason: "idempotency_key_reused" }]);
});

it("an unreachable ledger refuses its own facts only; a restarting ledger is called again", async () => {
  const caller = await callerWith();
  const [gone, restarting, well] = [fresh("account/"), fresh("account/"), fresh("account/")];
  let restarts = 0;
  const name = (entity: string) => String(env.LEDGER.idFromName(`${caller.tenantId}/${entity}`));
  const LEDGER = {
    idFromName: (text: string) => env.LEDGER.idFromName(text),
    get(id: DurableObjectId) {
      if (String(id) === name(gone)) return { append: () => Promise.reject(new Error("It is gone.")) };
      if (String(id) === name(restarting) && restarts++ < 2)
        return {
          append: () => Promise.reject(Object.assign(new Error("Durable Object reset because its code was updated."), { retryable: true })),
        };
      return env.LEDGER.get(id);
    },
  };
  const from = { tenant_id: caller.tenantId, trace_id: TRACE, correlation_id: "c", causation_id: "test" };
  const bindings = { ...env, LEDGER } as unknown as Env;
  const answers = await appendEach(bindings, from, [sent(well), sent(gone), sent(restarting), sent(well)]);
  expect(answers).toMatchObject([{ sequence: 1 }, new Error("It is gone."), { sequence: 1 }, { sequence: 2 }]);
});

it("a fact that code publishes incorrectly is refused alone on entry, because no message could remove it from its ledger", async () => {
  const caller = await callerWith();
  const [entity, other] = [fresh("account/"), fresh("account/")];
  const from = { tenant_id: caller.tenantId, trace_id: TRACE, correlation_id: "c", causation_id: "test" };
  const wrong = { ...sent(entity), type: "charge", payload: { account: "a1", amount_cents: 1.5 } } as unknown as StatedFact;
  expect(await appendEach(env, from, [wrong, sent(other)])).toMatchObject([{ code: "invalid_payload" }, { sequence: 1 }]);
  await expect(appendFacts(env, from, [wrong])).rejects.toMatchObject({ code: "invalid_payload" });
  expect(await ledgerOf(env, caller.tenantId, entity).state()).toMatchObject({ last: 0 });
});
