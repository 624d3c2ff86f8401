import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, inject } from "vitest";
import type { RecordedFact, StatedFact } from "../../../src/messages/fact.ts";
import { appendFacts, ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { type Caller, fresh, type Json, until } from "../../api/client.ts";
import type { Received, Treatment } from "./receiver.ts";

export const receiverUrl = inject("receiverUrl");

/** The receiver's path of a hook. */
export function hookUrl(name: string): string {
  return `${receiverUrl}/hook/${name}`;
}

/** Sets a hook's secrets in the receiver, and its responses to the next requests. */
export async function tell(name: string, words: { secrets?: string[]; treatments?: Treatment[] }): Promise<void> {
  await fetch(`${receiverUrl}/tell/${name}`, { method: "PUT", body: JSON.stringify(words) });
}

/** The receiver's own ledger of a hook, once there are this many requests. */
export async function received(name: string, count = 0): Promise<Received[]> {
  return until(
    async () => (await fetch(`${receiverUrl}/ledger/${name}`)).json<Received[]>(),
    (found) => found.length >= count,
  );
}

/** An endpoint with its own hook, which has the endpoint's secret. */
export async function endpoint(caller: Caller, config: Record<string, unknown> = {}) {
  const hook = fresh("hook");
  const { status, body } = await caller.post("/v1/webhooks", { url: hookUrl(hook), fact_types: ["outcome"], ...config });
  expect({ status, body }).toMatchObject({ status: 201 });
  await tell(hook, { secrets: [body.secret] });
  const path = `/v1/webhooks/${body.id}`;
  return {
    hook,
    id: body.id as string,
    secret: body.secret as string,
    path,
    /** The endpoint's one delivery, once it is in this state. */
    async delivery(state: string): Promise<Json> {
      const look = async () => (await caller.get(`${path}/deliveries`)).body.items;
      const [found] = await until(look, (items) => items[0]?.state === state);
      expect(found).toMatchObject({ state });
      return (await caller.get(`${path}/deliveries/${found.id}`)).body;
    },
  };
}

/** Publishes an outcome to its ledger, as its observer would. */
export async function outcome(tenantId: string, fact: Partial<StatedFact> = {}): Promise<StatedFact> {
  const stated = {
    fact_id: fresh("fact"),
    entity: `account/${fresh("a")}`,
    type: "outcome",
    occurred_at: "2026-10-01T09:30:00.000Z",
    payload: { account: "a1", value_cents: 1200 },
    ...fact,
  } as StatedFact;
  const trace_id = crypto.randomUUID().replaceAll("-", "");
  await appendFacts(env, { tenant_id: tenantId, trace_id, correlation_id: "job", causation_id: "test" }, [stated]);
  return stated;
}

/** Deliveries of this test do not wait between their attempts. */
export async function hurried() {
  const introspector = await introspectWorkflow(env.DELIVER_WEBHOOK);
  await introspector.modifyAll(async (instance) => {
    await instance.disableRetryDelays();
  });
  return introspector;
}

/** A ledger's facts, once there are this many. */
export async function factsOf(tenantId: string, entity: string, count: number): Promise<RecordedFact[]> {
  return until(
    async () => (await ledgerOf(env, tenantId, entity).read(0, 100)) as RecordedFact[],
    (facts) => facts.length >= count,
  );
}

/** The facts of an endpoint's own ledger. */
export function ledger(tenantId: string, endpointId: string, count: number): Promise<RecordedFact[]> {
  return factsOf(tenantId, `webhook/${endpointId}`, count);
}
