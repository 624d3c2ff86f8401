import { createExecutionContext } from "cloudflare:test";
import { engineRoutes } from "millrace/http";
import { approvals, instances, tokens } from "millrace/operate";
import { describe, expect, it, onTestFinished } from "vitest";
import { EventReader } from "../../event-source.ts";
import { mode } from "../../probe/mode.ts";
import { app } from "../../probe/worker.ts";
import { deliver, operator, probeEnv, reaches } from "../harness.ts";
import { failsUntilMended, refuse, runLab } from "../lab.ts";
import { hear, openWaits, say } from "../signals/waiting.ts";

const api = engineRoutes(app);

async function reader(tenantId = "acme") {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes: ["read"] });
  return async (id: string, lastEventId?: string) => {
    const headers = { authorization: `Bearer ${token}`, ...(lastEventId && { "last-event-id": lastEventId }) };
    return await api.fetch(new Request(`http://localhost/v1/instances/${id}/stream`, { headers }), probeEnv, createExecutionContext());
  };
}

const shortly = ({ event, data }: { event: string | undefined; data: Record<string, unknown> }) =>
  event === "step" ? `${data.type} ${data.step}` : `${event} ${data.status}`;

/** A run that fails once, continues, sleeps and ends. */
async function eventful() {
  let tries = 0;
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("fails once", () => (++tries === 1 ? refuse() : {}), { retries: { limit: 1, delay: 10 } });
    await step.sleep("rest", 20);
    await step.read("look", async () => 1);
  });
  await reaches(instanceId, "complete");
  return instanceId;
}

describe("Instance stream", () => {
  it("the stream of an instance contains attempts, sleeps and statuses in order, and closes after the end", async () => {
    const [open, id] = [await reader(), await eventful()];
    const answer = await open(id);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
    const stream = new EventReader(answer);
    const told = await stream.all();
    expect(told.map(shortly)).toEqual([
      "attempt_started fails once",
      "attempt_errored fails once",
      "attempt_started fails once",
      "attempt_completed fails once",
      "sleep_started rest",
      "sleep_completed rest",
      "attempt_started look",
      "attempt_completed look",
      "status complete",
      "end complete",
    ]);
    expect(told[1]?.data).toMatchObject({
      attempt: 1,
      error: { message: expect.stringContaining("no") },
      retry_delay_ms: expect.any(Number),
      max_attempts: 2,
    });
    expect(stream.raw).toMatch(/^retry: 1000\n\n/);
    expect(stream.raw).not.toMatch(/payload|"result"/);
    expect((await open(id, told.at(-1)?.id)).status).toBe(204);
  });

  it("the stream of an instance contains the last progress of each step, and no status for a change of it", async () => {
    const open = await reader();
    const { instanceId } = await runLab(async ({ step }) => {
      await step.read("look", ({ progress }) => progress({ done: 1, of: 4, text: "pages" }) ?? null, { key: "a" });
      await step.commit("count", ({ progress }) => progress({ share: 1 }) ?? {});
    });
    await reaches(instanceId, "complete");
    const told = await new EventReader(await open(instanceId)).all();
    const at = expect.any(String);
    expect(told.flatMap(({ event, data }) => (event === "progress" ? [data] : []))).toEqual([
      { step: "look [a]", attempt: 1, share: 0.25, done: 1, of: 4, text: "pages", at },
      { step: "count", attempt: 1, share: 1, done: null, of: null, text: null, at },
    ]);
    expect(told.filter(({ event }) => event === "status")).toHaveLength(1);
  });

  it("the stream of an instance can resume after any event without a lost or repeated event", async () => {
    const [open, id] = [await reader(), await eventful()];
    const whole = await new EventReader(await open(id)).all();
    for (const [place, { id: heard }] of whole.slice(0, -1).entries()) {
      expect(await new EventReader(await open(id, heard)).all()).toEqual(whole.slice(place + 1));
    }
  });

  it("the stream of an instance contains each inline step once, from every resume point", async () => {
    const open = await reader();
    mode.steps = "inline";
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const { instanceId } = await runLab(async ({ step }) => {
      await step.commit("one", () => ({}));
      await step.sleep("rest", 20);
      const items = Array.from({ length: 130 }, (_, place) => String(place));
      await step.map(items, { key: (item) => item, concurrency: 10 }, (item, each) => each.commit("part", () => ({ output: item })));
      await step.commit("last", () => ({}));
    });
    await reaches(instanceId, "complete");
    const whole = await new EventReader(await open(instanceId)).all();
    const told = whole.map(shortly);
    expect(told.filter((one) => one.startsWith("attempt_started"))).toHaveLength(132);
    expect(new Set(told.filter((one) => one.startsWith("attempt_completed"))).size).toBe(132);
    expect(told.indexOf("attempt_completed one")).toBeLessThan(told.indexOf("sleep_started rest"));
    expect(told.slice(-4)).toEqual(["attempt_started last", "attempt_completed last", "status complete", "end complete"]);
    expect(new Set(whole.map(({ id }) => id)).size).toBe(whole.length);
    for (const place of [0, 1, 2, 7, 100, 101, 102, whole.length - 3]) {
      expect(await new EventReader(await open(instanceId, whole[place]?.id)).all()).toEqual(whole.slice(place + 1));
    }
  });

  it("the stream of an instance contains all steps of a history that is longer than one poll, and then the end", async () => {
    const open = await reader();
    const { instanceId } = await runLab(async ({ step }) => {
      const items = Array.from({ length: 260 }, (_, place) => String(place));
      await step.map(items, { key: (item) => item, concurrency: 100 }, (item, each) => each.read("look", async () => item));
    });
    await reaches(instanceId, "complete");
    const told = (await new EventReader(await open(instanceId)).all()).map(shortly);
    expect(told.filter((one) => one.startsWith("attempt_completed"))).toHaveLength(260);
    expect(told.slice(-2)).toEqual(["status complete", "end complete"]);
    expect(told.filter((one) => one.startsWith("end"))).toHaveLength(1);
  });

  it("the stream of an instance contains the waits and the failure of a live run, and the next run after a retry", async () => {
    const open = await reader();
    const { instanceId, state } = await failsUntilMended();
    const first = new EventReader(await open(instanceId));
    const end = await first.until(({ event }) => event === "end");
    expect(end.data).toMatchObject({ status: "errored", error: { step: "a" } });
    expect((await open(instanceId, end.id)).status).toBe(204);
    state.broken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "Mended." });
    const next = new EventReader(await open(instanceId, end.id));
    await next.until(({ event, data }) => event === "step" && data.type === "attempt_started" && data.step === "b");
    expect(next.told.filter(({ event }) => event === "end")).toEqual([]);
    state.go = true;
    const over = await next.until(({ event }) => event === "end");
    expect(over.data.status).toBe("complete");
    expect(next.told.map(shortly)).toEqual(expect.arrayContaining(["attempt_completed b", "attempt_completed c", "status complete"]));
    expect(next.told.map(shortly)).not.toContain("attempt_errored a");
    expect(new Set(next.told.map(({ id }) => id)).size).toBe(next.told.length);
  });

  it("the stream of an instance contains begin, end and subject of each wait, questions to an operator, and an undo", async () => {
    const open = await reader();
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      await step.commit("put", () => ({}), { undo: () => ({}) });
      await hear(step, "event before timeout", payload.name);
      await hear(step, "event after timeout", payload.name, 20);
      await step.approve("asks", { question: "Really?", timeout: "1 hour" });
    });
    await openWaits(instanceId, 1);
    const stream = new EventReader(await open(instanceId));
    const began = await stream.until(({ data }) => data.type === "wait_started");
    expect(began.data).toMatchObject({
      step: "event before timeout",
      event_type: "probe.signal",
      subject: name,
      until: expect.any(String),
    });
    await deliver("probe-events", [say(name, "yes")]);
    const asked = await stream.until(({ data }) => data.type === "wait_started" && data.approval_id !== null);
    expect(asked.data).toMatchObject({ step: "asks", event_type: null, subject: null });
    await approvals.decide(probeEnv, operator, asked.data.approval_id, "approve", "Yes.");
    const end = await stream.until(({ event }) => event === "end");
    expect(stream.told.filter(({ data }) => String(data.type).startsWith("wait_")).map(shortly)).toEqual([
      "wait_started event before timeout",
      "wait_completed event before timeout",
      "wait_started event after timeout",
      "wait_timed_out event after timeout",
      "wait_started asks",
      "wait_completed asks",
    ]);
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "Called off." });
    const undo = await new EventReader(await open(instanceId, end.id)).all();
    expect(undo.map(shortly)).toEqual(expect.arrayContaining(["attempt_completed undo put", "status terminated", "end terminated"]));
    expect(undo.at(-1)?.data).toMatchObject({ status: "terminated", undo: "done" });
    expect(undo.map(shortly)).not.toContain("attempt_completed put");
  });

  it("the stream of an instance is readable only for its tenant, and returns an error for unknown ids", async () => {
    const [open, stranger, id] = [await reader(), await reader("another"), await eventful()];
    expect((await stranger(id)).status).toBe(404);
    const refused = await open(id, "yesterday");
    expect([refused.status, await refused.json()]).toEqual([422, expect.objectContaining({ code: "invalid_payload" })]);
  });
});
