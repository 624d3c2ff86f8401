import { createExecutionContext } from "cloudflare:test";
import { defineCommand, defineConsumer, defineWorkflow, sensitive } from "millrace";
import { engineRoutes } from "millrace/http";
import { schedules, tokens } from "millrace/operate";
import { catalog } from "millrace/worker";
import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { startDue } from "../../../packages/millrace/src/schedules/due.ts";
import { probeCommands } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { fresh, probeEnv, reaches, rows } from "../harness.ts";

const HOUR_MS = 3_600_000;
const scopes = ["enqueue", "read", "operate"] as const;
const hourly = { cron: "0 * * * *", timeZone: "UTC", lateMs: HOUR_MS };

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

describe("A due time in a deployment without a binding of its command", () => {
  it("a due time without its binding remains due, runs once the binding is there, and delays no other schedule", async () => {
    const { by, due } = await storedEarlier();
    const crowd = fresh("crowd");
    onTestFinished(async () => {
      for (const table of ["schedules", "schedule_runs"]) await rows(`DELETE FROM millrace_${table} WHERE tenant_id LIKE ?1`, `${crowd}%`);
    });
    // More schedules than one call reads, each of its own tenant, and a later schedule of another command.
    await rows(
      `INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, next_at, changed_at, changed_by)
       WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 450)
       SELECT ?1 || i, 'n', '0 0 1 1 *', 'UTC', iif(i < 450, 'probe.requested', 'nobody.knows'), '{"title":"x","steps":[]}', 60000, 'active',
         ?2 + i, 0, 'tess' FROM n`,
      crowd,
      due,
    );
    const states = () =>
      rows(
        "SELECT state, count(*) AS n FROM millrace_schedule_runs WHERE tenant_id LIKE ?1 OR tenant_id = ?2 GROUP BY 1",
        `${crowd}%`,
        by.tenantId,
      );
    await startDue({ ...probeEnv, PROBE_COMMANDS: undefined } as never, app, due + 1000);
    expect(await states()).toEqual([{ state: "refused", n: 1 }]);
    await rows("DELETE FROM millrace_schedules WHERE tenant_id LIKE ?1", `${crowd}%`);
    await startDue(probeEnv, app, due + 2000);
    expect((await schedules.get(probeEnv, by, "nightly")).last_run).toMatchObject({
      state: "started",
      due_at: new Date(due).toISOString(),
    });
  });

  it("a due time whose binding was missing for too long is recorded as missed", async () => {
    const { by, due } = await storedEarlier();
    const broken = { ...probeEnv, PROBE_COMMANDS: undefined } as never;
    await startDue(broken, app, due + 1000);
    await startDue(broken, app, due + HOUR_MS - 1);
    expect((await schedules.get(probeEnv, by, "nightly")).last_run).toBe(null);
    await rows("UPDATE millrace_schedules SET late_ms = 60000 WHERE tenant_id = ?1", by.tenantId);
    await startDue(broken, app, due + 61_000);
    expect((await schedules.get(probeEnv, by, "nightly")).last_run).toMatchObject({
      state: "missed",
      reason: "No run started within late_seconds.",
    });
  });
});
