import { env } from "cloudflare:workers";
import type { Envelope } from "millrace";
import { expect, inject, it, onTestFinished, vi } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../probe/worker.ts";
import { deliver, envelopeOf, event, fresh, keeperRound, probeEnv, reaches, rows, start } from "../harness.ts";

/** No other test uses this tenant, because consumers wait a limited time for the instances of one tenant. */
const tenant = { tenantId: "burst", source: "test" };
/** The number of commands in one burst. Set `BURST=20000` for the long form. */
const COMMANDS = inject("burst");
const CONSUMERS = 50;
/** The platform's limit of 100 per second, forty times as fast. */
const PER_MS = 4;
const BURST = 100;

const REFUSED = "You have exceeded the rate limit for creating instances of this workflow (429)";

/** Limits the creation of platform instances for a subject by a token bucket, and counts them. */
function limited(name: string, shape: "whole" | "single"): Map<string, number> {
  const made = new Map<string, number>();
  let tokens = BURST;
  let at = Date.now();
  const prototype = Object.getPrototypeOf(probeEnv.PROBE) as Workflow;
  const real = prototype.createBatch;
  const create = async function (this: Workflow, options: { instances: { id: string; params: { subject: string } }[] }) {
    const { instances } = options;
    if (instances[0]?.params.subject !== name) return real.call(this, options as never);
    tokens = Math.min(BURST, tokens + (Date.now() - at) * PER_MS);
    at = Date.now();
    if (shape === "whole" && instances.length > tokens) throw new Error(REFUSED);
    const errors: { index: number; message: string }[] = [];
    for (const [index, { id }] of instances.entries()) {
      if (made.has(id)) errors.push({ index, message: "(instance.already_exists) Instance already exists" });
      else if (tokens < 1) errors.push({ index, message: REFUSED });
      else {
        tokens--;
        made.set(id, (made.get(id) ?? 0) + 1);
      }
    }
    return { created: [], errors };
  };
  const spy = vi.spyOn(prototype, "createBatch").mockImplementation(create as never);
  onTestFinished(() => spy.mockRestore());
  return made;
}

/** Keeps the messages of the command queue, so that the test delivers them. */
function collected(name: string): unknown[] {
  const queue = Object.getPrototypeOf(probeEnv.PROBE_COMMANDS) as Queue;
  const real = queue.sendBatch;
  const messages: unknown[] = [];
  const spy = vi.spyOn(queue, "sendBatch").mockImplementation(async function (this: Queue, ...args) {
    const bodies = [...args[0]].map(({ body }) => body as { subject: string });
    if (bodies[0]?.subject !== name) return real.apply(this, args);
    messages.push(...bodies);
    return { metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } } as never;
  });
  onTestFinished(() => spy.mockRestore());
  return messages;
}

it.each(["whole", "single"] as const)(
  `A03 ${COMMANDS} commands of one workflow, sent to ${CONSUMERS} consumers while the platform limits its rate (%s calls), all start once without a dead letter`,
  async (shape) => {
    const name = fresh("burst");
    const made = limited(name, shape);
    const messages = collected(name);
    onTestFinished(async () => void (await env.DB.prepare("DELETE FROM millrace_instances WHERE subject = ?1").bind(name).run()));
    for (let from = 0; from < COMMANDS; from += 100) {
      const requests = Array.from({ length: 100 }, (_, index) => ({
        type: "probe.requested",
        idempotencyKey: `${name}/${from + index}`,
        payload: { name, steps: [] },
      }));
      await acceptCommands(probeEnv, app, tenant, requests);
    }
    expect(messages).toHaveLength(COMMANDS);

    let retried = 0;
    const batches = Array.from({ length: Math.ceil(COMMANDS / 10) }, (_, index) => messages.slice(index * 10, index * 10 + 10));
    await Promise.all(
      Array.from({ length: CONSUMERS }, async () => {
        for (let batch = batches.shift(); batch; batch = batches.shift()) retried += (await deliver("probe-commands", batch)).retried;
      }),
    );
    expect(retried).toBe(0);
    // The keeper creates the instances that the consumers could not create.
    for (let round = 1; made.size < COMMANDS && round <= 50; round++) {
      const ids = JSON.stringify([...made.keys()]);
      await env.DB.prepare(
        "UPDATE millrace_instances SET status = 'complete', check_at = NULL WHERE id IN (SELECT value FROM json_each(?1))",
      )
        .bind(ids)
        .run();
      await keeperRound();
    }
    expect(made.size).toBe(COMMANDS);
    expect([...made.values()].every((times) => times === 1)).toBe(true);
    expect(await rows("SELECT count(*) AS n FROM millrace_dead_letters WHERE idempotency_key LIKE ?1", `${name}/%`)).toEqual([{ n: 0 }]);
  },
  600_000,
);

it("A03 a consumer that the platform rate-limits waits and retries, so that the keeper has no command to start", async () => {
  const name = fresh("turn");
  const prototype = Object.getPrototypeOf(probeEnv.PROBE) as Workflow;
  const real = prototype.createBatch;
  let refused = 0;
  const create = async function (this: Workflow, options: { instances: { params: { subject: string } }[] }) {
    if (options.instances[0]?.params.subject !== name || refused++ > 0) return real.call(this, options as never);
    throw new Error(REFUSED);
  };
  const spy = vi.spyOn(prototype, "createBatch").mockImplementation(create as never);
  onTestFinished(() => spy.mockRestore());
  const command = {
    ...event("probe.done", name, { name, steps: [] }, name),
    kind: "command",
    message_type: "probe.requested",
    schema_version: 2,
  };
  expect(await deliver("probe-commands", [command as Envelope])).toEqual({ acked: 1, retried: 0 });
  expect(refused).toBe(2);
  const [run] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  expect(await reaches(run?.id ?? "", "complete")).toBe("complete");
});

it("A03 messages are acknowledged at once while the platform creates no instances, and the keeper starts their commands later", async () => {
  const name = fresh("outage");
  const prototype = Object.getPrototypeOf(probeEnv.PROBE) as Workflow;
  const spy = vi.spyOn(prototype, "createBatch").mockRejectedValue(new Error("workflows.api.error.internal_server"));
  onTestFinished(() => spy.mockRestore());
  const { instanceId } = await start(name, [{ do: "commit", name: "note" }], { delaySeconds: 600 });
  await rows("UPDATE millrace_instances SET due_at = accepted_at WHERE id = ?1 RETURNING id", instanceId);
  const message = await envelopeOf(instanceId);
  const outside = { ...message, idempotency_key: `${name}/outside` };
  for (const attempts of [1, 3]) expect(await deliver("probe-commands", [message, outside], attempts)).toEqual({ acked: 2, retried: 0 });
  spy.mockRestore();
  await keeperRound();
  const runs = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  for (const { id } of runs) expect(await reaches(id, "complete")).toBe("complete");
  expect(runs).toHaveLength(2);
  expect(await rows("SELECT id FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`)).toEqual([]);
});
