import { createExecutionContext, createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Scope } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { MessageDefinition } from "../../packages/millrace/src/contract/message.ts";
import worker from "../../src/worker.ts";
import { ALL_SCOPES, type Answer, type Caller, callerWith, fresh, type Json } from "../api/client.ts";
import { seedLetter } from "../api/seed.ts";
import { COMMANDS, EVENTS } from "./messages.ts";

/** A payload that no message has: an authorized caller gets 422, and no instance is created. */
const NO_PAYLOAD = null;

/** An endpoint by which an outside caller can send a message. */
interface Outer {
  readonly name: string;
  /** The scope of the endpoint itself. */
  readonly scope: Scope;
  readonly ask: (caller: Caller, definition: MessageDefinition) => Promise<Pick<Answer, "status" | "body">>;
}

const reason = "a test";
const cloudEvent = (type: string) => ({ specversion: "1.0", id: fresh(), source: "/shop", type });

/** The four endpoints that accept messages. */
function ways(path: string, list: string): Outer[] {
  const scope = "enqueue";
  const key = () => ({ "idempotency-key": fresh() });
  return [
    { name: `POST ${path}`, scope, ask: (caller, { type }) => caller.post(path, { type, payload: NO_PAYLOAD }, key()) },
    {
      name: `POST ${path}/batch`,
      scope,
      async ask(caller, { type }) {
        const item = { type, payload: NO_PAYLOAD, idempotency_key: fresh() };
        const answer = await caller.post(`${path}/batch`, { [list]: [item] });
        const [result] = answer.body.results ?? [];
        return result ? { status: result.status, body: result.problem } : answer;
      },
    },
    {
      name: `a structured CloudEvent at ${path}`,
      scope,
      ask: (caller, { type }) =>
        caller.post(path, { ...cloudEvent(type), data: NO_PAYLOAD }, { "content-type": "application/cloudevents+json" }),
    },
    {
      name: `a binary CloudEvent at ${path}`,
      scope,
      ask(caller, { type }) {
        const attributes = Object.entries(cloudEvent(type)).map(([name, value]) => [`ce-${name}`, value]);
        return caller.post(path, "null", Object.fromEntries(attributes));
      },
    },
  ];
}

const SCHEDULES: readonly Outer[] = [
  {
    name: "a schedule that is created",
    scope: "operate",
    ask: (caller, { type }) =>
      caller.call("PUT", `/v1/schedules/${fresh("s")}`, { cron: "0 7 * * 1", command: { type, payload: NO_PAYLOAD }, reason }),
  },
  {
    name: "a schedule that is run immediately",
    scope: "operate",
    async ask(caller, command) {
      const name = await seedSchedule(caller, command);
      return caller.post(`/v1/schedules/${name}/run`, { reason });
    },
  },
];

const CORRECTION: Outer = {
  name: "a corrected dead letter",
  scope: "operate",
  async ask(caller, { type, kind, queue, version }) {
    const body = letterOf(caller, { type, kind, version });
    const id = await seedLetter(caller.tenantId, { body, queue: queue.name });
    return caller.post(`/v1/dead-letters/${id}/replay`, { reason, body: { ...body, payload_inline: 7 } });
  },
};

/** A stored schedule from a deployment with another access rule of the command. */
async function seedSchedule({ tenantId }: Caller, { type }: Pick<MessageDefinition, "type">): Promise<string> {
  const name = fresh("s");
  await env.DB.prepare(
    `INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, next_at, changed_at, changed_by)
     VALUES (?1, ?2, '0 0 1 1 *', 'UTC', ?3, 'null', 3600000, 'active', ?4, ?4, 'ada')`,
  )
    .bind(tenantId, name, type, Date.now() - 1000)
    .run();
  return name;
}

function letterOf({ tenantId }: Caller, { type, kind, version }: Pick<MessageDefinition, "type" | "kind" | "version">): Json {
  return {
    schema_version: version,
    message_type: type,
    kind,
    source: "test",
    correlation_id: "job",
    causation_id: "test",
    idempotency_key: fresh(),
    subject: "a",
    tenant_id: tenantId,
    created_at: "2026-10-01T09:30:00.000Z",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    payload_inline: NO_PAYLOAD,
  };
}

/**
 * The scopes of tokens that distinguish an endpoint from every other: the exact scopes, all scopes, and all but one of the required
 * scopes.
 */
function tokensOf(needed: readonly Scope[]): Scope[][] {
  const but = (without: Scope) => ALL_SCOPES.filter((scope) => scope !== without);
  return [[...needed], [...ALL_SCOPES], ...needed.map(but)];
}

it("every command has an access rule that names its callers", () => {
  for (const { type, access } of COMMANDS) {
    expect(access, type).toMatchObject({ route: expect.stringMatching(/^(GET|POST|PUT) \//) });
    expect([null, ...ALL_SCOPES], type).toContain(access?.scope);
  }
});

const tenantId = fresh("tenant");
const minted = new Map<string, Promise<Caller>>();

function tokenWith(scopes: Scope[]): Promise<Caller> {
  const name = scopes.toSorted().join(" ");
  const caller = minted.get(name) ?? callerWith(scopes, tenantId);
  minted.set(name, caller);
  return caller;
}

/**
 * Sends a message to an endpoint with each of these tokens, and expects the response by the message's definition. `own` is the scope that
 * the endpoint itself requires, if any scope is sufficient.
 */
async function expectDoor({ scope, ask }: Outer, definition: MessageDefinition, own: string | null): Promise<void> {
  const needed = new Set([scope, ...ALL_SCOPES.filter((one) => one === own)]);
  for (const scopes of tokensOf([...needed])) {
    const caller = await tokenWith(scopes);
    const { status, body } = await ask(caller, definition);
    const may = scopes.includes(scope) && scopes.some((one) => one === own);
    const expected = may ? { status: 422, code: "invalid_payload" } : { status: 403, code: "forbidden" };
    expect({ scopes, status, code: body?.code }).toEqual({ scopes, ...expected });
    if (own === null && scopes.includes(scope)) expect(body.detail).toContain(definition.access?.route ?? "defineEvent");
  }
  const { results } = await env.DB.prepare(
    "SELECT id FROM millrace_instances WHERE tenant_id = ?1 UNION ALL SELECT id FROM millrace_outbox WHERE body->>'tenant_id' = ?1",
  )
    .bind(tenantId)
    .all();
  expect(results).toEqual([]);
}

describe.each([...ways("/v1/commands", "commands"), ...SCHEDULES, CORRECTION])("By $name", (outer) => {
  it.each(COMMANDS)("the command $type requires its own scope, and no other", (command) =>
    expectDoor(outer, command, command.access?.scope ?? null),
  );
});

describe.each(ways("/v1/events", "events"))("By $name", (outer) => {
  it.each(EVENTS)("the event $type is published with its own scope, and cannot be published if it has none", (event) =>
    expectDoor(outer, event, event.access?.scope ?? null),
  );
});

describe("By a corrected dead letter", () => {
  it.each(EVENTS)("the event $type can be corrected by an operator, unless its access rule is closed", (event) =>
    expectDoor(CORRECTION, event, event.access === undefined ? CORRECTION.scope : event.access.scope),
  );
});

it("a schedule that is older than its command's closed access rule is refused when it is due, with the reason", async () => {
  const caller = await callerWith();
  for (const command of COMMANDS) await seedSchedule(caller, command);
  await worker.scheduled(createScheduledController({ cron: "* * * * *" }), env, createExecutionContext());
  const { results } = await env.DB.prepare(
    `SELECT s.command, r.state, r.reason FROM millrace_schedules s LEFT JOIN millrace_schedule_runs r ON r.tenant_id = s.tenant_id AND r.name = s.name WHERE s.tenant_id = ?1`,
  )
    .bind(caller.tenantId)
    .all<Json>();
  await env.DB.prepare("DELETE FROM millrace_schedules WHERE tenant_id = ?1").bind(caller.tenantId).run();
  const said = new Map(results.map(({ command, ...run }) => [command, run]));
  for (const { type, access } of COMMANDS) {
    const reason = expect.stringContaining(access?.scope === null ? `No token can send ${type}` : "is not valid");
    expect(said.get(type), type).toEqual({ state: "refused", reason });
  }
  expect((await caller.get("/v1/instances")).body.items).toEqual([]);
});
