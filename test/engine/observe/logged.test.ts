import { defineStep } from "millrace";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { formatEntryKey } from "../../../packages/millrace/src/contract/ids.ts";
import type { LabCall } from "../../probe/lab.ts";
import { behave, deliver, event, fresh, keeperRound, probeEnv, reaches, rows, start, until } from "../harness.ts";
import { LAB, platformReaches, runLab } from "../lab.ts";

interface Line {
  log: string;
  [field: string]: unknown;
}

/** The engine's lines that name this subject or instance, from here on, without those about deliveries and attempts that went well. */
function linesAbout(...names: string[]): () => Line[] {
  const all = allLinesAbout(...names);
  return () => all().filter(({ log, level }) => level !== "info" || (log !== "delivery" && log !== "attempt"));
}

/** All of the engine's lines that name this subject or instance, from here on. */
function allLinesAbout(...names: string[]): () => Line[] {
  const spies = (["log", "warn", "error"] as const).map((level) => vi.spyOn(console, level));
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  const said = () => spies.flatMap((spy) => spy.mock.calls.map(([line]) => String(line)));
  return () =>
    said()
      .filter((line) => line.startsWith('{"log":') && names.some((name) => line.includes(name)))
      .map((line) => JSON.parse(line) as Line);
}

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const request = { correlationId: "job 7", traceparent: `00-${TRACE}-b7ad6b7169203331-01` };

describe("In the log", () => {
  it("each failed attempt is one line with instance, workflow, step, subject, tenant, job, trace and error, and so is its run's end", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    await behave({ subject: `${name}/charge`, mode: "refuse", status: 500, times: 2 });
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge", retries: 1 }], request);
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    await until(async () => lines().some(({ log }) => log === "ended"), Boolean);
    const own = {
      instance_id: instanceId,
      workflow: "probe",
      tenant_id: "acme",
      subject: name,
      correlation_id: "job 7",
      trace_id: TRACE,
      step: "charge",
      code: "unavailable",
      upstream_status: 500,
      error: "The upstream answered 500.",
    };
    expect(lines()).toEqual(
      [
        { log: "attempt", ...own, source: "test", attempt: 1, outcome: "retried", will_retry: true },
        { log: "attempt", ...own, source: "test", attempt: 2, outcome: "failed", will_retry: false },
        { log: "ended", ...own, attempts: 2, status: "errored" },
      ].map((line) => expect.objectContaining(line)),
    );
  });

  it("an unreachable upstream is named by host and port only", async () => {
    const down = defineStep({
      effect: "natural",
      retries: { limit: 0, delay: 10 },
      run: async ({ fetch }) => (await fetch("http://127.0.0.1:9/private/path?secret=1")).status,
    });
    const { instanceId } = await runLab(({ step }) => step.effect("call what is down", down, {}));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "")).toMatchObject({ message: expect.stringMatching(/^127\.0\.0\.1:9 gave no answer: ./) });
    expect(row?.error).not.toMatch(/private|secret/);
  });

  it("an error that the code throws between steps has the file and line of its first frame, and no text of its message there", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    const { instanceId } = await runLab(
      async ({ step }) => {
        await step.commit("note", () => ({}));
        throw new Error("My own bug\n    at secret (payload.ts:1:1)");
      },
      { name },
    );
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await until(async () => lines().some(({ log }) => log === "ended"), Boolean);
    const where = expect.stringMatching(/logged\.test\.ts:\d+:\d+/);
    expect(lines().find(({ log }) => log === "ended")).toMatchObject({ step: "", where });
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "")).toMatchObject({ step: "", where });
  });

  it("a successful run logs one line: its end", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }], request);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const ended = { log: "ended", instance_id: instanceId, workflow: "probe", status: "complete", subject: name, trace_id: TRACE };
    await until(async () => lines().length > 0, Boolean);
    expect(lines()).toEqual([expect.objectContaining(ended)]);
  });

  it("an effect in doubt is logged with its step, and the upstream's last answer", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    await behave({ subject: `${name}/mail`, mode: "busy", times: 1 });
    const { instanceId } = await start(name, [{ do: "once", name: "mail" }], request);
    expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
    const doubt = {
      log: "attempt",
      instance_id: instanceId,
      step: "mail",
      attempt: 1,
      outcome: "in_doubt",
      effect: formatEntryKey({ instanceId, step: "mail", item: "", generation: 1 }),
      code: "in_progress",
      upstream_status: 409,
    };
    // Its row has it a moment earlier.
    const said = await until(
      async () => lines(),
      ({ length }) => length > 0,
    );
    expect(said).toEqual([expect.objectContaining(doubt)]);
  });

  it("an error of the author's code has the place where it was thrown, and an invalid payload has none", async () => {
    const name = fresh("lab");
    const lines = linesAbout(name);
    const secret = `secret-${crypto.randomUUID()}`;
    const retries = { limit: 0, delay: 1 };
    const { instanceId } = await runLab(
      ({ step }) => step.read("guess", () => Promise.reject(new TypeError("x is not a function")), { retries }),
      {
        name,
        note: secret,
      },
    );
    await until(async () => lines().some(({ log }) => log === "ended"), Boolean);
    const own = { instance_id: instanceId, step: "guess", code: "step_failed", error: "x is not a function" };
    expect(lines()).toEqual([
      expect.objectContaining({ log: "attempt", ...own, stack: expect.stringContaining("at ") }),
      expect.objectContaining(own),
    ]);
    expect(JSON.stringify(lines())).not.toContain(secret);
  });

  it.each([
    ["", ""],
    [", also after the thousand characters that the code gets", "x".repeat(1100)],
  ])("a message line that resembles a stack line is not treated as one%s", async (_, filler) => {
    const name = fresh("lab");
    const lines = linesAbout(name);
    const secret = `secret-${crypto.randomUUID()}`;
    const policy = { retries: { limit: 0, delay: 1 } };
    const refuse = () => Promise.reject(new Error(`Refused:${filler}\n    at ${secret} (x.ts:1:1)`));
    const code = async ({ step }: LabCall) => {
      const caught = await step.read("guess", refuse, policy).catch((error: unknown) => error);
      await step.read("say it", () => Promise.reject(caught), policy).catch(() => undefined);
      throw caught;
    };
    await runLab(code, { name, person: { email: secret, city: "Bern" } });
    await until(async () => lines().some(({ log }) => log === "ended"), Boolean);
    for (const step of ["guess", "say it"]) {
      expect(lines()).toContainEqual(expect.objectContaining({ log: "attempt", step, stack: expect.stringContaining("at ") }));
    }
    expect(
      lines()
        .map(({ stack }) => String(stack))
        .join("\n"),
    ).not.toContain(secret);
  });

  it("an attempt that times out is logged, also while it still runs", async () => {
    const name = fresh("lab");
    const lines = linesAbout(name);
    await behave({ subject: name, mode: "slow", delayMs: 2000, times: 1 });
    let hangs = true;
    const hang = () => {
      hangs = false;
      return new Promise<number>(() => undefined);
    };
    const post = defineStep({
      effect: "natural",
      timeout: 1000,
      retries: { limit: 1, delay: 10 },
      run: async ({ fetch }) => (await fetch(`${probeEnv.UPSTREAM_URL}/natural/${name}`, { method: "PUT", body: "{}" })).text(),
    });
    const { instanceId } = await runLab(
      async ({ step }) => {
        await step.effect("post", post, null);
        await step.read("deaf", () => (hangs ? hang() : Promise.resolve(1)), {
          timeout: 500,
          retries: { limit: 1, delay: 10 },
        });
      },
      { name },
    );
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    await until(async () => lines().some(({ log }) => log === "ended"), Boolean);
    const timeOut = { log: "attempt", instance_id: instanceId, attempt: 1, outcome: "retried", code: "step_timeout" };
    expect(lines()).toEqual([
      expect.objectContaining({ log: "ended", status: "complete" }),
      expect.objectContaining({ ...timeOut, step: "post", error: "The effect did not end within 1000 ms." }),
      expect.objectContaining({ ...timeOut, step: "deaf" }),
    ]);
  });

  it("a step that did not begin, because the code names it twice, is named", async () => {
    const name = fresh("lab");
    const lines = linesAbout(name);
    const { instanceId } = await runLab(
      async ({ step }) => {
        await step.commit("reserve stock", () => ({}));
        await step.commit("reserve stock", () => ({}));
      },
      { name },
    );
    const ended = await until(async () => lines().find(({ log }) => log === "ended"), Boolean);
    expect(ended).toMatchObject({ instance_id: instanceId, code: "nondeterministic_steps", step: "", at: "reserve stock" });
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "")).toMatchObject({ step: "", at: "reserve stock" });
  });

  it("a class that another workflow's binding names is reported with that binding", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    const id = crypto.randomUUID().replaceAll("-", "");
    await LAB.create({ id, params: { ...event("probe.signal", name, { about: name, value: "x" }) } });
    expect(await platformReaches(id, "errored", "complete")).toBe("errored");
    const ended = await until(async () => lines().find(({ log }) => log === "ended"), Boolean);
    expect(ended).toMatchObject({
      code: "config_invalid",
      error: expect.stringContaining('"probe.signal" runs the workflow "lab", which accepts "lab.requested"'),
    });
  });

  it("a captured message shows its reason, its dead letter, its tenant and its trace", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    const { traceparent, ...body } = event("probe.signal", name, { about: 7 });
    await deliver("probe-events", [{ ...body, traceparent }]);
    const [letter] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`);
    expect(lines()).toEqual([
      expect.objectContaining({
        log: "delivery",
        queue: "probe-events",
        delivery_id: expect.any(String),
        attempt: 1,
        outcome: "captured",
        dead_letter: letter?.id,
        code: "invalid_payload",
        error: expect.stringContaining("payload.about"),
        tenant_id: "acme",
        message_type: "probe.signal",
        subject: name,
        trace_id: "a".repeat(32),
      }),
    ]);
  });

  it("a message that is captured because of another payload's key shows the same", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    const key = crypto.randomUUID();
    for (const value of ["one", "other"]) await deliver("probe-events", [event("probe.signal", name, { about: name, value }, key)]);
    const [letter] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`);
    const said = { log: "delivery", queue: "probe-events", outcome: "captured", code: "idempotency_key_reused", tenant_id: "acme" };
    expect(lines()).toEqual([expect.objectContaining({ ...said, dead_letter: letter?.id, delivery_id: expect.any(String) })]);
  });

  it("an end that only the keeper detected is logged by the keeper", async () => {
    const name = fresh("lab");
    const { instanceId } = await runLab(({ step }) => step.sleep("a while", "1 hour"), { name });
    await platformReaches(instanceId, "waiting", "running");
    const lines = linesAbout(name);
    await (await LAB.get(instanceId)).terminate();
    await until(async () => {
      await keeperRound();
      return lines().length;
    }, Boolean);
    expect(lines()).toEqual([
      {
        log: "ended",
        level: "info",
        instance_id: instanceId,
        workflow: "lab",
        tenant_id: "acme",
        subject: name,
        correlation_id: expect.any(String),
        status: "terminated",
      },
    ]);
  });
});
