import { defineStep, notRetryable } from "millrace";
import { describe, expect, it } from "vitest";
import { type Walked, walkRecord } from "../../../packages/millrace/src/check/walk.ts";
import { recordOf } from "../../../packages/millrace/src/inspect/record.ts";
import { REVEALED } from "../../../packages/millrace/src/inspect/redaction.ts";
import { skip } from "../../../packages/millrace/src/operate/instances/skip-step.ts";
import { greetCustomer } from "../../docs/examples/versions.ts";
import { type LabCall, lab } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { mode } from "../../probe/mode.ts";
import { app } from "../../probe/worker.ts";
import { deliver, fresh, operator, probeEnv, rows, statusOf, until } from "../harness.ts";
import { runLab } from "../lab.ts";
import { openWaits, say } from "../signals/waiting.ts";

type Code = (call: LabCall) => Promise<unknown>;

const made: string[] = [];
const put = (name: string) =>
  defineStep({ effect: "keyed", run: async () => void made.push(name), undo: { effect: "natural", run: async () => undefined } });

/** The code of a run that has recorded two effects, a read and an event, and that waits for its second event. */
const old =
  (name: string): Code =>
  async ({ step }) => {
    const price = await step.read("price", async () => 7);
    await step.effect("charge", put(name), price);
    const [left] = await Promise.all([step.commit("left", () => ({ output: "l" })), step.commit("right", () => ({ output: "r" }))]);
    await step.sleep("rest", 20);
    const { value } = await step.waitFor("paid", ProbeSignal, { subject: `${name}/paid`, timeout: "1 hour" });
    await step.commit("note", () => ({ output: `${left} ${value}` }));
    await step.waitFor("shipped", ProbeSignal, { subject: `${name}/shipped`, timeout: "1 hour" });
    await step.commit("end", () => ({}));
  };

async function waiting() {
  const name = fresh("walk");
  const { instanceId: id } = await runLab(old(name), { name });
  await openWaits(id, 1);
  await deliver("probe-events", [say(`${name}/paid`, "yes")]);
  await until(
    () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'shipped'", id),
    (found) => found.length === 1,
  );
  await until(
    () => statusOf(id),
    (status) => status === "waiting",
  );
  return { id, name };
}

async function walk(id: string, run: Code, more: object = {}): Promise<Walked> {
  const record = await recordOf(probeEnv, operator, id, REVEALED);
  const before = made.length;
  const walked = await walkRecord({ ...lab, ...more, run }, app, JSON.parse(JSON.stringify(record)));
  // The walk executes no step.
  expect(made.length).toBe(before);
  return walked;
}

const codes = ({ findings }: Walked) => findings.map(({ code, step }) => `${code} ${step}`);

describe.each(["platform", "inline"] as const)("with %s steps", (steps) => {
  it("the code of an open instance fits its record, also with new steps after the record's end", async () => {
    mode.steps = steps;
    const { id, name } = await waiting();
    expect(await walk(id, old(name))).toMatchObject({ findings: [], until: "shipped · signal" });
    const longer: Code = async (call) => {
      await old(name)(call);
      await call.step.effect("thank", put(name), 1);
    };
    expect(await walk(id, longer)).toMatchObject({ findings: [], until: "shipped · signal" });
    mode.steps = "platform";
  });

  it("a walk names the step that the changed code lacks, and each changed class, undo, event and version", async () => {
    mode.steps = steps;
    const { id, name } = await waiting();
    const begin = async ({ step }: LabCall) => step.effect("charge", put(name), await step.read("price", async () => 8));
    const without: Code = async ({ step }) => {
      await step.read("price", async () => 7);
      await step.commit("left", () => ({}));
      await step.commit("right", () => ({}));
    };
    expect(codes(await walk(id, without))).toContain("step_gone charge");
    const other: Code = async (call) => {
      await begin(call);
      await call.step.commit("before all", () => ({}));
    };
    expect((await walk(id, other)).findings).toContainEqual(expect.objectContaining({ breaks: true }));
    const plain = defineStep({ effect: "keyed", run: async () => undefined });
    const noUndo: Code = async (call) => {
      await call.step.effect("charge", plain, await call.step.read("price", async () => 7));
      await new Promise(() => undefined);
    };
    expect(codes(await walk(id, noUndo))).toContain("undo_gone charge");
    const commits: Code = async ({ step }) => {
      await step.read("price", async () => 7);
      await step.commit("charge", () => ({}));
    };
    expect(codes(await walk(id, commits))).toContain("kind_changed charge");
    const ends: Code = async (call) => {
      await begin(call);
    };
    expect(codes(await walk(id, ends))).toEqual(expect.arrayContaining(["step_gone left", "step_gone right", "wait_gone shipped"]));
    const twice: Code = async (call) => {
      await begin(call);
      await begin(call);
    };
    expect(codes(await walk(id, twice)).join()).toContain("nondeterministic_steps");
    const elsewhere: Code = async (call) => {
      const step = new Proxy(call.step, {
        get: (steps, key) =>
          key === "waitFor"
            ? (label: string, event: typeof ProbeSignal, options: { subject: string }) =>
                steps.waitFor(label as "a", event, label === "shipped" ? { ...options, subject: "other" } : options)
            : (steps as unknown as Record<string | symbol, (...given: unknown[]) => unknown>)[key]?.bind(steps),
      });
      await old(name)({ ...call, step });
    };
    expect(codes(await walk(id, elsewhere))).toEqual(["event_changed shipped"]);
    expect(codes(await walk(id, old(name), { version: 2 }))).toEqual(["version_gone "]);
    expect(codes(await walk(id, without, { version: 2, previous: { 1: old(name) } }))).toEqual([]);
    mode.steps = "platform";
  });
});

it("a walk names the sleep and the question in which the run waits, and each effect after a caught failure that is gone", async () => {
  const broken = defineStep({ effect: "keyed", retries: { limit: 0, delay: 1 }, run: () => Promise.reject(new Error("no")) });
  const night = async ({ step }: LabCall) => void (await step.sleep("night", "1 hour"));
  const code =
    (rest: (call: LabCall) => Promise<void>, question = "agree"): Code =>
    async (call) => {
      await call.step.effect("ask", broken, 1).catch(() => call.step.effect("instead", put("instead"), 1));
      await Promise.all([rest(call), call.step.approve(question as "agree", { question: "Is it right?" })]);
    };
  const { instanceId: id } = await runLab(code(night));
  await until(
    () => statusOf(id),
    (status) => status === "waiting",
  );
  await until(
    () => recordOf(probeEnv, operator, id, REVEALED),
    ({ steps }) => steps.some(({ state }) => state === "sleeping") && steps.some(({ name }) => name === "agree · answer"),
  );
  expect(codes(await walk(id, code(night)))).toEqual([]);
  expect(
    codes(
      await walk(
        id,
        code(async () => undefined),
      ),
    ),
  ).toEqual(["step_gone night"]);
  const effect = async ({ step }: LabCall) => void (await step.effect("night", put("night"), 1));
  expect(codes(await walk(id, code(effect)))).toEqual(["kind_changed night"]);
  expect(codes(await walk(id, code(night, "consent")))).toEqual(["step_gone agree"]);
  const sleeps: Code = async ({ step }) => {
    await step.effect("ask", broken, 1).catch(() => step.sleep("instead", 1));
  };
  expect(codes(await walk(id, sleeps))).toContain("kind_changed instead");
  const without: Code = async (call) => {
    await Promise.all([night(call), call.step.approve("agree", { question: "Is it right?" })]);
  };
  expect(codes(await walk(id, without))).toEqual(["step_gone instead"]);
  const binding: Code = async (call) => {
    await (call.env as unknown as { DB: D1Database }).DB.prepare("SELECT 1").first();
    await code(night)(call);
  };
  expect(await walk(id, binding)).toMatchObject({ findings: [{ code: "unknown", breaks: false }] });
});

it("a walk names an effect that the platform attempts, that has no record yet, and that the changed code does not call", async () => {
  let attempts = 0;
  const pay = defineStep({
    effect: "keyed",
    retries: { limit: 3, delay: "1 hour" },
    async run() {
      if (++attempts === 1) throw new Error("The answer was lost.");
    },
  });
  const code =
    (name: string): Code =>
    async ({ step }) => {
      await Promise.all([step.effect(name as "pay", pay, undefined), step.read("rate", () => new Promise(() => undefined))]);
    };
  const { instanceId: id } = await runLab(code("pay"));
  await until(
    () => recordOf(probeEnv, operator, id, REVEALED),
    ({ steps }) => steps.some(({ name, state }) => name === "pay" && state === "retrying"),
  );
  expect(codes(await walk(id, code("pay")))).toEqual([]);
  expect(codes(await walk(id, code("charge")))).toEqual(["step_gone pay"]);
  const reads: Code = async ({ step }) => void (await step.read("pay", async () => 1));
  expect(codes(await walk(id, reads))).toEqual(["step_gone pay"]);
  const without: Code = async ({ step }) => void (await step.effect("pay", pay, undefined));
  expect(codes(await walk(id, without))).toEqual([]);
});

it("a walk accepts the output that an operator gave for a skipped read", async () => {
  const code: Code = async ({ step }) => {
    await step.read("price", async () => Promise.reject(notRetryable("no")));
    await step.sleep("rest", "1 hour");
  };
  const { instanceId: id } = await runLab(code);
  await until(
    () => statusOf(id),
    (status) => status === "errored",
  );
  await skip.act({ env: probeEnv, by: operator, given: { step: "price", output: 7, reason: "known" } }, id);
  await until(
    () => recordOf(probeEnv, operator, id, REVEALED),
    ({ steps }) => steps.some(({ state }) => state === "sleeping"),
  );
  expect(await walk(id, code)).toMatchObject({ findings: [], until: "rest" });
});

it("the example of docs/deploying.md runs an instance of version 1 with its first function", async () => {
  const { id } = await waiting();
  const record = await recordOf(probeEnv, operator, id, REVEALED);
  const envelope = { ...(record.envelope as object), message_type: "greet-customer", payload_inline: { email: "ada@example.com" } };
  const accepted = { ...record, workflow: "greet-customer", envelope, entries: [], waits: [], events: {}, steps: [] };
  const from = async (version: number) => (await walkRecord(greetCustomer, app, { ...accepted, version })).until;
  expect([await from(1), await from(2)]).toEqual(["greet", "welcome"]);
  // An instance that has not started begins with the new version.
  expect((await walkRecord(greetCustomer, app, { ...accepted, version: 1, status: "accepted" })).until).toBe("welcome");
});
