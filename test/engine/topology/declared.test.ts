import {
  call,
  defineCommand,
  defineConsumer,
  defineEvent,
  defineLaneQueue,
  defineQueue,
  defineStep,
  defineWorkflow,
  on,
  project,
  retryAfter,
  send,
  sendEach,
  signal,
  start,
  tell,
} from "millrace";
import { catalog } from "millrace/worker";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { ProbeSignal } from "../../probe/messages.ts";
import { reaches } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { effect } from "../operate/operating.ts";

/** A definition as code makes it that no compiler has looked at. */
const loosely = (define: unknown) => define as (options?: object) => unknown;
const command = loosely(defineCommand);
const event = loosely(defineEvent);
const workflow = loosely(defineWorkflow);
const consumer = loosely(defineConsumer);

const queue = defineQueue({ name: "declared-commands" });
const name = ({ name }: { name: string }) => name;
const payload = z.object({ name: z.string() });
const asked = { type: "declared.asked", payload, key: name, subject: name, queue };
const told = { type: "declared.told", payload, subject: name, queue: defineQueue({ name: "declared-events" }) };
const flow = { name: "declared", on: defineCommand(asked), run: async () => undefined };
const taken = { queue, starts: [defineWorkflow(flow)] };

const NO_TYPE = "has no type: use dotted lower case";
const types: [type: unknown, says: string][] = [
  ...["", undefined, 5].map((type): [unknown, string] => [type, NO_TYPE]),
  ["order.place-lean", '"order.place-lean" has "-" in its type: use dotted lower case with digits and _, such as "order.ship"'],
  ["a b.c", 'has " " in its type'],
  ["A.b", 'has "A" in its type'],
  ["__proto__", "has no dot in its type"],
  ["happened", "has no dot in its type"],
  ["a.2nd", "has a part in its type that begins with no letter"],
  [`${"a.".repeat(60)}b`, "has a type of 121 characters, beyond 100"],
];
const versions = [0, -1, Number.NaN, 1.5, "2"];
const scopes = ["Bad Scope!", "", 5, undefined];

const run = async () => 1;
const plain = { effect: "keyed", run };
const step = loosely(defineStep);

/** Steps that no attempt could be made at, and so for their ways back. */
const ODD_STEPS: [what: string, odd: object, says: string][] = [
  ["that reads", { effect: "read" }, 'effect must be "keyed", "natural", "lookup" or "once", not "read"'],
  ["of no known class", { effect: "bogus" }, 'effect must be "keyed", "natural", "lookup" or "once", not "bogus"'],
  ["without code", { run: undefined }, "A step needs `run`"],
  ["that cannot look up", { effect: "lookup" }, "A lookup step needs `lookup`: the function"],
  ["with a key that is a text", { key: "x" }, "A step's `key` must be a function"],
  ["with an output that is no schema", { output: {} }, "A step's `output` must be a zod 4 schema"],
  ["with an input that is no schema", { input: "x" }, "A step's `input` must be a zod 4 schema"],
  ["of twenty minutes", { timeout: "20 minutes" }, "A step's timeout must be more than 0 and at most 10 minutes"],
  ["with retries below nothing", { retries: { limit: -1, delay: 0 } }, "retries.limit must be a whole number"],
  ["with retries that are null", { retries: null }, "retries.limit must be a whole number"],
];

/** Targets of routes of which something is forgotten. */
const NO_TARGETS: [what: string, make: () => unknown][] = [
  ["signal without its parentheses", () => signal],
  ["{}", () => ({})],
  ["undefined", () => undefined],
  ["a call of nothing", () => loosely(call)()],
  ["a projection of nothing", () => loosely(project)()],
  ["a call that has no time", () => call(run, { timeout: 0 })],
  ["a sending with an invalid row", () => sendEach(defineCommand(asked), () => [], {} as never)],
  ["a start of nothing", () => loosely(start)()],
  ["a start of {}", () => loosely(start)({})],
  ["a sending of nothing", () => (send as never as (...all: unknown[]) => unknown)(undefined, () => ({}))],
  ["a sending without payload", () => loosely(send)(defineCommand(asked))],
  ["a sending of each without payloads", () => loosely(sendEach)(defineCommand(asked))],
  ["a telling to nothing", () => (tell as never as (...all: unknown[]) => unknown)(undefined, () => "x")],
  ["a telling to no name", () => (tell as never as (...all: unknown[]) => unknown)("rooms")],
];

const REFUSED: [what: string, define: () => unknown, says: string][] = [
  ...types.flatMap(([type, says]): (typeof REFUSED)[number][] => [
    [`a command of the type ${JSON.stringify(type)}`, () => command({ ...asked, type }), says],
    [`an event of the type ${JSON.stringify(type)}`, () => event({ ...told, type }), says],
  ]),
  ...versions.map((version): (typeof REFUSED)[number] => [
    `a command of the version ${JSON.stringify(version)}`,
    () => command({ ...asked, version }),
    "use a whole number, from 1",
  ]),
  ...scopes.flatMap((scope): (typeof REFUSED)[number][] => [
    [`a command's door of the scope ${scope}`, () => command({ ...asked, door: { scope } }), "which no token can have"],
    [`an event's door of the scope ${scope}`, () => event({ ...told, door: { scope } }), "which no token can have"],
  ]),
  ["a command of nothing", () => command(), NO_TYPE],
  ["a command without payload", () => command({ ...asked, payload: undefined }), "pass a schema of zod 4"],
  ["a command with an invalid payload", () => command({ ...asked, payload: {} }), "pass a schema of zod 4"],
  ["a command without key", () => command({ ...asked, key: undefined }), "has no key: pass a function"],
  ["a command without subject", () => command({ ...asked, subject: undefined }), "has no subject: pass a function"],
  ["an event with a subject that is a text", () => event({ ...told, subject: "x" }), "has no subject: pass a function"],
  ["a version that nothing leads to", () => command({ ...asked, version: 2, upcasts: { 1: 5 } }), "the conversion from version 1 to 2"],
  ["a command on no queue", () => command({ ...asked, queue: "declared-commands" }), "has no queue: pass the result of defineQueue"],

  ["an event of nothing", () => event(), NO_TYPE],
  ["a payload of another library", () => command({ ...asked, payload: { safeParse: () => ({ success: true }) } }), "of zod 4"],
  ["a message on a queue of no such name", () => command({ ...asked, queue: { name: "NOT A NAME" } }), "has no queue"],

  ["a workflow of nothing", () => workflow(), '"undefined" is not a workflow name'],
  ["a workflow without a name", () => workflow({ ...flow, name: undefined }), '"undefined" is not a workflow name'],
  ["a workflow without run", () => workflow({ ...flow, run: undefined }), "needs `run`"],
  ["a workflow on no message", () => workflow({ ...flow, on: undefined }), "has no message that starts it"],
  ["a deadline beyond a year", () => workflow({ ...flow, deadline: "366 days" }), "must be at most 365 days"],

  ...ODD_STEPS.map(([what, odd, says]): (typeof REFUSED)[number] => [`a step ${what}`, () => step({ ...plain, ...odd }), says]),
  ...ODD_STEPS.map(([what, odd, says]): (typeof REFUSED)[number] => [
    `an undo ${what}`,
    () => step({ ...plain, undo: { ...plain, ...odd } }),
    `A step's \`undo\` must be a step definition, as for defineStep: ${says}`,
  ]),
  ...[null, {}, run].map((undo): (typeof REFUSED)[number] => [
    `an undo that is ${String(undo)}`,
    () => step({ ...plain, undo }),
    'effect must be "',
  ]),
  ["a step of nothing", () => step(), '"once", not "undefined"'],

  ...NO_TARGETS.map(([what, make]): (typeof REFUSED)[number] => [
    `a route's target that is ${what}`,
    () => on(defineEvent(told), make() as never),
    "Target 1 of on(declared.told, …) is invalid",
  ]),

  ["a lane of nothing", () => loosely(defineLaneQueue)(), "is not a lane's name"],
  ["a lane without a name", () => loosely(defineLaneQueue)({ name: null }), "is not a lane's name"],
  ["a queue of nothing", () => loosely(defineQueue)(), "is not a queue name"],
  ["a queue that is split by an unknown field", () => loosely(defineQueue)({ name: "q", by: "sub" }), 'by must be "tenant" or "subject"'],
  [
    "a queue with tenants that are no list",
    () => loosely(defineQueue)({ name: "q", tenants: "acme" }),
    "tenants and retired must be lists",
  ],
  ...["a_b", "a--b", "a-"].map((tenant): (typeof REFUSED)[number] => [
    `a queue of its own for the tenant ${tenant}`,
    () => defineQueue({ name: "q", tenants: [tenant] }),
    `The tenant "${tenant}" cannot have its own queue`,
  ]),
  [
    "a queue where another's dead letters go",
    () => {
      const other = defineQueue({ name: `${queue.name}-dlq` });
      return catalog({ consumers: [defineConsumer(taken), defineConsumer({ queue: other, routes: [] })] });
    },
    'The queue "declared-commands-dlq" has the name of the dead-letter queue of "declared-commands"',
  ],
  ["a catalog of nothing", () => loosely(catalog)(), "A catalog needs { consumers: […] }"],
  ["a catalog without consumers", () => loosely(catalog)({}), "A catalog needs { consumers: […] }"],
  ["a catalog of an undefined consumer", () => loosely(catalog)({ consumers: [taken] }), "A catalog needs { consumers: […] }"],
  ["a sequence with a gap of no kind", () => consumer({ ...taken, sequence: { gap: "wiat" } }), 'use gap: "wait", "retry" or "skip"'],
  ["a sequence that begins with 5", () => consumer({ ...taken, sequence: { gap: "skip", first: 5 } }), "first: 0 or 1"],
  ["retries of nothing", () => consumer({ ...taken, retries: null }), "retries.limit undefined: use a whole number"],
  ...[null, {}, [{}], [{ name: "a", when: 5, mend: 5 }]].map((repairs): (typeof REFUSED)[number] => [
    `repairs that are ${JSON.stringify(repairs)}`,
    () => consumer({ ...taken, repairs }),
    "has invalid repairs: use a list",
  ]),
  ["a consumer of nothing at all", () => consumer(), "must have a queue"],
  ["a queue without a name", () => loosely(defineQueue)({}), "is not a queue name"],
  ["a consumer of no queue", () => consumer({ ...taken, queue: "declared-commands" }), "must have a queue"],
  ["a consumer of nothing", () => consumer({ queue }), "needs a list of workflows in starts"],
  ["a consumer that starts a workflow by itself", () => consumer({ queue, starts: taken.starts[0] }), "needs a list"],
  ["a consumer that starts an unknown workflow", () => consumer({ queue, starts: [undefined] }), "Check that it is exported"],
  [
    "a consumer that starts a workflow without a message",
    () => consumer({ queue, starts: [{ run, name: "x" }] }),
    "is not the result of defineWorkflow(…)",
  ],
  [
    "a consumer that routes an unknown event",
    () => consumer({ queue, routes: [undefined] }),
    "has an entry in routes that is not the result of on(event, …)",
  ],
  ["a batch of nothing", () => consumer({ ...taken, batch: { size: 0, waitSeconds: 0 } }), "batch.size 0: use 1 to 100"],
  ["a batch beyond 100", () => consumer({ ...taken, batch: { size: 101, waitSeconds: 0 } }), "batch.size 101: use 1 to 100"],
  ["a wait beyond a minute", () => consumer({ ...taken, batch: { size: 10, waitSeconds: 61 } }), "batch.waitSeconds 61: use 0 to 60"],
  ["no batch at a time", () => consumer({ ...taken, concurrency: 0 }), "concurrency 0: use 1 to 250"],
  ["more batches than the platform has", () => consumer({ ...taken, concurrency: 251 }), "concurrency 251: use 1 to 250"],
  [
    "a first pause beyond the longest",
    () => consumer({ ...taken, retries: { limit: 5, initial: "10 minutes", max: "1 minute" } }),
    'retries.initial "10 minutes", which is more than retries.max "1 minute"',
  ],
  [
    "a rate of nothing",
    () => sendEach(flow.on, () => [], undefined, { ratePerSecond: 0 }),
    "at 0 a second: use more than 0 and at most 1000",
  ],
  [
    "a retired queue that is declared",
    () => {
      const own = defineConsumer(taken);
      const other = defineQueue({ name: "declared-others", retired: [queue.name] });
      const others = defineEvent({ ...told, queue: other });
      return catalog({ consumers: [own, defineConsumer({ queue: other, routes: [on(others)] })] });
    },
    'The queue "declared-others" lists "declared-commands" as retired, but that queue is also declared',
  ],
];

describe("The definition is refused, with a remedy, of", () => {
  it.each(REFUSED)("%s", (_, define, says) => {
    expect(define).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(says) }));
  });
});

it("A message with a key or subject that is not a text is reported as a fault of its definition, and not of its caller", () => {
  for (const [what, make] of [
    ["promise", async () => "x"],
    ["undefined", () => undefined],
  ] as const) {
    for (const field of ["key", "subject"] as const) {
      const odd = defineCommand({ ...asked, [field]: make as never });
      const says = expect.stringMatching(
        new RegExp(`^The definition of declared.asked must return the ${field} as a string, not .*${what}`),
      );
      expect(() => odd.from({ name: "a" })).toThrow(expect.objectContaining({ code: "config_invalid", message: says }));
    }
  }
});

type Code = Parameters<typeof runLab>[0];
type Step = Record<"read" | "sleep" | "waitFor" | "approve" | "effect" | "commit", (...given: unknown[]) => Promise<unknown>>;
const steps = (call: Parameters<Code>[0]) => call.step as unknown as Step;

const FAILS: [what: string, code: Code, step: string, says: string][] = [
  ["a name that is a number", (call) => steps(call).read(5, async () => 1), "", "is of the type number"],
  ["no name", (call) => steps(call).sleep(undefined, "1 second"), "", "is of the type undefined"],
  ["a name that is empty", (call) => steps(call).read("", async () => 1), "", "is empty"],
  ["an undo that is a text", (call) => steps(call).effect("pay", plain, 1, { undo: "x" }), "", 'The undo of "pay" must be a function'],
  ["a commit's undo that is a text", (call) => steps(call).commit("pay", run, { undo: "x" }), "", 'The undo of "pay" must be a function'],
  ["an undo of no class", (call) => steps(call).effect("pay", { ...plain, undo: {} }, 1), "", "A step's `undo` must be a step definition"],
  ["a wait for nothing", (call) => steps(call).waitFor("word"), "", "give it an event and { subject }"],
  ["a wait about nothing", (call) => steps(call).waitFor("word", ProbeSignal), "", "give it an event and { subject }"],
  ["a question of nothing", (call) => steps(call).approve("ask"), "", "give it { question }"],
  ["a sleep beyond a year", ({ step }) => step.sleep("nap", "366 days"), "nap", "the platform's longest wait is 365 days"],
  [
    "a wait beyond a year",
    ({ step }) => step.waitFor("word", ProbeSignal, { subject: "x", timeout: "400 days" }),
    "word",
    "the platform's longest wait is 365 days",
  ],
  ["a sleep of no length", ({ step }) => step.sleep("nap", "soon" as never), "nap", "is not a duration"],
];

describe("A run fails at once, with a remedy, for", () => {
  it.concurrent.each(FAILS)("%s", async (_, code, step, says) => {
    const { instanceId } = await runLab(code);
    expect(await reaches(instanceId, "errored", "complete", "waiting")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid", step, message: expect.stringContaining(says) });
  });
});

it.each([Number.POSITIVE_INFINITY, Number.NaN, -5])(
  "A delay of %s that an upstream asks for is left to the step's retries",
  async (delayMs) => {
    let tried = 0;
    const busy = effect("natural", async () => {
      if (++tried === 1) throw retryAfter(delayMs, "Come back.");
      return tried;
    });
    const { instanceId } = await runLab(({ step }) => step.effect("ask", { ...busy, retries: { limit: 1, delay: 10 } }, null));
    expect(await reaches(instanceId, "errored", "complete")).toBe("complete");
  },
);
