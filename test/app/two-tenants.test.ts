import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, onTestFinished } from "vitest";
import { workflowBinding } from "../../packages/millrace/src/contract/bindings.ts";
import type { MessageDefinition } from "../../packages/millrace/src/contract/message.ts";
import { app } from "../../src/catalog.ts";
import { fresh, type Json } from "../api/client.ts";
import { deliver } from "../systems/facts/facts.ts";
import { COMMANDS, MESSAGES, messageOf, ROUTES } from "./messages.ts";
import { EMPTY_AT_REST, everythingOf, type OtherTenant, otherTenant, settled, textOf } from "./other-tenant.ts";
import { payloadsOf, withText } from "./payloads.ts";

/** Instances of this test have no waits. */
async function hurried(): Promise<void> {
  for (const { name } of app.workflows) {
    const introspector = await introspectWorkflow(workflowBinding(env, name));
    await introspector.modifyAll(async (instance) => {
      await instance.disableRetryDelays();
      await instance.disableSleeps();
    });
    onTestFinished(() => introspector.dispose());
  }
}

/** Messages of tenants that contain every id of the other tenant. Each message has a separate tenant, so that none is a repeat. */
async function hostileMessages(
  definition: MessageDefinition,
  { caller, names }: OtherTenant,
  tenants: string,
): Promise<Record<string, Json[]>> {
  const messages: Record<string, Json[]> = { own: [], foreign: [], stolen: [] };
  let count = 0;
  const add = (kind: string, makePayload: (tenantId: string) => Json, more: object = {}) => {
    const tenantId = `${tenants}-${kind}-${definition.type.replace(".", "-")}-${++count}`;
    messages[kind]?.push(messageOf(definition, tenantId, names, makePayload(tenantId), more));
  };
  for (const [index, one] of payloadsOf(definition, names).entries()) {
    const payloadOf = (tenantId: string) => payloadsOf(definition, { ...names, tenant_id: tenantId })[index];
    // The other tenant's values of each field, from a caller and from a ledger.
    add("own", payloadOf);
    if (definition.kind === "event") add("own", payloadOf, { source: "ledger", outbox: "sender", sequence: 1 });
    // The other tenant's own name, in every possible text.
    for (const place of withText(definition, one, caller.tenantId).keys()) {
      add("foreign", (tenantId) => withText(definition, payloadOf(tenantId), caller.tenantId)[place]);
    }
    // A stored payload of the other tenant.
    const key = `payloads/${caller.tenantId}/${definition.type}/${index}`;
    await env.PAYLOADS.put(key, JSON.stringify(one));
    add("stolen", payloadOf, { payload_inline: undefined, payload_ref: `r2://${key}` });
  }
  return messages;
}

/** The tenants with failed messages: each with its dead letter, or with the error of its instance. */
async function refusedOf(tenants: string): Promise<Map<string, { letter: number; error: string }>> {
  const { results } = await env.DB.prepare(
    `SELECT tenant_id, true AS letter, error FROM millrace_dead_letters WHERE tenant_id GLOB ?1
     UNION ALL SELECT tenant_id, false, error->>'message' FROM millrace_instances WHERE tenant_id GLOB ?1 AND status = 'errored'`,
  )
    .bind(`${tenants}-*`)
    .all<{ tenant_id: string; letter: number; error: string }>();
  return new Map(results.map(({ tenant_id, ...refused }) => [tenant_id, refused]));
}

it("T01 a message of one tenant leaves every item of another tenant unchanged, and reveals none of it, for any ids in it", {
  timeout: 300_000,
}, async () => {
  await hurried();
  const other = await otherTenant();
  const tenants = fresh("mallory");
  const hostile = await Promise.all(MESSAGES.map((definition) => hostileMessages(definition, other, tenants)));
  const before = await everythingOf(other);
  for (const [room, found] of Object.entries(before)) expect(found, room).not.toEqual([]);
  const empty = Object.entries<Json>(before.rows).flatMap(([table, rows]) => (rows.length === 0 ? [table] : []));
  expect(empty, "tables of which the other tenant has no row that could be changed").toEqual(EMPTY_AT_REST);

  for (const [index, messages] of hostile.entries()) {
    const { type, queue } = MESSAGES[index] as MessageDefinition;
    const bodies = Object.values(messages).flat();
    const { acked, retried } = await deliver(queue.name, bodies);
    expect({ type, acked, retried }).toEqual({ type, acked: bodies.length, retried: 0 });
  }
  await settled(`${tenants}-*`);
  await settled(other.caller.tenantId);
  expect(await everythingOf(other)).toEqual(before);

  expect(await textOf(`${tenants}-*`)).not.toContain(other.secret);
  expect(await textOf(other.caller.tenantId)).toContain(other.secret);

  // Each message was read to the end: it becomes a dead letter only if its payload names another tenant than its envelope.
  const all = (kind: string) => hostile.flatMap((messages) => messages[kind] ?? []);
  const tenantsOf = (messages: readonly Json[]) => messages.map(({ tenant_id }) => tenant_id).toSorted();
  const lettersOf = async (kind: string) => [...(await refusedOf(`${tenants}-${kind}`))].filter(([, { letter }]) => letter === 1);
  expect(await lettersOf("own")).toEqual([]);
  const foreign = await lettersOf("foreign");
  const lying = all("foreign").filter(({ payload_inline }) => payload_inline.tenant_id === other.caller.tenantId);
  expect(foreign.map(([tenantId]) => tenantId).toSorted()).toEqual(tenantsOf(lying));
  for (const [, { error }] of foreign) expect(error).toContain("names another tenant");

  // No reader gets another tenant's data.
  const followed = new Set(
    [...COMMANDS, ...ROUTES.filter(({ targets }) => targets.length > 0).map(({ event }) => event)].map(({ type }) => type),
  );
  const stolen = await refusedOf(`${tenants}-stolen`);
  expect([...stolen.keys()].toSorted()).toEqual(tenantsOf(all("stolen").filter(({ message_type }) => followed.has(message_type))));
  for (const { error } of stolen.values()) expect(error).toMatch(/^The payload at r2:.* is gone/);
});
