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

/** Collects the log lines from now on that contain one of these names, without the lines of successful deliveries and attempts. */
function linesAbout(...names: string[]): () => Line[] {
  const all = allLinesAbout(...names);
  return () => all().filter(({ log, level }) => level !== "info" || (log !== "delivery" && log !== "attempt"));
}

/** Collects all log lines from now on that contain one of these names. */
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
  it("each failed attempt is one log line with instance, workflow, step, subject, tenant, job, trace and error, and the run's end is another", async () => {
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

  it("a connection error is logged with the upstream's host and port, without its path and query", async () => {
    const down = defineStep({
      effect: "natural",
      retries: { limit: 0, delay: 10 },
      run: async ({ fetch }) => (await fetch("http://127.0.0.1:9/private/path?secret=1")).status,
    });
    const { instanceId } = await runLab(({ step }) => step.effect("call the upstream", down, {}));
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "")).toMatchObject({ message: expect.stringMatching(/^127\.0\.0\.1:9 gave no answer: ./) });
    expect(row?.error).not.toMatch(/private|secret/);
  });

  it("an error that workflow code throws between steps is logged with the file and line of its first frame, and without its message", async () => {
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

  it("an effect in doubt is logged with its step and the upstream's last answer", async () => {
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
    // The row gets the status a moment before the line is logged.
    const said = await until(
      async () => lines(),
      ({ length }) => length > 0,
    );
    expect(said).toEqual([expect.objectContaining(doubt)]);
  });

  it("an error of the author's code is logged with the place where it was thrown, and without the run's payload", async () => {
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
    [", also beyond the 1,000 characters of an error that the code gets", "x".repeat(1100)],
  ])("the second line of an error message is not logged as a stack line when it resembles one%s", async (_, filler) => {
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

  it("an attempt that exceeds its timeout is logged, also when its code has not returned", async () => {
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

  it("a run with a step name that the code uses twice logs that name", async () => {
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

  it("a run that another workflow's class received through a wrong binding is logged with both workflow names", async () => {
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

  it("the log line of a dead letter has its reason, id, tenant and trace", async () => {
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

  it("the log line of a message refused because its key has another payload has the reason, dead letter, tenant and delivery", async () => {
    const name = fresh();
    const lines = linesAbout(name);
    const key = crypto.randomUUID();
    for (const value of ["one", "other"]) await deliver("probe-events", [event("probe.signal", name, { about: name, value }, key)]);
    const [letter] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`);
    const said = { log: "delivery", queue: "probe-events", outcome: "captured", code: "idempotency_key_reused", tenant_id: "acme" };
    expect(lines()).toEqual([expect.objectContaining({ ...said, dead_letter: letter?.id, delivery_id: expect.any(String) })]);
  });

  it("the end of a run that only the keeper detected is logged by the keeper", async () => {
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
