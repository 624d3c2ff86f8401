import { createExecutionContext, createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import worker from "../../../src/worker.ts";
import { type Caller, callerWith, fresh, type Json, research } from "../../api/client.ts";

export const HOUR_MS = 3_600_000;
export const reason = "the weekly round";

/** A schedule of a new tenant; by default it is due every hour. */
export async function scheduled(more: Json = {}) {
  const caller = await callerWith();
  const path = `/v1/schedules/${fresh("s")}`;
  const put = (changed: Json = {}) =>
    caller.call("PUT", path, { cron: "0 * * * *", command: research("cold brew"), reason, ...more, ...changed });
  expect((await put()).status).toBe(200);
  return { caller, path, put, runs: async () => (await caller.get(`${path}/runs`)).body.items as Json[] };
}

/** Moves the next due time into the past, as if the keeper had not run since then. */
export async function dueSince(caller: Caller, at: number): Promise<void> {
  await env.DB.prepare("UPDATE millrace_schedules SET next_at = ?1 WHERE tenant_id = ?2").bind(at, caller.tenantId).run();
}

export async function seedSchedules(caller: Caller, count: number, command: string): Promise<void> {
  await env.DB.prepare(
    `INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, next_at, changed_at, changed_by)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1)
     SELECT ?1, 's' || i, '0 * * * *', 'UTC', ?3, json_object('projection', 'facts', 'request', 'k' || i), 3600000, 'active', NULL, 0, 'ada' FROM n`,
  )
    .bind(caller.tenantId, count, command)
    .run();
}

export async function instancesOf(caller: Caller): Promise<Json[]> {
  return (await caller.get("/v1/instances?workflow=research-keyword")).body.items;
}

export const thisHour = () => Math.floor(Date.now() / HOUR_MS) * HOUR_MS;

/** Calls the Worker's cron handler, as the platform does every minute. */
export async function platformCron(): Promise<void> {
  await worker.scheduled(createScheduledController({ cron: "* * * * *" }), env, createExecutionContext());
}
