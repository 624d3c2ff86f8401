import { call, defineConsumer, type MillraceError, on, sendEach } from "millrace";
import { deliverTo } from "millrace/testing";
import { catalog, dispatch } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { acceptCommands, type UntypedRequest } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { routesOf, startsOf } from "../../probe/consumers.ts";
import { ProbeFollow, ProbeRouted, probeCommands, probeEvents } from "../../probe/messages.ts";
import { followProbe, probe } from "../../probe/workflows.ts";
import { dieAt, event, fresh, happened, keeperRound, probeEnv, reaches, rows, until } from "../harness.ts";
import { keepRow, kept, lettersAbout } from "./routed.ts";

const charge = [{ do: "keyed", name: "charge" }] as const;
const paced = catalog({ consumers: [defineConsumer({ queue: probeCommands, starts: [probe], priority: { low: "90 seconds" } })] });
const by = { tenantId: "acme", source: "test" };

async function ask(name: string, request: Partial<UntypedRequest>, app = paced) {
  const [answer] = await acceptCommands(probeEnv, app, by, [
    { type: "probe.requested", payload: { name, steps: [...charge] }, ...request },
  ]);
  return answer as { instanceId: string } & MillraceError;
}

/** Prevents the delivery of commands by their queue. */
function keptFromTheQueue() {
  const sending = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_COMMANDS) as Queue, "sendBatch").mockResolvedValue(undefined as never);
  onTestFinished(() => sending.mockRestore());
  const sent = () => sending.mock.calls.flatMap(([messages]) => [...messages] as { body: { subject: string }; delaySeconds?: number }[]);
  return (subject: string) => sent().flatMap(({ body, delaySeconds }) => (body.subject.startsWith(subject) ? [delaySeconds ?? 0] : []));
}

describe("Priorities", () => {
  it("a command with the priority `high` starts at once, and is not sent to its queue", async () => {
    const delays = keptFromTheQueue();
    const name = fresh();
    const { instanceId } = await ask(name, { priority: "high" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await ask(name, { priority: "high" })).toMatchObject({ instanceId, replayed: true });
    expect(delays(name)).toEqual([]);
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("a command with the priority `low` is delayed by the time that its consumer sets, in addition to the delay of the command", async () => {
    const delays = keptFromTheQueue();
    const name = fresh();
    for (const [index, request] of [{ priority: "low" }, { priority: "low", delaySeconds: 300 }, { priority: "normal" }, {}].entries())
      await ask(`${name}-${index}`, request as UntypedRequest);
    expect(delays(name)).toEqual([90, 390, 0, 0]);
  });

  it("A03 the keeper starts a committed command with the priority `high` once when its process died before the start", async () => {
    const name = fresh();
    dieAt("A03 accept committed, not enqueued");
    await expect(ask(name, { priority: "high" })).rejects.toThrow("Died");
    // A round may have no time for this command after the open work of other tests.
    const round = async () => {
      await keeperRound();
      return await rows<{ id: string; status: string }>("SELECT id, status FROM millrace_instances WHERE subject = ?1", name);
    };
    const [row] = await until(round, ([seen]) => seen?.status !== "accepted");
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
    expect(await happened(`${name}/charge`)).toHaveLength(1);
  });

  it("a command with the priority `high` is sent to its queue while the platform refuses starts", async () => {
    const name = fresh();
    const busy = { createBatch: () => Promise.reject(new Error("429 too many")) } as unknown as Workflow;
    const [answer] = await acceptCommands({ ...probeEnv, PROBE: busy } as never, paced, by, [
      { type: "probe.requested", payload: { name, steps: [...charge] }, priority: "high" },
    ]);
    expect(await reaches((answer as { instanceId: string }).instanceId, "complete")).toBe("complete");
  });

  it("a command with a priority is refused when its queue has no priorities, and one with the priority `high` when it has a delay", async () => {
    const name = fresh();
    const none = catalog({ consumers: [startsOf(probe)] });
    for (const priority of ["high", "low"] as const) {
      expect(await ask(name, { priority }, none)).toMatchObject({
        code: "invalid_payload",
        detail: { issues: [{ path: "priority", message: expect.stringContaining("the queue probe-commands has no priorities") }] },
      });
    }
    expect(await ask(name, { priority: "high", delaySeconds: 5 })).toMatchObject({ detail: { issues: [{ path: "priority" }] } });
    expect(await ask(`${name}-normal`, { priority: "normal" }, none)).toMatchObject({ replayed: false });
    expect(await rows("SELECT id FROM millrace_instances WHERE subject = ?1", name)).toEqual([]);
  });
});

describe("Rates", () => {
  const each = (ratePerSecond: number) =>
    catalog({
      consumers: [
        startsOf(followProbe),
        routesOf(
          on(
            ProbeRouted,
            sendEach(
              ProbeFollow,
              ({ payload: { name } }) => Array.from({ length: 7 }, (_, index) => ({ name: `${name}-${index}`, step: "charge" })),
              undefined,
              {
                ratePerSecond,
              },
            ),
          ),
        ),
      ],
    });
  const told = (app: ReturnType<typeof each>, name: string) =>
    deliverTo((batch) => dispatch(app)(batch, probeEnv as never), "probe-events", [event("probe.routed", name, { name })], 1);

  it.each([
    [3, [0, 0, 0, 1, 1, 1, 2]],
    [0.5, [0, 2, 4, 6, 8, 10, 12]],
  ])("the option `ratePerSecond: %d` spreads the commands of one event over time", async (rate, delays) => {
    const sent = keptFromTheQueue();
    const name = fresh();
    expect(await told(each(rate), name)).toEqual({ acked: 1, retried: 0 });
    expect(sent(name).toSorted((one, other) => one - other)).toEqual(delays);
  });

  it("an event is refused when its `ratePerSecond` would delay the last command by more than 12 hours", async () => {
    const name = fresh();
    await told(each(0.0001), name);
    expect(await rows("SELECT id FROM millrace_instances WHERE subject LIKE ?1 || '%'", name)).toEqual([]);
    expect(await lettersAbout(name)).toMatchObject([{ error: expect.stringContaining("message 6 would wait longer than 12 hours") }]);
  });

  it.each([0, -1, Number.NaN, 1001])("the option `ratePerSecond: %d` is refused when the deployment starts", (rate) => {
    expect(() => each(rate)).toThrow(/use more than 0 and at most 1000/);
  });
});

describe("Deadlines", () => {
  it("messages that are not processed before the deadline of their batch are requeued, and the others are settled", async () => {
    const back = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS) as Queue, "send").mockResolvedValue(undefined as never);
    onTestFinished(() => back.mockRestore());
    const name = fresh();
    const slow = (one: string) => one.endsWith("slow");
    const wait = call<{ name: string }>(({ payload }) => (slow(payload.name) ? new Promise(() => undefined) : Promise.resolve()));
    const consumer = defineConsumer({ queue: probeEvents, deadline: "1 second", routes: [on(ProbeRouted, keepRow, wait)] });
    const consume = dispatch(catalog({ consumers: [consumer] }));
    const events = [name, `${name}-slow`].map((one) => event("probe.routed", one, { name: one }));
    const deliver = (attempt: number) => deliverTo((batch) => consume(batch, probeEnv as never), "probe-events", events, attempt);
    expect(await deliver(1)).toEqual({ acked: 1, retried: 1 });
    expect(await deliver(4), "at its last try the message is requeued").toEqual({ acked: 2, retried: 0 });
    expect(back.mock.calls.map(([body]) => body)).toEqual([events[1]]);
    expect(await kept(name)).toHaveLength(1);
    expect(await lettersAbout(name)).toEqual([]);
  });

  it.each(["0 seconds", "15 minutes", "1 hour"] as const)("a batch deadline of %s is refused when the deployment starts", (deadline) => {
    expect(() => defineConsumer({ queue: probeEvents, deadline, routes: [] })).toThrow(/less than 15 minutes, the platform's limit/);
  });

  it("a priority `low` with a delay above the queue's maximum is refused when the deployment starts", () => {
    expect(() => defineConsumer({ queue: probeCommands, starts: [], priority: { low: "13 hours" } })).toThrow(/12 hours/);
  });
});
