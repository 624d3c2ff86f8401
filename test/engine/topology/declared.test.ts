import { defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, on, retryAfter, sendEach } from "millrace";
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

const NO_TYPE = "has no type: say it in dotted lower case";
const types = ["", "a b.c", "__proto__", `${"a.".repeat(60)}b`, "happened", "A.b", undefined, 5];
const versions = [0, -1, Number.NaN, 1.5, "2"];
const scopes = ["Bad Scope!", "", 5, undefined];

const REFUSED: [what: string, define: () => unknown, says: string][] = [
  ...types.flatMap((type): (typeof REFUSED)[number][] => [
    [`a command of the type ${JSON.stringify(type)}`, () => command({ ...asked, type }), NO_TYPE],
    [`an event of the type ${JSON.stringify(type)}`, () => event({ ...told, type }), NO_TYPE],
  ]),
  ...versions.map((version): (typeof REFUSED)[number] => [
    `a command of the version ${JSON.stringify(version)}`,
    () => command({ ...asked, version }),
    "say a whole number, from 1",
  ]),
  ...scopes.flatMap((scope): (typeof REFUSED)[number][] => [
    [`a command's door of the scope ${scope}`, () => command({ ...asked, door: { scope } }), "which no token can have"],
    [`an event's door of the scope ${scope}`, () => event({ ...told, door: { scope } }), "which no token can have"],
  ]),
  ["a command of nothing", () => command(), NO_TYPE],
  ["a command without payload", () => command({ ...asked, payload: undefined }), "give it the schema"],
  ["a command whose payload is none", () => command({ ...asked, payload: {} }), "give it the schema"],
  ["a command without key", () => command({ ...asked, key: undefined }), "has no key: give it the function"],
  ["a command without subject", () => command({ ...asked, subject: undefined }), "has no subject: give it the function"],
  ["an event whose subject is a text", () => event({ ...told, subject: "x" }), "has no subject: give it the function"],
  ["a version that nothing leads to", () => command({ ...asked, version: 2, upcasts: { 1: 5 } }), "how version 1 becomes 2"],
  ["a command on no queue", () => command({ ...asked, queue: "declared-commands" }), "give it what defineQueue({ name }) made"],

  ["a workflow without a name", () => workflow({ ...flow, name: undefined }), '"undefined" is not a workflow name'],
  ["a workflow without run", () => workflow({ ...flow, run: undefined }), "needs `run`"],
  ["a workflow on no message", () => workflow({ ...flow, on: undefined }), "is on no message: give it the command"],
  ["a deadline beyond a year", () => workflow({ ...flow, deadline: "366 days" }), "is beyond 365 days"],

  ["a queue without a name", () => loosely(defineQueue)({}), "is not a queue name"],
  ["a consumer of no queue", () => consumer({ ...taken, queue: "declared-commands" }), "takes from no queue"],
  ["a consumer of nothing", () => consumer({ queue }), "takes nothing: say in a list what it starts"],
  ["a consumer that starts a workflow by itself", () => consumer({ queue, starts: taken.starts[0] }), "say in a list"],
  ["a consumer that starts what is not there", () => consumer({ queue, starts: [undefined] }), "Is it exported"],
  ["a consumer that routes what is not there", () => consumer({ queue, routes: [undefined] }), "lists in routes what is no on(event, …)"],
  ["a batch of nothing", () => consumer({ ...taken, batch: { size: 0, waitSeconds: 0 } }), "batch.size 0: say 1 to 100"],
  ["a batch beyond 100", () => consumer({ ...taken, batch: { size: 101, waitSeconds: 0 } }), "batch.size 101: say 1 to 100"],
  ["a wait beyond a minute", () => consumer({ ...taken, batch: { size: 10, waitSeconds: 61 } }), "batch.waitSeconds 61: say 0 to 60"],
  ["no batch at a time", () => consumer({ ...taken, concurrency: 0 }), "concurrency 0: say 1 to 250"],
  ["more batches than the platform has", () => consumer({ ...taken, concurrency: 251 }), "concurrency 251: say 1 to 250"],
  [
    "a first pause beyond the longest",
    () => consumer({ ...taken, retries: { limit: 5, initial: "10 minutes", max: "1 minute" } }),
    'retries.initial "10 minutes", and retries.max "1 minute" is less',
  ],
  [
    "a rate of nothing",
    () => sendEach(flow.on, () => [], undefined, { ratePerSecond: 0 }),
    "at 0 a second: say more than 0 and at most 1000",
  ],
  [
    "a retired queue that is declared",
    () => {
      const own = defineConsumer(taken);
      const other = defineQueue({ name: "declared-others", retired: [queue.name] });
      const others = defineEvent({ ...told, queue: other });
      return catalog({ consumers: [own, defineConsumer({ queue: other, routes: [on(others)] })] });
    },
    'The queue "declared-others" has retired "declared-commands", which is declared itself',
  ],
];

describe("Refused where it is defined, with what to do, is", () => {
  it.each(REFUSED)("%s", (_, define, says) => {
    expect(define).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(says) }));
  });
});

type Code = Parameters<typeof runLab>[0];
type Step = Record<"read" | "sleep" | "waitFor" | "approve", (...given: unknown[]) => Promise<unknown>>;
const steps = (call: Parameters<Code>[0]) => call.step as unknown as Step;

const FAILS: [what: string, code: Code, step: string, says: string][] = [
  ["a name that is a number", (call) => steps(call).read(5, async () => 1), "", "is of the type number"],
  ["no name", (call) => steps(call).sleep(undefined, "1 second"), "", "is of the type undefined"],
  ["a wait for nothing", (call) => steps(call).waitFor("word"), "", "give it an event, and { subject }"],
  ["a wait about nothing", (call) => steps(call).waitFor("word", ProbeSignal), "", "give it an event, and { subject }"],
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

describe("Its run fails at once, with what to do, of", () => {
  it.concurrent.each(FAILS)("%s", async (_, code, step, says) => {
    const { instanceId } = await runLab(code);
    expect(await reaches(instanceId, "errored", "complete", "waiting")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid", step, message: expect.stringContaining(says) });
  });
});

it.each([Number.POSITIVE_INFINITY, Number.NaN, -5])(
  "A pause of %s that an upstream asks for is left to the step's retries",
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
