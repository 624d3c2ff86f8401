import { createExecutionContext } from "cloudflare:test";
import { engineRoutes } from "millrace/http";
import { describe, expect, it, onTestFinished } from "vitest";
import { EventReader } from "../../event-source.ts";
import { app } from "../../probe/worker.ts";
import { probeEnv, rows } from "../harness.ts";
import { ada, lettered, REDACTED, reader, told } from "./told.ts";

const api = engineRoutes(app);

async function follow(path: string): Promise<EventReader> {
  const { token } = await reader();
  const request = new Request(`http://localhost${path}`, { headers: { authorization: `Bearer ${token}` } });
  const stream = new EventReader(await api.fetch(request, probeEnv, createExecutionContext()));
  onTestFinished(() => stream.close());
  return stream;
}

describe("Sensitive fields", () => {
  it("sensitive fields are hidden in the stream of an instance: in a failed attempt, in its status, and in its end", async () => {
    const person = ada();
    const stream = await follow(`/v1/instances/${await told(person, "fails")}/stream`);
    const events = await stream.all();
    const failed = events.find(({ data }) => data.type === "attempt_errored");
    expect(failed?.data.error.message).toContain(`No mailbox ${REDACTED}.`);
    for (const kind of ["status", "end"]) {
      const last = events.findLast(({ event }) => event === kind);
      expect(last?.data.error).toMatchObject({ step: "fail", message: `No mailbox ${REDACTED}.` });
    }
    expect(stream.raw.toLowerCase()).not.toContain(person.email);
  });

  it("sensitive fields are hidden in the tenant's stream: in failures, questions and dead letters", async () => {
    const person = ada();
    const stream = await follow("/v1/stream");
    await stream.untilRaw("id: ");
    const [failing, asking] = [await told(person, "fails"), await told(person)];
    const { id: letter } = await lettered({ name: 7, person });
    const now = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    await rows(`UPDATE millrace_dead_letters SET error = ?1, captured_at = ${now} WHERE id = ?2`, `No mailbox ${person.email}.`, letter);
    const failure = await stream.until(({ event, data }) => event === "instance" && data.id === failing && data.error !== null);
    expect(failure.data.error.message).toBe(`No mailbox ${REDACTED}.`);
    const question = await stream.until(({ event, data }) => event === "approval" && data.instance_id === asking);
    expect(question.data).toMatchObject({ question: `Is ${REDACTED} meant?` });
    expect(question.data).not.toHaveProperty("details");
    const dead = await stream.until(({ event, data }) => event === "dead_letter" && data.id === letter && data.error.includes("mailbox"));
    expect(dead.data.error).toBe(`No mailbox ${REDACTED}.`);
    expect(stream.raw.toLowerCase()).not.toContain(person.email);
  });
});
