import { createExecutionContext } from "cloudflare:test";
import { defineCommand, defineConsumer, defineWorkflow, sensitive } from "millrace";
import { engineRoutes } from "millrace/http";
import { schedules, tokens } from "millrace/operate";
import { catalog } from "millrace/worker";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { startDue } from "../../../packages/millrace/src/schedules/due.ts";
import { probeCommands } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { fresh, probeEnv, reaches, rows } from "../harness.ts";

const scopes = ["enqueue", "read", "operate"] as const;
const hourly = { cron: "0 * * * *", timeZone: "UTC", lateMs: 3_600_000 };

/** A deployment that has only the command `probe.requested`, in this version. */
function deployment(version: number, payload: z.ZodType) {
  const upcasts = { 1: ({ title, ...rest }: { title: string }) => ({ name: title, ...rest }) };
  const on = defineCommand({
    ...{ type: "probe.requested", version, payload, queue: probeCommands, upcasts },
    key: () => "key",
    subject: () => "subject",
  });
  return catalog({
    consumers: [defineConsumer({ queue: probeCommands, starts: [defineWorkflow({ name: "probe", on, run: async () => {} })] })],
  });
}

const earlier = deployment(1, z.object({ title: z.string(), steps: z.array(z.unknown()) }));
const later = deployment(2, z.object({ name: sensitive(z.string()), steps: z.array(z.unknown()) }));

/** A schedule that the earlier deployment stored, and its next due time. */
async function storedEarlier() {
  const [by, title] = [{ tenantId: fresh("tenant"), actor: "tess", scopes }, fresh()];
  const payload = { title, steps: [] };
  const { next_at } = await schedules.put(probeEnv, earlier, by, "nightly", { ...hourly, command: "probe.requested", payload }, "a test");
  return { by, title, due: Date.parse(next_at ?? "") };
}

const nameOf = (id: string) =>
  rows<{ name: string }>("SELECT envelope->>'$.payload_inline.name' AS name FROM millrace_instances WHERE id = ?1", id);

describe("A schedule whose payload has an older version than the deployment", () => {
  it("a due time and a run by hand upcast the payload of a schedule from an earlier deployment", async () => {
    const { by, title, due } = await storedEarlier();
    await startDue(probeEnv, app, due + 1000);
    const { last_run: run } = await schedules.get(probeEnv, by, "nightly");
    expect(run).toMatchObject({ state: "started" });
    const { instanceId } = await schedules.run(probeEnv, app, by, "nightly", { reason: "a test", occasion: "today" });
    for (const id of [run?.instance_id ?? "", instanceId]) {
      expect(await nameOf(id)).toEqual([{ name: title }]);
      expect(await reaches(id, "complete")).toBe("complete");
    }
  });

  it("a schedule from an earlier deployment is shown without values that are sensitive now, and can be written back as read", async () => {
    const { by, title } = await storedEarlier();
    const token = await tokens.mint(probeEnv, by);
    const ask = async (method: "GET" | "PUT", body?: object) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const request = new Request("http://localhost/v1/schedules/nightly", {
        method,
        headers,
        ...(body && { body: JSON.stringify(body) }),
      });
      const answer = await engineRoutes(later).fetch(request, probeEnv, createExecutionContext());
      return { status: answer.status, text: await answer.clone().text(), body: (await answer.json()) as { cron: string; command: object } };
    };
    const read = await ask("GET");
    expect(read.text).not.toContain(title);
    expect(read.body.command).toMatchObject({ type: "probe.requested", schema_version: 1 });
    const { cron, command } = read.body;
    const written = await ask("PUT", { cron, command, reason: "a test" });
    expect(written.body.command).toEqual({ type: "probe.requested", schema_version: 2, payload: { name: "[redacted]", steps: [] } });
    const [row] = await rows<{ payload: string }>("SELECT payload FROM millrace_schedules WHERE tenant_id = ?1", by.tenantId);
    expect(JSON.parse(row?.payload ?? "")).toEqual({ name: title, steps: [] });
  });
});
