import { env } from "cloudflare:workers";
import { settleCounts } from "millrace/testing";
import { keeperOf } from "millrace/worker";
import { expect, it } from "vitest";
import { count, observe } from "../../../../packages/millrace/src/observe/metrics/count.ts";
import { readCounted } from "../../../../packages/millrace/src/observe/metrics/folding.ts";
import { messagesByMinute } from "../../../../packages/millrace/src/observe/metrics/queue-health.ts";
import { countBatch } from "../../../../packages/millrace/src/observe/metrics/runs.ts";
import { fresh, probeEnv, reaches, start } from "../../harness.ts";

/** The keeper's value of a counter or of a histogram. */
async function counted(name: string, ...labels: string[]): Promise<number | number[]> {
  const { ever } = await keeperOf(probeEnv).vitals();
  return ever[name]?.[JSON.stringify(labels)] ?? 0;
}

it("each metric count is added to its counter once, for any number of partial merges", async () => {
  const queue = fresh("queue");
  count(probeEnv, "queue_messages_sent_total", { queue });
  await settleCounts(probeEnv);
  count(probeEnv, "queue_messages_sent_total", { queue }, 2);
  observe(probeEnv, "queue_batch_size", { queue }, 7);
  await settleCounts(probeEnv);
  await settleCounts(probeEnv);
  expect(await counted("queue_messages_sent_total", queue)).toBe(3);
  expect(await counted("queue_batch_size", queue)).toEqual([0, 0, 0, 1, 0, 0, 0, 0, 7]);
  expect(await env.DB.prepare("SELECT count(*) AS n FROM millrace_tallies").first("n")).toBe(0);
});

it("a counter's shown value never decreases, for any number of counts that wait for their merge", async () => {
  const [first, second] = [fresh("queue"), fresh("queue")];
  const insert = (queue: string, at: number) => {
    const body = JSON.stringify({ queue_messages_sent_total: { [JSON.stringify([queue])]: 1 } });
    const one = () => env.DB.prepare("INSERT INTO millrace_tallies (id, at, body) VALUES (?1, ?2, ?3)").bind(crypto.randomUUID(), at, body);
    return env.DB.batch(Array.from({ length: 600 }, one));
  };
  const shown = async (queue: string) =>
    Number((await readCounted(probeEnv, Date.now())).ever.queue_messages_sent_total?.[JSON.stringify([queue])] ?? 0);
  await insert(first, Date.now() - 60_000);
  const before = await shown(first);
  expect(before).toBeGreaterThan(0);
  await insert(second, Date.now());
  expect(await shown(first)).toBeGreaterThanOrEqual(before);
  for (let round = 0; round < 3; round++) await settleCounts(probeEnv);
  expect([await shown(first), await shown(second)]).toEqual([600, 600]);
});

it("a corrupt row of counts hides no other count, and does not stop the reading of gauges", async () => {
  const queue = fresh("queue");
  count(probeEnv, "queue_messages_sent_total", { queue });
  await settleCounts(probeEnv);
  const minute = Math.floor(Date.now() / 60_000) * 60_000 - 60_000;
  const spoil = (body: string) =>
    env.DB.prepare(
      "INSERT INTO millrace_counts (span, at, body) VALUES ('minute', ?1, ?2) ON CONFLICT (span, at) DO UPDATE SET body = excluded.body",
    )
      .bind(minute, body)
      .run();
  for (const body of ["null", "[]", '"x"', '{"messages_total":null}', '{"messages_total":{"no labels":"none"}}']) {
    await spoil(body);
    await keeperOf(probeEnv).readVitals();
    expect(await counted("queue_messages_sent_total", queue)).toBe(1);
  }
  await env.DB.prepare("DELETE FROM millrace_counts WHERE span = 'minute' AND at = ?1").bind(minute).run();
});

it("a run's message and end are counted, and the key of a step appears in no label", async () => {
  await settleCounts(probeEnv);
  const before = {
    received: await counted("queue_messages_received_total", "probe-commands"),
    ended: await counted("instances_ended_total", "probe", "complete", ""),
  };
  const { instanceId } = await start(fresh(), [
    { do: "commit", name: "one", key: "anna@example.com" },
    { do: "commit", name: "two" },
  ]);
  expect(await reaches(instanceId, "complete")).toBe("complete");
  await settleCounts(probeEnv);
  expect(await counted("queue_messages_received_total", "probe-commands")).toBeGreaterThan(Number(before.received));
  expect(await counted("instances_ended_total", "probe", "complete", "")).toBeGreaterThan(Number(before.ended));
  const { ever } = await keeperOf(probeEnv).vitals();
  expect(JSON.stringify(ever)).not.toContain("anna@example.com");
});

it("messages are counted by kind of sender, and a name that a sender chose is not a label", async () => {
  const [queue, sender] = [fresh("queue"), fresh("shop")];
  const messages = ["api/ada", "schedule:weekly", `${sender}/eve`, 7, undefined].map((source) => ({
    ...{ attempts: 2, timestamp: new Date(), body: { message_type: "probe.requested", source } },
  }));
  const outcomes = ["started", "started", "started", "duplicate", "duplicate"];
  countBatch(probeEnv, { queue, messages, outcomes, beganAt: Date.now(), isKnown: () => true });
  await settleCounts(probeEnv);
  const of = (outcome: string, source: string) => counted("messages_total", queue, "probe.requested", outcome, source);
  expect([await of("started", "api"), await of("started", "schedule"), await of("started", "other")]).toEqual([1, 1, 1]);
  expect(await of("duplicate", "other")).toBe(2);
  const vitals = await keeperOf(probeEnv).vitals();
  expect(JSON.stringify(vitals)).not.toContain(sender);
  const shown = (source?: string) => messagesByMinute(vitals, 5, source).filter((one) => one.queue === queue);
  const minute = { minute: expect.any(String), queue, type: "probe.requested" };
  expect(shown()).toEqual([{ ...minute, outcomes: { started: 3, duplicate: 2 }, sources: { api: 1, schedule: 1, other: 3 } }]);
  expect(shown("other")).toEqual([{ ...minute, outcomes: { started: 1, duplicate: 2 }, sources: { other: 3 } }]);
  expect(shown("keeper")).toEqual([]);
});

it("a text that a caller chose creates no time series: an unknown message type is counted as unknown", async () => {
  const type = `made.up.${fresh()}`;
  await probeEnv.PROBE_COMMANDS.send({ message_type: type });
  await expect
    .poll(
      async () => {
        await settleCounts(probeEnv);
        return counted("messages_total", "probe-commands", "unknown", "captured", "other");
      },
      { timeout: 20_000 },
    )
    .toBeGreaterThan(0);
  expect(JSON.stringify(await keeperOf(probeEnv).vitals())).not.toContain(type);
});
