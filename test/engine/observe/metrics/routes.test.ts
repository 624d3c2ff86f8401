import { createExecutionContext } from "cloudflare:test";
import { engineRoutes } from "millrace/http";
import { type Scope, tokens } from "millrace/operate";
import { settleCounts } from "millrace/testing";
import { expect, it } from "vitest";
import { count, observe } from "../../../../packages/millrace/src/observe/metrics/count.ts";
import { app } from "../../../probe/worker.ts";
import { readMetrics } from "../../../prometheus-text.ts";
import { fresh, probeEnv, reaches, start } from "../../harness.ts";

const api = engineRoutes(app);

async function asking(scopes: readonly Scope[], tenantId = "acme") {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes });
  return (path: string, accept = "*/*") => {
    const headers = { authorization: `Bearer ${token}`, accept };
    return api.fetch(new Request(`http://localhost${path}`, { headers }), probeEnv, createExecutionContext()) as Promise<Response>;
  };
}

it("the deployment's health is visible only to tokens with the scope observe", async () => {
  const plain = await asking(["read", "operate", "unattributed"]);
  for (const path of ["/metrics", "/v1/queues", "/v1/messages/by-minute", "/v1/messages/dead-letters", "/v1/workflows/by-time"]) {
    expect((await api.fetch(new Request(`http://localhost${path}`), probeEnv, createExecutionContext())).status, path).toBe(401);
    expect((await plain(path)).status, path).toBe(403);
  }
});

it("a scrape returns every series in both formats, for any text in a label", async () => {
  const queue = `odd "queue"\\ of\nlines ${fresh()}`;
  count(probeEnv, "queue_messages_sent_total", { queue }, 3);
  for (const seconds of [0.004, 0.2, 1000]) observe(probeEnv, "queue_processing_duration_seconds", { queue }, seconds);
  await settleCounts(probeEnv);
  const ask = await asking(["observe"]);
  const plain = await ask("/metrics");
  expect(plain.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  const open = await ask("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
  expect(open.headers.get("content-type")).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
  for (const answer of [plain, open]) {
    // The test does not use `text()`: the runtime warns about media types that do not begin with "text".
    const text = new TextDecoder().decode(await answer.arrayBuffer());
    const own = readMetrics(text).filter(({ labels }) => labels.queue === JSON.stringify(queue).slice(1, -1));
    expect(own.find(({ name }) => name === "millrace_queue_messages_sent_total")?.value).toBe(3);
    const buckets = own.filter(({ name }) => name.endsWith("_bucket"));
    expect(buckets.find(({ labels }) => labels.le === "0.005")?.value).toBe(1);
    expect(buckets.find(({ labels }) => labels.le === "300.0")?.value).toBe(2);
    expect(buckets.at(-1)).toMatchObject({ labels: { le: "+Inf" }, value: 3 });
    expect(text).toContain("# TYPE millrace_keeper_age_seconds gauge");
  }
});

it("the health table has the counts of each queue and the source of each number", async () => {
  const { instanceId } = await start(fresh(), [{ do: "commit", name: "one" }]);
  await reaches(instanceId, "complete");
  await settleCounts(probeEnv);
  const health = (await (await (await asking(["observe"]))("/v1/queues?minutes=60")).json()) as {
    items: { queue: string; out_per_minute: number; processing_p99_seconds: number }[];
    sources: Record<string, { source: string; age_seconds: number }>;
  };
  const commands = health.items.find(({ queue }) => queue === "probe-commands");
  expect(commands?.out_per_minute).toBeGreaterThan(0);
  expect(commands?.processing_p99_seconds).toBeGreaterThan(0);
  const numbers = Object.keys(commands ?? {}).filter((name) => name !== "queue" && name !== "paused");
  expect(Object.keys(health.sources)).toEqual(numbers);
});

it("the ended runs and step durations of a workflow are shown by minute and by hour, without the engine's own steps", async () => {
  const workflow = fresh("workflow");
  const ended = (status: string, by: number) => count(probeEnv, "instances_ended_total", { workflow, status, code: "" }, by);
  ended("complete", 3);
  ended("errored", 1);
  for (const [step, seconds] of [...Array.from({ length: 99 }, () => ["put", 0.004] as const), ["other", 20], ["engine", 0.3]] as const)
    observe(probeEnv, "step_duration_seconds", { workflow, step }, seconds);
  await settleCounts(probeEnv);
  const ask = await asking(["observe"]);
  for (const span of ["minute", "hour"]) {
    const shown = (await (await ask(`/v1/workflows/by-time?span=${span}`)).json()) as { items: { at: string; workflow: string }[] };
    const own = shown.items.filter((one) => one.workflow === workflow);
    expect(own, span).toEqual([
      {
        at: expect.stringMatching(span === "hour" ? /T\d\d:00:00/ : /:00\.000Z$/),
        ...{ workflow, ended: { complete: 3, errored: 1 }, attempts: 100 },
        // Interpolated within the bucket until 5 ms, and at its end.
        step_p50_seconds: expect.closeTo(0.0025, 3),
        step_p99_seconds: 0.005,
      },
    ]);
  }
  expect((await ask("/v1/workflows/by-time?span=ever")).status).toBe(422);
});

it("the tables of messages by minute and type, and of today's dead letters by queue and type, contain no text of a tenant", async () => {
  const tenantId = fresh("tenant");
  const type = `made.up.${fresh()}`;
  await probeEnv.PROBE_COMMANDS.send({ tenant_id: tenantId, message_type: type });
  const ask = await asking(["observe"], fresh("tenant"));
  interface Shown {
    items: { queue: string; type: string; open?: number; outcomes?: Record<string, number> }[];
  }
  const shown = async (path: string) => (await (await ask(path)).json()) as Shown;
  await expect
    .poll(async () => (await shown("/v1/messages/dead-letters")).items, { timeout: 20_000 })
    .toContainEqual(expect.objectContaining({ queue: "probe-commands", type: "unknown" }));
  const minutes = async () => {
    await settleCounts(probeEnv);
    return (await shown("/v1/messages/by-minute?minutes=5")).items;
  };
  // An earlier test may have left a dead letter of this queue, so the delivery is awaited too.
  const delivered = expect.objectContaining({ queue: "probe-commands", type: "unknown" });
  await expect.poll(minutes, { timeout: 20_000 }).toContainEqual(delivered);
  for (const path of ["/metrics", "/v1/queues", "/v1/messages/by-minute", "/v1/messages/dead-letters", "/v1/workflows/by-time"]) {
    const text = await (await ask(path)).text();
    expect(text.includes(type) || text.includes(tenantId), path).toBe(false);
  }
});
