import { env } from "cloudflare:workers";
import { defineCommand, defineQueue, defineStep, defineWorkflow, MillraceError, type Steps, sql } from "millrace";
import { catalog } from "millrace/worker";
import { expect, it } from "vitest";
import * as z from "zod";
import type { MessageDefinition } from "../../../packages/millrace/src/contract/message.ts";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { callerWith } from "../../api/client.ts";
import { startsOf } from "../../probe/consumers.ts";
import { LabEvent } from "../../probe/lab.ts";
import { ProbeSignal, probeCommands } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { deliver, event, fresh, operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { ended, ONCE, stateOf } from "../operate/operating.ts";

const tenant = { tenantId: operator.tenantId, source: "test" };
const Odd = (key: (name: string) => string, subject: (name: string) => string) =>
  defineCommand({
    type: "lab.odd",
    payload: z.object({ name: z.string() }).optional(),
    key: (payload) => key(payload?.name ?? ""),
    subject: (payload) => subject(payload?.name ?? ""),
    queue: probeCommands,
  });
const asking = (on: MessageDefinition) => catalog({ consumers: [startsOf(defineWorkflow({ name: "lab", on, run: async () => 1 }))] });

it.each([
  [
    "key",
    Odd(
      (name) => name.slice(0, 1),
      () => "s",
    ),
  ],
  [
    "subject",
    Odd(
      (name) => name,
      (name) => name.slice(0, 1),
    ),
  ],
] as const)("Q02 a command with half of a surrogate pair in its %s is refused", async (what, definition) => {
  const [answer] = await acceptCommands(probeEnv, asking(definition as never), tenant, [
    { type: "lab.odd", payload: { name: `😀${fresh()}` } },
  ]);
  expect(answer).toMatchObject({
    code: "invalid_envelope",
    detail: { issues: [{ path: what === "key" ? "idempotency_key" : "subject" }] },
  });
});

it("A02 a command without a payload is refused, and the other command of the request is accepted", async () => {
  const on = Odd(
    (name) => name || "none",
    () => "s",
  );
  const answers = await acceptCommands(probeEnv, asking(on as never), tenant, [
    { type: "lab.odd", payload: undefined },
    { type: "lab.odd", payload: { name: fresh() } },
  ]);
  expect(answers).toMatchObject([{ code: "invalid_payload" }, { replayed: false }]);
});

it.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 31_536_001, "10" as never])(
  "A03 a command with a delay of %s seconds is refused, because the keeper would never check it",
  async (delaySeconds) => {
    const [answer] = await acceptCommands(probeEnv, app, tenant, [{ type: "lab.requested", payload: { name: fresh() }, delaySeconds }]);
    expect(answer).toMatchObject({ code: "invalid_payload", detail: { issues: [{ path: "delay_seconds" }] } });
  },
);

it.each([
  ["an invalid delay", { retries: { limit: 1, delay: "10 secs" as never } }],
  ["an invalid number of tries", { retries: { limit: Number.NaN, delay: 10 } }],
  ["an invalid timeout", { timeout: Number.NaN }],
])("a step with %s fails at once, and the error names the step", async (_, policy) => {
  const { instanceId } = await runLab(({ step }) => step.read("look", async () => 1, policy));
  expect(await ended(instanceId)).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({ step: "look", code: "config_invalid" });
});

it("T01 workflow code gets a read-only envelope, and cannot change a message or a question after its step", async () => {
  const name = fresh();
  const { instanceId } = await runLab(async ({ step, envelope }) => {
    expect(() => Object.assign(envelope, { tenant_id: "umbrella" })).toThrow(TypeError);
    await step.commit("say", () => ({ emit: [LabEvent.from({ name, note: "", row: name })] }));
  });
  expect(await ended(instanceId)).toBe("complete");
  const [sent] = await rows<{ messages: string }>("SELECT messages FROM millrace_inbox WHERE instance_id = ?1", instanceId);
  expect(JSON.parse(sent?.messages ?? "[]")).toMatchObject([{ tenant_id: operator.tenantId }]);
});

it.each([
  ["a key `__proto__`", '{"about":"x","value":"v","__proto__":{"a":1}}'],
  ["5,000 levels", `{"about":"x","value":"v","more":${"[".repeat(5000)}${"]".repeat(5000)}}`],
])("Q02 a message with %s in a payload by reference becomes a dead letter", async (_, text) => {
  const name = fresh("ref");
  await env.PAYLOADS.put(`payloads/acme/outside/${name}`, text);
  const { payload_inline: _inline, ...bare } = event("probe.signal", name, {});
  expect(await deliver("probe-events", [{ ...bare, payload_ref: `r2://payloads/acme/outside/${name}` }])).toMatchObject({ acked: 1 });
  expect(await rows("SELECT reason FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`)).toEqual([{ reason: "invalid_payload" }]);
});

const thrown: Record<string, () => unknown> = {
  "an error with a code of three megabytes": () => Object.assign(new Error("Large."), { code: "c".repeat(3_000_000) }),
  "a revoked proxy": () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  },
  "nothing at all": () => undefined,
  "an error of another library with a code like MillraceError": () => Object.assign(new Error("14 UNAVAILABLE"), { code: "unavailable" }),
};

it.each(Object.keys(thrown))(
  "a step that throws %s fails with an error that contains the step's name; a once effect is then in doubt",
  async (what) => {
    const fails = async (): Promise<number> => {
      throw thrown[what]?.();
    };
    const { instanceId } = await runLab(({ step }: { step: Steps }) => step.read("look", fails, ONCE));
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "look", code: "step_failed", attempts: 1 });
    const mail = defineStep({ effect: "once", ...ONCE, run: fails });
    const once = await runLab(({ step }) => step.effect("mail", mail, {}));
    expect(await reaches(once.instanceId, "in_doubt", "errored")).toBe("in_doubt");
  },
);

/** Outputs that the compiler cannot check, because their code returns `unknown`. */
const strange: [what: string, make: () => unknown, said: string][] = [
  ["a Map", () => new Map([["a", 1]]), "The step's output has a Map, which JSON would change: return plain data"],
  ["a Set within", () => ({ of: [{ ids: new Set(["a"]) }] }), 'The step\'s output has a Set at "of.0.ids"'],
  ["a Date", () => ({ at: new Date(0) }), 'The step\'s output has a Date at "at"'],
  ["a binding", () => env.DB, "The step's output has an object of the class"],
  ["a function within", () => ({ id: "a", retry: () => 1 }), 'The step\'s output has a function at "retry"'],
  ["an error", () => ({ failed: new TypeError("Bad.") }), 'an object of the class TypeError at "failed"'],
  ["100,000 levels", () => Array.from({ length: 100_000 }).reduce((inner) => [inner], []), "The step's output is nested too deep: return"],
  [
    "a value that throws on read",
    () => ({ of: { toJSON: () => fails("Not signed in.") } }),
    "The step's output throws when it is read (Not signed in.): return plain data.",
  ],
  [
    "a value that throws a number",
    () => Object.defineProperty({}, "at", { enumerable: true, get: () => fails(7) }),
    "throws when it is read (7)",
  ],
  [
    "a value readable once",
    () => {
      let reads = 0;
      return Object.defineProperty({}, "at", { enumerable: true, get: () => (reads++ === 0 ? 1 : fails("Spent.")) });
    },
    "The step's output throws when it is read (Spent.)",
  ],
  ["NaN within", () => ({ average: 0 / 0 }), 'The step\'s output has NaN at "average", which JSON would change: return plain data'],
  ["Infinity in a list", () => [1, { most: [-Infinity] }], 'The step\'s output has -Infinity at "1.most.0"'],
  ["NaN", () => Number.NaN, "The step's output has NaN, which JSON would change"],
  ["undefined in a list", () => ({ list: [1, undefined] }), 'The step\'s output has undefined at "list.1"'],
  ["a hole in a list", () => ({ list: Object.assign([], { 1: 1 }) }), 'The step\'s output has undefined at "list.0"'],
  ["an invalid Date", () => ({ at: new Date(Number.NaN) }), 'The step\'s output has a Date at "at"'],
  ["a cycle", () => looped(), "The step's output is not JSON (a cycle or a BigInt): return plain data."],
];

it("the error of an output that throws when it is read contains no sensitive value", async () => {
  const person = { email: "ada@shop.example", city: "Graz" };
  const { instanceId } = await runLab(
    ({ step, payload }) => step.read("look", async () => ({ toJSON: () => fails(`No ${payload.person?.email}.`) }) as never, ONCE),
    { person },
  );
  expect(await ended(instanceId)).toBe("errored");
  const { body } = await (await callerWith(["read"], "acme")).get(`/v1/instances/${instanceId}`);
  expect(body.error.message).toContain("throws when it is read (No [redacted].)");
});

function fails(thrown: string | number): never {
  throw typeof thrown === "string" ? new Error(thrown) : thrown;
}

function looped(): unknown {
  const self: { self?: unknown } = {};
  return Object.assign(self, { self });
}

it.each(strange)(
  "W11 a step that returns %s fails, because JSON would change the value, and the error names the step",
  async (_, make, said) => {
    const { instanceId } = await runLab(({ step }) => step.read("look", async () => make(), ONCE));
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({
      step: "look",
      code: "output_not_serializable",
      message: expect.stringContaining(said),
    });
  },
);

it("W11 a step may return every value that JSON restores, also objects without a prototype and fields that are undefined", async () => {
  const { instanceId } = await runLab(async ({ step }) => {
    const bare = Object.assign(Object.create(null), { a: [null, { b: undefined }], [Symbol.dispose]: () => undefined }) as unknown;
    return step.read("look", async () => bare, ONCE);
  });
  expect(await ended(instanceId)).toBe("complete");
});

it("O03 a message for an unbound queue fails the step that emits it, and the error names the missing line of wrangler.jsonc", async () => {
  const Lost = defineCommand({
    type: "lab.lost",
    payload: z.object({}),
    key: () => "k",
    subject: () => "s",
    queue: defineQueue({ name: "no-such-queue" }),
  });
  const { instanceId } = await runLab(({ step }) => step.commit("say", () => ({ emit: [Lost.from({})] })));
  expect(await ended(instanceId)).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({
    step: "say",
    code: "config_invalid",
    message: expect.stringContaining("no-such-queue"),
  });
});

it("W05 a step that emits more messages than its inbox row can hold is recorded, and all its messages are counted", async () => {
  const name = fresh();
  const { instanceId } = await runLab(({ step }) =>
    step.commit("say", () => ({ emit: Array.from({ length: 5000 }, () => ProbeSignal.from({ about: name, value: "v" })) })),
  );
  expect(await ended(instanceId)).toBe("complete");
  expect(
    await until(
      () => stateOf(instanceId, "say"),
      (state) => state === "done",
    ),
  ).toBe("done");
  const caller = await callerWith(["read"], "acme");
  const { items, truncated, omitted } = (await caller.get(`/v1/instances/${instanceId}/events`)).body;
  expect([truncated, items.length + omitted]).toEqual([true, 5000]);
  expect(items.length).toBeGreaterThan(100);
  const { correlation_id, cost } = (await caller.get(`/v1/instances/${instanceId}`)).body;
  const { collapsed } = (await caller.get(`/v1/correlations/${correlation_id}`)).body;
  expect(collapsed).toMatchObject([{ instance_id: instanceId, message_type: "probe.signal", count: 4980 }]);
  expect(JSON.stringify(cost)).toMatch(/500[01]/);
});

it("A02 a repeat with the same key and text, but another payload version, is refused when the versions differ in meaning", async () => {
  const version = (number: number) =>
    defineCommand({
      type: "lab.priced",
      version: number,
      payload: z.object({ name: z.string(), price: z.number() }),
      key: ({ name }) => name,
      subject: ({ name }) => name,
      queue: probeCommands,
      ...(number > 1 && { upcasts: { 1: (old: { price: number }) => ({ ...old, price: old.price * 100 }) } }),
    });
  const now = asking(version(2) as never);
  const payload = { name: fresh("price"), price: 5 };
  const ask = (schemaVersion: number) => acceptCommands(probeEnv, now, tenant, [{ type: "lab.priced", payload, schemaVersion }]);
  expect(await ask(2)).toMatchObject([{ replayed: false }]);
  const [other] = await ask(1);
  expect(other).toBeInstanceOf(MillraceError);
  expect(other).toMatchObject({ code: "idempotency_key_reused" });
});

it("R02 an invalid statement fails its command, also when its text resembles a database error", async () => {
  const { instanceId } = await runLab(({ step }) =>
    step.commit("note", () => ({ statements: [sql`UPDATE probe_rows SET kind = 'daily limit overloaded' WHERE name = ${Number.NaN}`] })),
  );
  expect(await ended(instanceId)).toBe("errored");
  expect(await errorOf(instanceId)).toMatchObject({ step: "note", code: "config_invalid", attempts: 1 });
});
