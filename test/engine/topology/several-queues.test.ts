import { call, defineCommand, defineConsumer, defineQueue, defineWorkflow, notRetryable, on, publishEvents } from "millrace";
import { deadLetters, SCOPES } from "millrace/operate";
import { deliverTo } from "millrace/testing";
import { catalog, dispatch, outbox } from "millrace/worker";
import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { ProbeRouted, probeEvents } from "../../probe/messages.ts";
import { hearing, SharedTold, sharedEvents } from "../../probe/shared.ts";
import { app } from "../../probe/worker.ts";
import { event, fresh, probeEnv, rows, until } from "../harness.ts";

/** The queue of a tenant. ONE and TWO are tenants of the first and second queue. */
const queueOf = (tenant_id: string) => outbox.queueFor(sharedEvents, { tenant_id, subject: "" });
const ours = (queue: string) => Array.from({ length: 50 }, (_, index) => `t${index}`).find((tenant) => queueOf(tenant) === queue) ?? "";
const [ONE, TWO] = [ours("shared-events"), ours("shared-events-2")];

const ask = (tenantId: string, name: string, asks: string[] = []) =>
  acceptCommands(probeEnv, app, { tenantId, source: "test" }, [{ type: "shared.asked", payload: { name, asks } }]);
const state = (tenantId: string, name: string) =>
  publishEvents(probeEnv, app, { tenantId, source: "test" }, [{ type: SharedTold.type, payload: { name }, idempotencyKey: name }]);
const told = (tenant_id: string, name: string) => ({
  ...event("probe.routed", name, { name, asks: [] }),
  ...{ message_type: SharedTold.type, tenant_id },
});
const lettersAbout = (name: string) =>
  rows<{ id: string; queue: string; state: string }>(
    "SELECT id, queue, state FROM millrace_dead_letters WHERE body LIKE ?1 ORDER BY first_at",
    `%"${name}"%`,
  );

/** Refuses the event with this name this number of times, then accepts it. */
function refuse(name: string, times: number): { heard: number } {
  const seen = { heard: 0 };
  hearing.set(name, async () => {
    if (times-- > 0) throw notRetryable(`${name} is refused.`);
    seen.heard++;
  });
  onTestFinished(() => void hearing.delete(name));
  return seen;
}

describe("A queue that is split by tenant", () => {
  it.each([
    [ONE, ""],
    [TWO, "-2"],
    ["big", "-big"],
  ])('commands of the tenant %s, their events and the resulting commands use the queues with the suffix "%s"', async (tenant, end) => {
    const [first, second] = [fresh(), fresh()];
    refuse(second, 1);
    await ask(tenant, first, [second]);
    // The event of the second run is refused, and its dead letter has the name of the queue that delivered it.
    const letters = await until(
      () => lettersAbout(second),
      (found) => found.length > 0,
    );
    expect(letters).toMatchObject([{ queue: `shared-events${end}` }]);
    expect(await rows("SELECT DISTINCT queue FROM millrace_instances WHERE idempotency_key IN (?1, ?2)", first, second)).toEqual([
      { queue: `shared-commands${end}` },
    ]);
  });

  it("a burst of one tenant does not delay another tenant on another queue", async () => {
    const [mine, yours] = [fresh(), fresh()];
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let begun = false;
    hearing.set(mine, () => {
      begun = true;
      return held;
    });
    const seen = refuse(yours, 0);
    await state(ONE, mine);
    await until(async () => begun, Boolean);
    await state(TWO, yours);
    const heard = await until(async () => seen.heard, Boolean);
    release();
    hearing.delete(mine);
    expect(heard).toBe(1);
  });

  it("a dead letter of a retired queue is replayed to its tenant's current queue", async () => {
    const name = fresh();
    const seen = refuse(name, 2);
    const consume = dispatch(app);
    const settled = await deliverTo((batch) => consume(batch, probeEnv as never), "shared-events-old", [told(TWO, name)]);
    expect(settled).toEqual({ acked: 1, retried: 0 });
    const operator = { tenantId: TWO, actor: "tess", scopes: SCOPES };
    const replay = async () => {
      const letter = (await lettersAbout(name)).find((one) => one.state === "open");
      return deadLetters.replay(probeEnv, app, operator as never, letter?.id ?? "", { reason: "mended" });
    };
    expect(await replay()).toMatchObject({ sent: true });
    const letters = await until(
      () => lettersAbout(name),
      (found) => found.length > 1,
    );
    expect(letters.map(({ queue }) => queue)).toEqual(["shared-events-old", "shared-events-2"]);
    await replay();
    expect(await until(async () => seen.heard, Boolean)).toBe(1);
  });

  it("the order of a sender's messages is kept when a larger number of queues moves them to another queue", async () => {
    const heard: string[] = [];
    const subject = fresh();
    const numbered = (sequence: number) => ({ ...event("probe.routed", subject, { name: `${subject}#${sequence}` }), sequence });
    const deliver = (partitions: number, queue: string, sequence: number) => {
      const queueOfThem = defineQueue({ name: probeEvents.name, partitions });
      const hear = call<{ name: string }>(({ payload }) => void heard.push(payload.name));
      const routes = [on({ ...ProbeRouted, queue: queueOfThem }, hear)];
      const consumer = defineConsumer({ queue: queueOfThem, sequence: { gap: "retry" }, routes });
      const consume = dispatch(catalog({ consumers: [consumer] }));
      return deliverTo((batch) => consume(batch, probeEnv as never), queue, [numbered(sequence)]);
    };
    expect(await deliver(1, "probe-events", 1)).toEqual({ acked: 1, retried: 0 });
    expect(await deliver(1, "probe-events", 2)).toEqual({ acked: 1, retried: 0 });
    expect(await deliver(2, "probe-events-2", 3)).toEqual({ acked: 1, retried: 0 });
    expect(heard).toEqual([1, 2, 3].map((number) => `${subject}#${number}`));
  });

  it('a queue with `by: "subject"` distributes one tenant\'s messages by their subject', () => {
    const queue = defineQueue({ name: "orders", partitions: 4, by: "subject", tenants: ["big"] });
    const subjects = Array.from({ length: 100 }, (_, index) => `order-${index}`);
    const counts = Map.groupBy(subjects, (subject) => outbox.queueFor(queue, { tenant_id: "acme", subject }));
    expect([...counts.keys()].sort()).toEqual(["orders", "orders-2", "orders-3", "orders-4"]);
    for (const found of counts.values()) expect(found.length).toBeGreaterThan(10);
    expect(outbox.queueFor(queue, { tenant_id: "big", subject: "order-1" })).toBe("orders-big");
    expect(outbox.queueFor(queue, { tenant_id: "constructor", subject: "order-1" })).toMatch(/^orders(-[234])?$/);
  });
});

const payload = z.object({ name: z.string() });
const name = ({ name }: { name: string }) => name;
const performing = (queue: ReturnType<typeof defineQueue>) => {
  const command = defineCommand({ type: "probe.spread", payload, key: name, subject: name, queue });
  return defineWorkflow({ name: "probe", on: command, run: async () => undefined });
};

it("a command is refused while one of its queues is not bound, and the error names the line to add", async () => {
  const queue = defineQueue({ name: "shared-commands", partitions: 3 });
  const app = catalog({ consumers: [defineConsumer({ queue, starts: [performing(queue)] })] });
  const [answer] = await acceptCommands(probeEnv, app, { tenantId: ONE, source: "test" }, [
    { type: "probe.spread", payload: { name: fresh() } },
  ]);
  expect(answer).toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining(
      '"queues.producers" in wrangler.jsonc: {"binding": "SHARED_COMMANDS_3", "queue": "shared-commands-3"}',
    ),
  });
});

it.each<[string, Parameters<typeof defineQueue>[0], string]>([
  ["partitions: 0", { name: "orders", partitions: 0 }, 'The queue "orders" has partitions: 0. Use 1 to 100.'],
  ["half a partition", { name: "orders", partitions: 1.5 }, "Use 1 to 100"],
  ["a tenant name that is invalid in a queue name", { name: "orders", tenants: ["big_shop"] }, '"orders-big_shop" is not a queue name'],
  [
    "a tenant with the same queue name as a partition",
    { name: "orders", partitions: 2, tenants: ["2"] },
    'contains two queues named "orders-2"',
  ],
  [
    "a tenant with the same queue name as the dead-letter queue",
    { name: "orders", tenants: ["dlq"] },
    'contains two queues named "orders-dlq"',
  ],
])("defineQueue refuses %s", (_, options, says) => {
  expect(() => defineQueue(options)).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(says) }));
});

const orders = (partitions: number) => defineQueue({ name: "orders", partitions });

it("a catalog is refused when a message and its consumer declare one queue with different partitions", () => {
  const consumer = defineConsumer({ queue: orders(1), starts: [performing(orders(2))] });
  expect(() => catalog({ consumers: [consumer] })).toThrow(
    'The queue "orders" is declared twice, with different partitions, tenants or retired queues: declare it once.',
  );
});

it("a catalog is refused when two consumers have one queue", () => {
  const consumers = [orders(2), defineQueue({ name: "orders-2" })].map((queue) => defineConsumer({ queue, starts: [] }));
  expect(() => catalog({ consumers })).toThrow('The queue "orders-2" has two consumers');
});
