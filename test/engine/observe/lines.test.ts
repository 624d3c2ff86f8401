import { describe, expect, it, onTestFinished, vi } from "vitest";
import page from "../../../docs/logs.md?raw";
import { sampledAs } from "../../../packages/millrace/src/observe/log/instances.ts";
import { behave, deliver, event, fresh, probeEnv, reaches, start, until } from "../harness.ts";
import { runLab } from "../lab.ts";

interface Line {
  log: string;
  [field: string]: unknown;
}

/** Collects the engine's log lines from now on. */
function lines(): () => Line[] {
  const spies = (["log", "warn", "error"] as const).map((level) => vi.spyOn(console, level).mockImplementation(() => {}));
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  const said = () => spies.flatMap((spy) => spy.mock.calls.map(([line]) => String(line)));
  return () =>
    said()
      .filter((line) => line.startsWith('{"log":'))
      .map((line) => JSON.parse(line) as Line);
}

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const job = { correlationId: "job 8", traceparent: `00-${TRACE}-b7ad6b7169203331-01` };

describe("Log lines about successes", () => {
  it("a sensitive field of a message is hidden in its log lines, also as a part of the idempotency key", async () => {
    const name = fresh("lab");
    const said = lines();
    const secret = `secret-${crypto.randomUUID()}`;
    await runLab(({ step }) => step.read("look", async () => 1), {
      name,
      person: { email: secret, city: "Bern" },
      idempotencyKey: `k/${secret}`,
    });
    const own = () => said().filter(({ subject }) => subject === name);
    await until(async () => own().length >= 3, Boolean);
    const keys = own().map(({ log, idempotency_key }) => [log, idempotency_key]);
    expect(keys.toSorted()).toEqual(["attempt", "delivery", "ended"].map((log) => [log, "k/[redacted]"]));
  });

  it("a delivery's log line has its delay and duration, an attempt's line has its duration, and the end of a run is one line", async () => {
    const said = lines();
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }], job);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const own = () => said().filter((line) => line.subject === name);
    await until(async () => own().some(({ log }) => log === "ended"), Boolean);
    const whose = {
      level: "info",
      tenant_id: "acme",
      correlation_id: "job 8",
      idempotency_key: name,
      message_type: "probe.requested",
      source: "test",
      subject: name,
      trace_id: TRACE,
      span_id: expect.stringMatching(/^[0-9a-f]{16}$/),
    };
    const [delivery, attempt, ended] = ["delivery", "attempt", "ended"].map((log) => own().filter((line) => line.log === log));
    expect(delivery).toEqual([
      {
        ...{ log: "delivery", ...whose, queue: "probe-commands", delivery_id: expect.any(String), attempt: 1, outcome: "started" },
        ...{ waited_ms: expect.any(Number), ms: expect.any(Number) },
      },
    ]);
    const run = { ...whose, instance_id: instanceId, workflow: "probe" };
    expect(attempt).toEqual([{ log: "attempt", ...run, step: "charge", attempt: 1, outcome: "done", ms: expect.any(Number) }]);
    expect(ended).toEqual([{ log: "ended", ...run, status: "complete", ms: expect.any(Number) }]);
    expect(own()).toHaveLength(3);
    const unnamed = own().flatMap((line) => Object.keys(line).filter((field) => !page.includes(`\`${field}\``)));
    expect(unnamed, "docs/logs.md names every field of the log lines").toEqual([]);
  });

  it("the log line of a batch of one message has that message's fields; the line of a larger batch has counts by outcome", async () => {
    const said = lines();
    const one = () => event("probe.signal", fresh(), { about: fresh(), value: "x" });
    await deliver("probe-events", [one()]);
    expect(said().filter(({ log }) => log === "batch")).toEqual([]);
    await deliver("probe-events", [one(), one()]);
    expect(said().filter(({ log, queue }) => log === "batch" && queue === "probe-events")).toEqual([
      { log: "batch", level: "info", queue: "probe-events", messages: 2, routed: 2 },
    ]);
    expect(said().filter(({ log, outcome }) => log === "delivery" && outcome === "routed")).toHaveLength(3);
  });
});

describe("Above the maximum rate", () => {
  const traces = Array.from({ length: 4096 }, () => crypto.randomUUID().replaceAll("-", ""));

  it("above the maximum rate log lines are sampled by trace, so that a job is logged completely or not at all, and each line has its weight", () => {
    const env = { LOG_GOOD_PER_SECOND: "64" };
    const second = (at: number) =>
      traces.flatMap((trace) => [sampledAs(env, trace, at)].flatMap((count) => (count ? [{ trace, count }] : [])));
    // After one second with 4,096 lines each line of the next second has weight 64.
    second(1e12);
    const [one, other] = [second(1e12 + 1000), second(1e12 + 2000)];
    expect(new Set(one.map(({ count }) => count))).toEqual(new Set([64]));
    expect(other).toEqual(one);
  });

  it("sums over sampled log lines are correct within the sampling error, and every line has weight 1 below the maximum rate", () => {
    const env = { LOG_GOOD_PER_SECOND: "512" };
    const standing = traces.slice(0, 512).map((trace) => sampledAs(env, trace, 2e12));
    expect(standing.every((count) => count === 1)).toBe(true);
    const sum = traces.reduce((total, trace) => total + (sampledAs(env, trace, 2e12 + 10_000) ?? 0), 0);
    expect(sum).toBeGreaterThan(4096 * 0.8);
    expect(sum).toBeLessThan(4096 * 1.2);
  });

  it("failures, dead letters and deferrals are logged at any rate", async () => {
    const rate = probeEnv as unknown as { LOG_GOOD_PER_SECOND: unknown };
    const before = rate.LOG_GOOD_PER_SECOND;
    rate.LOG_GOOD_PER_SECOND = "0";
    onTestFinished(() => {
      rate.LOG_GOOD_PER_SECOND = before;
    });
    const said = lines();
    const name = fresh();
    await behave({ subject: `${name}/charge`, mode: "refuse", status: 500, times: 1 });
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    await deliver("probe-events", [event("probe.signal", name, { about: 7 })]);
    await until(async () => said().some(({ outcome, subject }) => outcome === "captured" && subject === name), Boolean);
    const own = said().filter(({ subject }) => subject === name);
    expect(own.map(({ log, level, outcome }) => ({ log, level, outcome }))).toEqual([
      { log: "attempt", level: "warn", outcome: "retried" },
      { log: "delivery", level: "error", outcome: "captured" },
    ]);
  });
});
