import {
  call,
  defineCommand,
  defineConsumer,
  defineEvent,
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
import { defineLaneQueue } from "millrace/lanes";
import { catalog } from "millrace/worker";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { ProbeSignal } from "../../probe/messages.ts";
import { reaches } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { effect } from "../operate/operating.ts";

/** Removes the parameter types of a function, because JavaScript code can pass any definition. */
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

/** Invalid step definitions, which are also tested as undo handlers. */
const ODD_STEPS: [what: string, odd: object, says: string][] = [
  ["a step of the class read", { effect: "read" }, 'effect must be "keyed", "natural", "lookup" or "once", not "read"'],
  ["a step of an unknown class", { effect: "bogus" }, 'effect must be "keyed", "natural", "lookup" or "once", not "bogus"'],
  ["a step without a run function", { run: undefined }, "A step needs `run`"],
  ["a step of the class lookup without a lookup", { effect: "lookup" }, "A lookup step needs `lookup`: the function"],
  ["a step with a key that is a text", { key: "x" }, "A step's `key` must be a function"],
  ["a step with an output that is not a schema", { output: {} }, "A step's `output` must be a zod 4 schema"],
  ["a step with an input that is not a schema", { input: "x" }, "A step's `input` must be a zod 4 schema"],
  ["a step with a timeout of 20 minutes", { timeout: "20 minutes" }, "A step's timeout must be more than 0 and at most 10 minutes"],
  ["a step with a negative limit of retries", { retries: { limit: -1, delay: 0 } }, "retries.limit must be a whole number"],
  ["a step with the retries null", { retries: null }, "retries.limit must be a whole number"],
];

/** Targets of a route with an error or an omission. */
const NO_TARGETS: [what: string, make: () => unknown][] = [
  ["the function signal without a call", () => signal],
  ["an empty object {}", () => ({})],
  ["the value undefined", () => undefined],
  ["a call without a function", () => loosely(call)()],
  ["a project without a function", () => loosely(project)()],
  ["a call with a timeout of 0", () => call(run, { timeout: 0 })],
  ["a sendEach with an invalid row", () => sendEach(defineCommand(asked), () => [], {} as never)],
  ["a start without a workflow", () => loosely(start)()],
  ["a start of an empty object", () => loosely(start)({})],
  ["a send without a command", () => (send as never as (...all: unknown[]) => unknown)(undefined, () => ({}))],
  ["a send without a payload function", () => loosely(send)(defineCommand(asked))],
  ["a sendEach without a payload function", () => loosely(sendEach)(defineCommand(asked))],
  ["a tell without an object and a name", () => (tell as never as (...all: unknown[]) => unknown)(undefined, () => "x")],
  ["a tell without the name of the object", () => (tell as never as (...all: unknown[]) => unknown)("rooms")],
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
    [`a command with an access that needs the scope ${scope}`, () => command({ ...asked, access: { scope } }), "which no token can have"],
    [`an event with an access that needs the scope ${scope}`, () => event({ ...told, access: { scope } }), "which no token can have"],
  ]),
  ["a command without any field", () => command(), NO_TYPE],
  ["a command without payload", () => command({ ...asked, payload: undefined }), "pass a schema of zod 4"],
  ["a command with an invalid payload", () => command({ ...asked, payload: {} }), "pass a schema of zod 4"],
  ["a command without a key function", () => command({ ...asked, key: undefined }), "has no key: pass a function"],
  ["a command without a subject function", () => command({ ...asked, subject: undefined }), "has no subject: pass a function"],
  ["an event with a subject that is a text", () => event({ ...told, subject: "x" }), "has no subject: pass a function"],
  [
    "a command with a conversion of versions that is not a function",
    () => command({ ...asked, version: 2, upcasts: { 1: 5 } }),
    "the conversion from version 1 to 2",
  ],
  [
    "a command with a queue that is a text",
    () => command({ ...asked, queue: "declared-commands" }),
    "has no queue: pass the result of defineQueue",
  ],

  ["an event without any field", () => event(), NO_TYPE],
  [
    "a command with a payload schema of another library",
    () => command({ ...asked, payload: { safeParse: () => ({ success: true }) } }),
    "of zod 4",
  ],
  ["a command on a queue with an invalid name", () => command({ ...asked, queue: { name: "NOT A NAME" } }), "has no queue"],

  ["a workflow without any field", () => workflow(), '"undefined" is not a workflow name'],
  ["a workflow without a name", () => workflow({ ...flow, name: undefined }), '"undefined" is not a workflow name'],
  ["a workflow without a run function", () => workflow({ ...flow, run: undefined }), "needs `run`"],
  ["a workflow without a message that starts it", () => workflow({ ...flow, on: undefined }), "has no message that starts it"],
  ...([1.5, 0, "2"] as const).map((version): (typeof REFUSED)[number] => [
    `a workflow of the version ${JSON.stringify(version)}`,
    () => workflow({ ...flow, version }),
    "must be a whole number from 1",
  ]),
  ...[{ "1.0": run }, { 2: run }, { 1: "run" }].map((previous): (typeof REFUSED)[number] => [
    `a workflow with the previous versions ${Object.entries(previous)}`,
    () => workflow({ name: flow.name, input: z.object({}), run, version: 2, previous }),
    "must have functions by their version",
  ]),
  ["a workflow with a deadline above 365 days", () => workflow({ ...flow, deadline: "366 days" }), "must be at most 365 days"],

  ...ODD_STEPS.map(([what, odd, says]): (typeof REFUSED)[number] => [what, () => step({ ...plain, ...odd }), says]),
  ...ODD_STEPS.map(([what, odd, says]): (typeof REFUSED)[number] => [
    `a step whose undo is ${what}`,
    () => step({ ...plain, undo: { ...plain, ...odd } }),
    `A step's \`undo\` must be a step definition, as for defineStep: ${says}`,
  ]),
  ...[null, {}, run].map((undo): (typeof REFUSED)[number] => [
    `a step with an undo that is ${String(undo)}`,
    () => step({ ...plain, undo }),
    'effect must be "',
  ]),
  ["a step without any field", () => step(), '"once", not "undefined"'],

  ...NO_TARGETS.map(([what, make]): (typeof REFUSED)[number] => [
    `a route's target that is ${what}`,
    () => on(defineEvent(told), make() as never),
    "Target 1 of on(declared.told, …) is invalid",
  ]),

  ["a lane without any field", () => loosely(defineLaneQueue)(), "is not a lane's name"],
  ["a lane without a name", () => loosely(defineLaneQueue)({ name: null }), "is not a lane's name"],
  ["a queue without any field", () => loosely(defineQueue)(), "is not a queue name"],
  ["a queue with an unknown field in by", () => loosely(defineQueue)({ name: "q", by: "sub" }), 'by must be "tenant" or "subject"'],
  [
    "a queue with tenants that are not a list",
    () => loosely(defineQueue)({ name: "q", tenants: "acme" }),
    "tenants and retired must be lists",
  ],
  ...["a_b", "a--b", "a-"].map((tenant): (typeof REFUSED)[number] => [
    `a separate queue for the tenant ${tenant}`,
    () => defineQueue({ name: "q", tenants: [tenant] }),
    `The tenant "${tenant}" cannot have its own queue`,
  ]),
  [
    "a queue with the name of another one's dead-letter queue",
    () => {
      const other = defineQueue({ name: `${queue.name}-dlq` });
      return catalog({ consumers: [defineConsumer(taken), defineConsumer({ queue: other, routes: [] })] });
    },
    'The queue "declared-commands-dlq" has the name of the dead-letter queue of "declared-commands"',
  ],
  ["a catalog without any field", () => loosely(catalog)(), "A catalog needs { consumers: […] }"],
  ["a catalog without consumers", () => loosely(catalog)({}), "A catalog needs { consumers: […] }"],
  ["a catalog of an undefined consumer", () => loosely(catalog)({ consumers: [taken] }), "A catalog needs { consumers: […] }"],
  [
    "a consumer with an unknown rule for gaps in a sequence",
    () => consumer({ ...taken, sequence: { gap: "wiat" } }),
    'use gap: "wait", "retry" or "skip"',
  ],
  ["a consumer with a sequence that begins with 5", () => consumer({ ...taken, sequence: { gap: "skip", first: 5 } }), "first: 0 or 1"],
  ["a consumer with the retries null", () => consumer({ ...taken, retries: null }), "retries.limit undefined: use a whole number"],
  ...[null, {}, [{}], [{ name: "a", when: 5, fix: 5 }]].map((repairs): (typeof REFUSED)[number] => [
    `a consumer with the repairs ${JSON.stringify(repairs)}`,
    () => consumer({ ...taken, repairs }),
    "has invalid repairs: use a list",
  ]),
  ["a consumer without any field", () => consumer(), "must have a queue"],
  ["a queue without a name", () => loosely(defineQueue)({}), "is not a queue name"],
  ["a consumer with a queue that is a text", () => consumer({ ...taken, queue: "declared-commands" }), "must have a queue"],
  ["a consumer without workflows and routes", () => consumer({ queue }), "needs a list of workflows in starts"],
  ["a consumer with a workflow in starts instead of a list", () => consumer({ queue, starts: taken.starts[0] }), "needs a list"],
  ["a consumer with an undefined workflow in starts", () => consumer({ queue, starts: [undefined] }), "Check that it is exported"],
  [
    "a consumer with a workflow in starts that defineWorkflow did not create",
    () => consumer({ queue, starts: [{ run, name: "x" }] }),
    "is not the result of defineWorkflow(…)",
  ],
  [
    "a consumer with an undefined entry in routes",
    () => consumer({ queue, routes: [undefined] }),
    "has an entry in routes that is not the result of on(event, …)",
  ],
  ["a consumer with a batch size of 0", () => consumer({ ...taken, batch: { size: 0, waitSeconds: 0 } }), "batch.size 0: use 1 to 100"],
  [
    "a consumer with a batch size above 100",
    () => consumer({ ...taken, batch: { size: 101, waitSeconds: 0 } }),
    "batch.size 101: use 1 to 100",
  ],
  [
    "a consumer with a wait above 60 seconds for a batch",
    () => consumer({ ...taken, batch: { size: 10, waitSeconds: 61 } }),
    "batch.waitSeconds 61: use 0 to 60",
  ],
  ["a consumer with a concurrency of 0", () => consumer({ ...taken, concurrency: 0 }), "concurrency 0: use 1 to 250"],
  ["a consumer with a concurrency above 250", () => consumer({ ...taken, concurrency: 251 }), "concurrency 251: use 1 to 250"],
  [
    "a consumer with a first delay above its maximum delay",
    () => consumer({ ...taken, retries: { limit: 5, initial: "10 minutes", max: "1 minute" } }),
    'retries.initial "10 minutes", which is more than retries.max "1 minute"',
  ],
  [
    "a sendEach with a rate of 0",
    () => sendEach(flow.on, () => [], undefined, { ratePerSecond: 0 }),
    "at 0 a second: use more than 0 and at most 1000",
  ],
  [
    "a queue with a retired queue that is also declared",
    () => {
      const own = defineConsumer(taken);
      const other = defineQueue({ name: "declared-others", retired: [queue.name] });
      const others = defineEvent({ ...told, queue: other });
      return catalog({ consumers: [own, defineConsumer({ queue: other, routes: [on(others)] })] });
    },
    'The queue "declared-others" lists "declared-commands" as retired, but that queue is also declared',
  ],
];

describe("Invalid definitions", () => {
  it.each(REFUSED)("the definition of %s is refused with a remedy", (_, define, says) => {
    expect(define).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(says) }));
  });
});

it("a key or subject function that returns no text is reported as an error of the definition, and not of the caller", () => {
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
  // The default subject of a workflow is its key.
  const greet = defineWorkflow({ name: "greet", input: asked.payload, key: (() => undefined) as never, run: async () => null });
  expect(() => greet.command.from({ name: "a" })).toThrow("The definition of greet must return the key as a string");
});

type Code = Parameters<typeof runLab>[0];
type Step = Record<"read" | "sleep" | "waitFor" | "approve" | "effect" | "commit", (...given: unknown[]) => Promise<unknown>>;
const steps = (call: Parameters<Code>[0]) => call.step as unknown as Step;

const FAILS: [what: string, code: Code, step: string, says: string][] = [
  ["a step name that is a number", (call) => steps(call).read(5, async () => 1), "", "is of the type number"],
  ["a step without a name", (call) => steps(call).sleep(undefined, "1 second"), "", "is of the type undefined"],
  ["a step name that is empty", (call) => steps(call).read("", async () => 1), "", "is empty"],
  [
    "an effect with an undo that is a text",
    (call) => steps(call).effect("pay", plain, 1, { undo: "x" }),
    "",
    'The undo of "pay" must be a function',
  ],
  [
    "a commit with an undo that is a text",
    (call) => steps(call).commit("pay", run, { undo: "x" }),
    "",
    'The undo of "pay" must be a function',
  ],
  [
    "an effect with an undo without a class",
    (call) => steps(call).effect("pay", { ...plain, undo: {} }, 1),
    "",
    "A step's `undo` must be a step definition",
  ],
  ["a waitFor without an event", (call) => steps(call).waitFor("word"), "", "give it an event and { subject }"],
  ["a waitFor without a subject", (call) => steps(call).waitFor("word", ProbeSignal), "", "give it an event and { subject }"],
  ["an approve without a question", (call) => steps(call).approve("ask"), "", "give it { question }"],
  ["a sleep above 365 days", ({ step }) => step.sleep("nap", "366 days"), "nap", "the platform's longest wait is 365 days"],
  [
    "a waitFor with a timeout above 365 days",
    ({ step }) => step.waitFor("word", ProbeSignal, { subject: "x", timeout: "400 days" }),
    "word",
    "the platform's longest wait is 365 days",
  ],
  ["a sleep with an invalid duration", ({ step }) => step.sleep("nap", "soon" as never), "nap", "is not a duration"],
];

describe("A run with an invalid call of a step", () => {
  it.concurrent.each(FAILS)("a run with %s fails at once, and the error names the remedy", async (_, code, step, says) => {
    const { instanceId } = await runLab(code);
    expect(await reaches(instanceId, "errored", "complete", "waiting")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid", step, message: expect.stringContaining(says) });
  });
});

it.each([Number.POSITIVE_INFINITY, Number.NaN, -5])(
  "a step uses its own delay when an upstream asks for a delay of %s",
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
