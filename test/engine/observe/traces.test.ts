import { defineStep, notRetryable, traces } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, inject, it, onTestFinished, vi } from "vitest";
import { collect, requestsOf, saidBy, spansOf, treeOf } from "../../collector/collected.ts";
import type { CollectedSpan } from "../../collector/start.ts";
import { ProbeDone } from "../../probe/messages.ts";
import { behave, deliver, event, fresh, operator, probeEnv, reaches, until } from "../harness.ts";
import { refuse, runLab } from "../lab.ts";

const newTraceId = () => crypto.randomUUID().replaceAll("-", "");
const ASKER = "b7ad6b7169203331";
const by = (traceId: string, flags = "01") => ({ traceparent: `00-${traceId}-${ASKER}-${flags}` });

const byAttempt = (one: CollectedSpan, other: CollectedSpan) =>
  Number(saidBy(one)["millrace.attempt"]) - Number(saidBy(other)["millrace.attempt"]);

function collected(more = {}) {
  onTestFinished(collect(probeEnv, more));
}

const post = defineStep({
  effect: "natural",
  retries: { limit: 2, delay: 10, backoff: "constant" },
  run: async ({ input, fetch }: { input: string; fetch: typeof globalThis.fetch }) => {
    const answer = await fetch(`${probeEnv.UPSTREAM_URL}/natural/${input}?token=secret`, { method: "PUT", body: "{}" });
    if (!answer.ok) throw new Error(`The upstream answered ${answer.status}.`);
    return answer.text();
  },
});

describe("With a collector", () => {
  it("a job is one trace: it contains the command, its wait, its steps with their calls and messages, and all their consequences", async () => {
    collected();
    const [name, traceId] = [fresh("lab"), newTraceId()];
    const { instanceId } = await runLab(
      async ({ step }) => {
        await step.effect("put", post, name);
        await step.commit("tell", () => ({ emit: [ProbeDone.from({ name, step: "tell" })] }));
      },
      { name, ...by(traceId) },
    );
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const spans = await spansOf(traceId, "lab", "count-done", "follow-probe");
    expect(treeOf(spans)).toEqual([
      "accept probe-commands",
      ...["  wait probe-commands", "  process probe-commands", "  lab"],
      ...["    put", "      PUT", "    tell"],
      ...["      wait probe-events", "      process probe-events"],
      ...["        wait probe-commands", "        process probe-commands", "        follow-probe", "          follow"],
      ...["      count-done", "        count"],
    ]);
    const [asked] = spans.filter((span) => span.name === "accept probe-commands");
    expect(asked?.parentSpanId).toBe(ASKER);
    expect((await requestsOf(traceId)).flatMap(({ wrong }) => wrong)).toEqual([]);
  });

  it("a failed attempt and its call are error spans; the call's span has method, host and status, and no path or query", async () => {
    collected();
    const [name, traceId] = [fresh("lab"), newTraceId()];
    await behave({ subject: name, mode: "refuse", status: 503, times: 1 });
    const { instanceId } = await runLab(({ step }) => step.effect("put", post, name), { name, ...by(traceId) });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const spans = await spansOf(traceId, "lab");
    const [failed, mended] = spans.filter((span) => span.name === "put").toSorted(byAttempt);
    expect([failed?.status.code, mended?.status.code]).toEqual([2, 0]);
    expect(saidBy(failed as CollectedSpan)).toMatchObject({
      "millrace.attempt": 1,
      "millrace.outcome": "retried",
      "error.type": "step_failed",
    });
    expect(saidBy(mended as CollectedSpan)).toMatchObject({
      "millrace.attempt": 2,
      "millrace.outcome": "done",
      "millrace.workflow": "lab",
    });
    const [call] = spans.filter((span) => span.parentSpanId === failed?.spanId);
    const { port } = new URL(probeEnv.UPSTREAM_URL);
    expect(call).toMatchObject({ name: "PUT", kind: 3, status: { code: 2 } });
    expect(saidBy(call as CollectedSpan)).toEqual({
      "http.request.method": "PUT",
      "http.response.status_code": 503,
      "server.address": "127.0.0.1",
      "server.port": Number(port),
      "url.scheme": "http",
      "error.type": "503",
    });
    expect(JSON.stringify(spans)).not.toMatch(/secret|natural/);
  });

  it("a message's sensitive fields are hidden in the errors of its spans", async () => {
    collected({ OTLP_NAMES: "plain" });
    const [traceId, email] = [newTraceId(), `${fresh("ada")}@example.com`];
    const no = notRetryable(`No mailbox ${email}.`);
    const person = { email, city: "London" };
    const idempotencyKey = `mail/${email}`;
    await runLab(({ step }) => step.read("mail", () => Promise.reject(no)), { person, idempotencyKey, ...by(traceId) });
    const spans = await spansOf(traceId, "lab");
    for (const name of ["mail", "lab"]) {
      expect(spans.find((span) => span.name === name)?.status).toEqual({
        code: 2,
        message: expect.stringContaining("No mailbox [redacted]."),
      });
    }
    expect(JSON.stringify(spans)).not.toContain(email);
  });

  it("spans contain hashes of names that callers choose and no error messages, unless OTLP_NAMES is plain", async () => {
    const told = async (more: object) => {
      collected(more);
      const [traceId, name] = [newTraceId(), fresh("ada.quill")];
      const named = { idempotencyKey: `key/${name}`, correlationId: `job/${name}` };
      const no = notRetryable(`No mailbox of ${name}.`);
      const mail = defineStep({ effect: "natural", run: () => Promise.reject(no) });
      await runLab(({ step }) => step.effect("mail", mail, null, { key: `to ${name}` }), { name, ...named, ...by(traceId) });
      await deliver("probe-events", [{ ...event("probe.signal", name, { about: 7 }), message_type: `said by ${name}`, ...by(traceId) }]);
      const spans = await spansOf(traceId, "lab", "process probe-events");
      const processed = spans.filter((span) => span.name === "process probe-events");
      return { name, spans: spans.filter((span) => span.name === "lab"), all: JSON.stringify([...spans, ...processed]), processed };
    };
    const hashed = await told({});
    expect(hashed.all).not.toContain(hashed.name);
    expect(hashed.all).not.toContain('"acme"');
    const hash = expect.stringMatching(/^hmac-[0-9a-f]{16}$/);
    const lab = saidBy(hashed.spans[0] as CollectedSpan);
    expect(lab).toMatchObject({
      "messaging.message.conversation_id": hash,
      "millrace.idempotency_key": hash,
      "millrace.subject": hash,
      "millrace.tenant_id": hash,
      "millrace.message_type": "lab.requested",
    });
    expect(hashed.spans[0]?.status).toEqual({ code: 2, message: "not_retryable" });
    // A tenant's name has the same hash in all spans.
    const tenants = hashed.processed.map((span) => saidBy(span)["millrace.tenant_id"]);
    expect(new Set([...tenants, lab["millrace.tenant_id"]]).size).toBe(1);

    const plain = await told({ OTLP_NAMES: "plain" });
    expect(saidBy(plain.spans[0] as CollectedSpan)).toMatchObject({
      "messaging.message.conversation_id": `job/${plain.name}`,
      "millrace.idempotency_key": `key/${plain.name}`,
      "millrace.tenant_id": "acme",
    });
    expect(plain.spans[0]?.status.message).toContain(`No mailbox of ${plain.name}.`);
    expect(plain.all).toContain(`mail [to ${plain.name}]`);
  });

  it("an errored run is an error span, and its retry is a child span", async () => {
    collected();
    const traceId = newTraceId();
    const state = { broken: true };
    const { instanceId } = await runLab(
      ({ step }) => step.read("look", async () => (state.broken ? refuse() : 1), { retries: { limit: 0, delay: 1 } }),
      by(traceId),
    );
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await spansOf(traceId, "lab");
    state.broken = false;
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "repaired" });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const spans = await spansOf(traceId, "lab run 2");
    expect(spans.filter(({ name }) => name.startsWith("lab")).map(({ name, status }) => [name, status.code])).toEqual([
      ["lab", 2],
      ["lab run 2", 0],
    ]);
    expect(treeOf(spans).slice(3).toSorted()).toEqual(["  lab", "    lab run 2", "    look", "    look"].toSorted());
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
  });

  it("a message that becomes a dead letter is an error span with the reason", async () => {
    collected();
    const traceId = newTraceId();
    await deliver("probe-events", [{ ...event("probe.signal", fresh(), { about: 7 }), ...by(traceId) }]);
    const [processed] = (await spansOf(traceId, "process probe-events")).filter(({ name }) => name.startsWith("process"));
    expect(processed).toMatchObject({ kind: 5, parentSpanId: ASKER, status: { code: 2 } });
    expect(saidBy(processed as CollectedSpan)).toMatchObject({
      "messaging.system": "cloudflare_queues",
      "messaging.destination.name": "probe-events",
      "messaging.operation.type": "process",
      "millrace.outcome": "captured",
      "error.type": "invalid_payload",
    });
  });

  it("the spans of a trace are not exported when the trace is marked as not sampled or is above the ratio", async () => {
    collected({ OTLP_RATIO: "0.5" });
    const [low, high, unsampled] = [`${"1".repeat(18)}7fffffffffffff`, `${"1".repeat(18)}8${newTraceId().slice(0, 13)}`, newTraceId()];
    for (const trace of [by(low), by(`${unsampled.slice(0, 18)}f${unsampled.slice(19)}`, "00"), by(high)])
      await deliver("probe-events", [{ ...event("probe.signal", fresh(), { about: 7 }), ...trace }]);
    await spansOf(high, "process probe-events");
    expect(await requestsOf(low)).toEqual([]);
    expect(await requestsOf(`${unsampled.slice(0, 18)}f${unsampled.slice(19)}`)).toEqual([]);
  });

  it("a request to the collector has the configured headers, decoded, and at most the configured number of spans", async () => {
    collected({ OTLP_HEADERS: "x-team=acme%20inc,authorization=Bearer%20abc" });
    const traces = Array.from({ length: 20 }, newTraceId);
    await deliver(
      "probe-events",
      traces.map((traceId) => ({ ...event("probe.signal", fresh(), { about: 7 }), ...by(traceId) })),
    );
    const last = traces.at(-1) ?? "";
    await spansOf(last, "process probe-events");
    const requests = await requestsOf(last);
    expect(requests[0]?.headers).toMatchObject({ "x-team": "acme inc", authorization: "Bearer abc", "content-type": "application/json" });
    expect(requests[0]?.spans.length).toBeGreaterThanOrEqual(40);
  });
});

describe("Without a collector", () => {
  it("without a collector messages and calls have their own span ids, and nothing is sent", async () => {
    const [name, traceId] = [fresh("lab"), newTraceId()];
    const seen = new Set<string>();
    const note = defineStep({
      effect: "natural",
      run: async ({ trace }) => void [trace, trace].map((one) => seen.add(traces.headers(one).traceparent ?? "")),
    });
    const { instanceId } = await runLab(({ step }) => step.effect("note", note, null), { name, ...by(traceId) });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(seen.size).toBe(2);
    expect(await requestsOf(traceId)).toEqual([]);
  });
});

describe("A collector that is unavailable", () => {
  it("an unavailable collector delays and fails no run: its spans are lost with one log line, and it gets no request for a while", async () => {
    collected({ OTLP_ENDPOINT: `${inject("collectorUrl")}/refuses` });
    const lines: string[] = [];
    const spy = vi.spyOn(console, "warn").mockImplementation((line) => void lines.push(String(line)));
    onTestFinished(() => spy.mockRestore());
    const [first, second] = [newTraceId(), newTraceId()];
    for (const traceId of [first, second]) {
      const { instanceId } = await runLab(({ step }) => step.read("look", async () => 1), by(traceId));
      expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
      await until(async () => lines.some((line) => line.includes('"spans_lost"')), Boolean);
    }
    expect(lines.filter((line) => line.includes('"spans_lost"'))).toEqual([
      expect.stringMatching(/^{"log":"spans_lost","level":"warn","spans":\d+,"error":"The collector responded 503\."}$/),
    ]);
    expect(await requestsOf(second)).toEqual([]);
  });
});
