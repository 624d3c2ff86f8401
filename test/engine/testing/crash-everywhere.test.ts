import { env } from "cloudflare:workers";
import { defineStep, type EffectCall, type EngineEnv, notRetryable, publishEvents } from "millrace";
import { approvals } from "millrace/operate";
import { crashEverywhere, recordingUpstream } from "millrace/testing";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import type { CrashOptions } from "../../../packages/millrace/src/testing/crash-everywhere.ts";
import { type LabCall, LabEvent, lab, labs } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { mode } from "../../probe/mode.ts";
import { app } from "../../probe/worker.ts";
import { fresh } from "../harness.ts";

const SHOP = "https://shop.example";

const post = async ({ fetch, key, input }: EffectCall<string>, withKey: boolean) => {
  const headers: Record<string, string> = withKey ? { "idempotency-key": key } : {};
  const answer = await fetch(`${SHOP}/${input}`, { method: "POST", headers, body: "{}" });
  if (!answer.ok) throw new Error(`The shop answered ${answer.status}.`);
  return answer.json<{ id: string }>();
};

const keyed = defineStep({ effect: "keyed", run: (call: EffectCall<string>) => post(call, true) });
const once = defineStep({ effect: "once", run: (call: EffectCall<string>) => post(call, false) });
const natural = defineStep({ effect: "natural", run: (call: EffectCall<string>) => post(call, false) });
const lookup = defineStep({
  effect: "lookup",
  run: ({ input, fetch, key }: EffectCall<string>) => put(fetch, `${input}/${key}`),
  async lookup({ input, fetch, key }) {
    const found = await fetch(`${SHOP}/${input}/${key}`);
    return found.ok ? found.json<{ id: string }>() : undefined;
  },
});

async function put(send: typeof fetch, path: string) {
  return (await send(`${SHOP}/${path}`, { method: "PUT", body: "{}" })).json<{ id: string }>();
}

/** A selection of crash points that most mistakes violate. */
const only: CrashOptions<unknown>["only"] = ({ point, beginsAnew }) => beginsAnew || point.startsWith("W03") || point.startsWith("W06");

/** Runs crashEverywhere over a workflow with this code, and returns the report. */
async function tryCode(code: (call: LabCall) => Promise<unknown>, options: Partial<CrashOptions<{ name: string; note: string }>> = {}) {
  const name = fresh("crash");
  labs.set(name, code);
  onTestFinished(() => void labs.delete(name));
  return crashEverywhere(lab, { name, note: "" }, { catalog: app, throws: false, withinMs: 60_000, ...options });
}

afterEach(() => {
  mode.steps = "platform";
});

it("crashEverywhere requests the input once per run, and repeats a command with the same input", async () => {
  const name = fresh("crash");
  labs.set(name, async ({ step }) => step.commit("note", () => ({})));
  onTestFinished(() => void labs.delete(name));
  const asked: string[] = [];
  const { boundaries, broken } = await crashEverywhere(
    lab,
    { name, note: "" },
    {
      catalog: app,
      throws: false,
      only: ({ point }) => point.startsWith("A0"),
      inputOf({ instanceId }) {
        asked.push(instanceId);
        return { name, note: crypto.randomUUID() };
      },
    },
  );
  expect(broken).toEqual([]);
  expect(boundaries.map(({ name }) => name)).toContain('died at "A02 accept committed, not answered"');
  expect(asked).toHaveLength(boundaries.length + 1);
});

it("crashEverywhere does not count an alert that the keeper sends during a run as a boundary of the run", async () => {
  const { boundaries } = await tryCode(
    async ({ step }) => {
      await globalThis.millraceCrashPoint?.("alert raised, not sent");
      await step.commit("note", () => ({}));
    },
    { only: ({ point }) => !point.startsWith("W") },
  );
  expect(boundaries.map(({ name }) => name)).toContain('died at "A01 before accept commits"');
  expect(boundaries.map(({ name }) => name)).not.toContain('died at "alert raised, not sent"');
});

describe.each(["platform", "inline"] as const)("crashEverywhere over a workflow of %s steps", (steps) => {
  it("crashEverywhere finds no violation in a workflow with a step of each class", async () => {
    mode.steps = steps;
    const followed = fresh("followed");
    labs.set(followed, async ({ step }) => step.commit("follow", () => ({})));
    const { boundaries, broken } = await tryCode(async ({ step }) => [
      await step.effect("charge", keyed, "charges"),
      await step.effect("book", lookup, "bookings"),
      await step.effect("index", natural, "index"),
      await step.commit("note", () => ({ emit: [LabEvent.from({ name: followed, note: "" })] })),
      await step.effect("mail", once, "mails"),
    ]);
    expect(broken.join("\n")).toBe("");
    const statuses = new Map(boundaries.map(({ name, status }) => [name, status]));
    expect(Object.fromEntries([...statuses].filter(([, status]) => status !== "complete"))).toEqual({
      'died at "W01 claimed, effect not started" of step "mail"': "in_doubt",
      'died at "W03 effect done, not recorded" of step "mail"': "in_doubt",
      'died at "W06 about to record" of step "mail"': "in_doubt",
    });
    for (const name of [
      'died at "A01 before accept commits"',
      'died at "A03 accept committed, not enqueued"',
      'died at "A02 accept committed, not answered"',
      'died at "Q03 created, not acknowledged"',
      'died at "W03 effect done, not recorded" of step "charge"',
      'died at "O01 committed, not relayed" of step "note"',
      'died at "W05 recorded, step result lost" of step "index", and the run restarted',
    ])
      expect(statuses.has(name), name).toBe(true);
  });

  it("crashEverywhere reports a request outside of a step", async () => {
    mode.steps = steps;
    const { broken } = await tryCode(
      async ({ step }) => {
        await fetch(`${SHOP}/mails`, { method: "POST", body: "{}" });
        await step.effect("charge", keyed, "charges");
      },
      { only },
    );
    expect(broken).toContain(`POST ${SHOP}/mails was sent outside of a step, and each replay repeats it. Put it into a step.`);
    expect(broken).toContainEqual(expect.stringContaining(`POST ${SHOP}/mails outside of a step: sent 2 times, and 1 without a fault.`));
  });

  it("crashEverywhere reports a keyed step with a key that depends on time", async () => {
    mode.steps = steps;
    let now = 0;
    const timed = defineStep({ effect: "keyed", key: () => `at-${now++}`, run: (call: EffectCall<string>) => post(call, true) });
    const { broken } = await tryCode(({ step }) => step.effect("charge", timed, "charges"), { only });
    expect(broken).toContain(
      'died at "W03 effect done, not recorded" of step "charge": The keyed step "charge" had 2 different keys: its key depends on time or chance.',
    );
  });

  it("crashEverywhere reports a step with an item key that depends on time", async () => {
    mode.steps = steps;
    let now = 0;
    const { broken } = await tryCode(({ step }) => step.effect("charge", keyed, "charges", { key: `at-${now++}` }), { only });
    expect(broken).toContainEqual(expect.stringContaining("The run did not reach this boundary again"));
  });

  it("crashEverywhere reports a keyed step that does not send its key", async () => {
    mode.steps = steps;
    const keyless = defineStep({ effect: "keyed", run: (call: EffectCall<string>) => post(call, false) });
    const { broken } = await tryCode(({ step }) => step.effect("charge", keyless, "charges"), { only });
    expect(broken[0]).toBe('The keyed step "charge" sends its `key` in none of its requests: the upstream cannot recognise a repetition.');
    expect(broken).toContain(
      `died at "W03 effect done, not recorded" of step "charge": The keyed step "charge" had 2 effects at POST ${SHOP}/charges, and 1 without a fault. Send its \`key\` with each request.`,
    );
  });

  it("crashEverywhere reports a branch of the code that differs between replays", async () => {
    mode.steps = steps;
    const passes = new Map<string, number>();
    const { broken } = await tryCode(
      async ({ step, instanceId }) => {
        const pass = (passes.get(instanceId) ?? 0) + 1;
        passes.set(instanceId, pass);
        await step.commit("first", () => ({}));
        await (pass === 1 ? step.effect("charge", keyed, "charges") : step.effect("refund", keyed, "refunds"));
      },
      { only },
    );
    expect(broken).toContainEqual(
      expect.stringMatching(/^died at "W05 recorded, step result lost" of step "charge", and the run restarted: The run ended errored/),
    );
  });

  it("crashEverywhere reports a lookup that finds nothing, and a request in a commit", async () => {
    mode.steps = steps;
    const blind = defineStep({ effect: "lookup", run: (call: EffectCall<string>) => post(call, false), lookup: async () => undefined });
    const { broken } = await tryCode(
      async ({ step }) => {
        await step.effect("book", blind, "bookings");
        await step.commit("note", async () => {
          await fetch(`${SHOP}/notes`, { method: "POST", body: "{}" });
          return {};
        });
      },
      { only },
    );
    expect(broken).toContain(
      `died at "W03 effect done, not recorded" of step "book": The lookup step "book" had 2 effects at POST ${SHOP}/bookings, and 1 without a fault. Its \`lookup\` did not find the effect of the first attempt.`,
    );
    expect(broken).toContain(
      `died at "W06 about to record" of step "note": The commit step "note" had 2 effects at POST ${SHOP}/notes, and 1 without a fault. The code of a commit may run again: move the request to a separate step.`,
    );
  });
});

it("crashEverywhere throws an error with every violation, and restores `fetch` and the pauses", async () => {
  const real = globalThis.fetch;
  const said: string[] = [];
  let results = 0;
  const tried = tryCode(
    async ({ step }) => {
      await step.commit("note", () => ({}));
      return results++;
    },
    {
      throws: true,
      only,
      print: (line) => said.push(line),
    },
  );
  await expect(tried).rejects.toThrow(/^lab breaks \d+ promises:\n- died at .*: The result is \d+, and without a fault 0\.\n- /);
  expect(said.at(-1)).toMatch(/^lab: \d+ boundaries in [\d.]+ s, \d+ broken promises\.$/);
  expect([globalThis.fetch, globalThis.millraceSkipsPauses]).toEqual([real, undefined]);
});

it("crashEverywhere finds no violation in a workflow that asks an operator and waits for an event, also if the process dies in meanwhile", async () => {
  const engine = env as unknown as EngineEnv;
  const { boundaries, broken } = await tryCode(
    async ({ step, instanceId }) => {
      const { approved } = await step.approve("ask", { question: "Continue?" });
      await step.commit("note", () => ({ output: approved }));
      const { value } = await step.waitFor("hear", ProbeSignal, { subject: instanceId });
      return { approved, value };
    },
    {
      only: ({ point, beginsAnew }) => beginsAnew || /^(A0|question|signal)/.test(point),
      async meanwhile({ tenantId, instanceId }) {
        const by = { tenantId, actor: "test" };
        const { items } = await approvals.list(engine, by, { instance: instanceId, state: "pending", limit: 1 });
        for (const { id } of items) await approvals.decide(engine, by, id, "approve", "It is right.");
        const event = { type: ProbeSignal.type, payload: { about: instanceId, value: "heard" }, idempotencyKey: tenantId };
        await publishEvents(engine, app, { tenantId, source: "test" }, [event]);
      },
    },
  );
  expect(broken).toEqual([]);
  expect(boundaries.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'died at "A03 accept committed, not enqueued"',
      'died at "A01 before an event commits"',
      'died at "A03 event committed, not sent"',
      'died at "question answered, instance not notified"',
    ]),
  );
});

it("crashEverywhere reports why a workflow does not complete without a fault", async () => {
  const failing = tryCode(({ step }) => step.commit("note", () => Promise.reject(notRetryable("Closed."))));
  await expect(failing).rejects.toThrow("lab is not complete without a fault: it is errored, note: Closed.");
  const tried = tryCode(({ step }) => step.waitFor("hear", ProbeSignal, { subject: "nobody" }), { withinMs: 500 });
  await expect(tried).rejects.toThrow(
    "lab is not complete without a fault: After 500 ms lab is waiting. If the workflow waits for an event or an answer, send it in `meanwhile`.",
  );
});

it("an upstream that the test passes to crashEverywhere records the requests of all runs", async () => {
  using upstream = recordingUpstream();
  await tryCode(({ step }) => step.effect("charge", keyed, "charges"), { upstream, only });
  // One effect without a fault, and one at each of four crash points.
  expect(upstream.effects({ url: "/charges" })).toHaveLength(5);
});
