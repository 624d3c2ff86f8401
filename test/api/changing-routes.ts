import { expect } from "vitest";
import { endpoint, hookUrl } from "../systems/webhooks/hook.ts";
import { type Answer, type Caller, fresh } from "./client.ts";
import { seedApproval, seedBatch, seedEffect, seedInstance, seedLetter } from "./seed.ts";

/** The audit record of a request that changes an item. */
type Kept =
  | { verb: string; does: (caller: Caller) => Promise<Answer> }
  /** The record is a separate instance, with its source. */
  | { instance: true }
  /** The verb in the audit, and the test that covers it. */
  | { verb: string; triedIn: string }
  /** The reason why the request leaves no record. */
  | { none: string };

export const because = { reason: "because" };
export const failed = { status: "errored", error: { step: "s", code: "step_failed", message: "m", attempts: 1 } };
export const timing = {
  cron: "0 3 * * *",
  command: { type: "research.requested", payload: { brand: "acme", keyword: "mint" } },
  ...because,
};

async function scheduled(caller: Caller, verb?: string): Promise<string> {
  const path = `/v1/schedules/${fresh("nightly")}`;
  expect((await caller.call("PUT", path, timing)).status).toBe(200);
  if (verb) expect((await caller.post(`${path}/${verb}`, because)).status).toBe(200);
  return path;
}

async function hooked(caller: Caller): Promise<string> {
  return (await endpoint(caller)).path;
}

/** Runs one of the actions on an instance in this state. */
const acting = (verb: string, row: object, body: object = {}) => ({
  verb,
  does: async (by: Caller) => by.post(`/v1/instances/${await seedInstance(by.tenantId, row)}/${verb}`, { ...because, ...body }),
});

/** A bulk action that discards one dead letter per ten seconds, so that it is still running. */
async function slowBulk(by: Caller, count: number): Promise<Answer> {
  const ids = await Promise.all(Array.from({ length: count }, () => seedLetter(by.tenantId)));
  return by.post("/v1/bulk-actions", { verb: "skip", ids, rate_per_second: 0.1, ...because });
}

async function aborted(by: Caller): Promise<{ path: string; answer: Answer }> {
  const path = `/v1/bulk-actions/${(await slowBulk(by, 3)).body.id}`;
  return { path, answer: await by.post(`${path}/abort`, because) };
}

async function resolving(caller: Caller, verb: string): Promise<Answer> {
  const key = await seedEffect(await seedInstance(caller.tenantId, { status: "in_doubt" }));
  return caller.post(`/v1/effects/${key}/${verb}`, { ...because, ...(verb === "confirm" && { output: null }) });
}

async function resumed(by: Caller, path: string): Promise<Answer> {
  await by.post(`${path}/pause`, because);
  return by.post(`${path}/resume`, because);
}

/** Every route that changes an item, and the place of its record. */
export const ROUTES: Record<string, Kept> = {
  "POST /v1/commands": { instance: true },
  "POST /v1/commands/batch": { instance: true },
  "POST /v1/events": {
    none: "An event is a record itself, stored in stated_events; the instances that it starts have audit rows of their own.",
  },
  "POST /v1/events/batch": { none: "As one event." },
  "POST /v1/facts": { none: "A fact is itself the record: its ledger stores each one, with its source." },
  "POST /v1/batches": { instance: true },
  "POST /v1/webhooks/{id}/deliveries": { verb: "bulk", triedIn: "test/systems/webhooks/later.test.ts" },
  "POST /v1/batches/{id}/retry-failed": { verb: "retry", triedIn: "test/systems/batches/items.test.ts" },
  "POST /v1/webhooks/{id}/test": { instance: true },
  "POST /v1/brands/{brand}/research": { instance: true },
  "POST /v1/projections/facts/rebuild": { instance: true },
  "POST /v1/projections/derived/rebuild": { instance: true },
  "POST /v1/budgets/{account}/asks": {
    none: "Programs request holds many times a second; the budget's object stores each hold by its key.",
  },
  "DELETE /v1/budgets/{account}/holds/{hold}": { none: "A release is recorded with the request for its hold." },
  "POST /v1/qualification-rules/try": { none: "Nothing is written." },
  "POST /v1/catalog/check": { none: "Nothing is written." },
  "POST /v1/sign-in-codes": {
    none: "A sign-in code grants no access by itself: the token that it is exchanged for is audited, with this reason.",
  },
  "POST /v1/stream-tokens": { none: "Nothing is stored: the stream token is a signature that is valid for a minute and one path." },

  "POST /v1/instances/{id}/retry": {
    verb: "retry",
    does: async (by) => by.post(`/v1/instances/${await seedInstance(by.tenantId, failed)}/retry`, because),
  },
  "POST /v1/instances/{id}/cancel": acting("cancel", { status: "waiting" }),
  "POST /v1/instances/{id}/pause": acting("pause", { status: "waiting" }),
  "POST /v1/instances/{id}/resume": acting("resume", { status: "paused" }),
  "POST /v1/instances/{id}/restart": acting("restart", failed),
  "POST /v1/instances/{id}/close": acting("close", failed),
  "POST /v1/instances/{id}/skip": { ...acting("skip", failed, { step: "s", output: null }), verb: "skip_step" },
  "POST /v1/instances/{id}/signals/{type}": {
    verb: "signal",
    does: async (by) => {
      const path = `/v1/instances/${await seedInstance(by.tenantId, { status: "waiting" })}/signals/webhook.switched`;
      return by.post(path, { ...because, payload: { endpoint_id: "e", version: 1 } }, { "Idempotency-Key": fresh("signal") });
    },
  },
  "POST /v1/instances/{id}/run-again": { verb: "run_again", triedIn: "test/engine/operate/run-again.test.ts" },
  "POST /v1/instances/{id}/move": { verb: "move", triedIn: "test/engine/operate/delay.test.ts" },
  "POST /v1/instances/{id}/release": { verb: "release", triedIn: "test/engine/operate/delay.test.ts" },
  "POST /v1/instances/{id}/undo": { verb: "undo", triedIn: "test/api/undo.test.ts" },
  "POST /v1/effects/{key}/confirm": { verb: "confirm", does: (by) => resolving(by, "confirm") },
  "POST /v1/effects/{key}/reject": { verb: "reject", does: (by) => resolving(by, "reject") },
  "POST /v1/effects/{key}/retry": { verb: "retry_anyway", does: (by) => resolving(by, "retry") },
  "POST /v1/approvals/{id}/approve": {
    verb: "approve",
    does: async (by) => by.post(`/v1/approvals/${await seedApproval(by.tenantId)}/approve`, because),
  },
  "POST /v1/approvals/{id}/reject": {
    verb: "reject_approval",
    does: async (by) => by.post(`/v1/approvals/${await seedApproval(by.tenantId)}/reject`, because),
  },
  "POST /v1/dead-letters/{id}/replay": {
    verb: "replay",
    does: async (by) => by.post(`/v1/dead-letters/${await seedLetter(by.tenantId)}/replay`, because),
  },
  "POST /v1/dead-letters/{id}/skip": {
    verb: "skip",
    does: async (by) => by.post(`/v1/dead-letters/${await seedLetter(by.tenantId)}/skip`, because),
  },
  "POST /v1/dead-letters/{id}/escalate": {
    verb: "escalate",
    does: async (by) => by.post(`/v1/dead-letters/${await seedLetter(by.tenantId)}/escalate`, because),
  },
  "POST /v1/bulk-actions": { verb: "bulk", does: (by) => slowBulk(by, 1) },
  "POST /v1/bulk-actions/{id}/abort": { verb: "abort", does: async (by) => (await aborted(by)).answer },
  "POST /v1/bulk-actions/{id}/resume": {
    verb: "resume",
    does: async (by) => {
      const { path } = await aborted(by);
      const answer = await by.post(`${path}/resume`, because);
      await by.post(`${path}/abort`, because);
      return answer;
    },
  },
  "PUT /v1/schedules/{name}": { verb: "schedule", does: (by) => by.call("PUT", `/v1/schedules/${fresh("nightly")}`, timing) },
  "DELETE /v1/schedules/{name}": {
    verb: "unschedule",
    does: async (by) => by.call("DELETE", `${await scheduled(by)}?reason=because`),
  },
  "POST /v1/schedules/{name}/pause": { verb: "pause", does: async (by) => by.post(`${await scheduled(by)}/pause`, because) },
  "POST /v1/schedules/{name}/resume": { verb: "resume", does: async (by) => by.post(`${await scheduled(by, "pause")}/resume`, because) },
  "POST /v1/workflows/{name}/pause": { verb: "pause", does: (by) => by.post("/v1/workflows/export-rows/pause", because) },
  "POST /v1/workflows/{name}/resume": { verb: "resume", does: (by) => resumed(by, "/v1/workflows/import-rows") },
  "POST /v1/queues/{name}/pause": { verb: "pause", does: (by) => by.post("/v1/queues/webhooks/pause", because) },
  "POST /v1/queues/{name}/resume": { verb: "resume", does: (by) => resumed(by, "/v1/queues/webhooks") },
  "POST /v1/schedules/{name}/run": { verb: "run", does: async (by) => by.post(`${await scheduled(by)}/run`, because) },
  "POST /v1/tokens": {
    verb: "mint",
    does: (by) => by.post("/v1/tokens", { actor: "grace", scopes: ["read"], ...because }),
  },
  "DELETE /v1/tokens/{id}": {
    verb: "revoke",
    does: async (by) => {
      const { body } = await by.post("/v1/tokens", { actor: "grace", scopes: ["read"], ...because });
      return by.call("DELETE", `/v1/tokens/${body.id}?reason=because`);
    },
  },
  "POST /v1/locks/{name}/break": { verb: "break", triedIn: "test/engine/locks/seen.test.ts" },
  "POST /v1/alerts/{id}/mute": { verb: "mute", triedIn: "test/engine/alerts/routes.test.ts" },
  "POST /v1/alerts/{id}/unmute": { verb: "unmute", triedIn: "test/engine/alerts/routes.test.ts" },
  "POST /v1/lanes/{lane}/{key}/pause": { verb: "pause", triedIn: "test/engine/lanes/lane-routes.test.ts" },
  "POST /v1/lanes/{lane}/{key}/resume": { verb: "resume", triedIn: "test/engine/lanes/lane-routes.test.ts" },
  "POST /v1/lanes/{lane}/{key}/retry-head": { verb: "retry_head", triedIn: "test/engine/lanes/lane-routes.test.ts" },
  "POST /v1/lanes/{lane}/{key}/skip-head": { verb: "skip_head", triedIn: "test/engine/lanes/lane-routes.test.ts" },

  "PUT /v1/brands/{brand}": {
    verb: "settings",
    does: (by) => by.call("PUT", `/v1/brands/${fresh("brand")}`, { max_drafts: 3, ...because }),
  },
  "PUT /v1/budgets/{account}": {
    verb: "limit",
    does: (by) => by.call("PUT", `/v1/budgets/${fresh("account")}`, { limit_cents: 500 }),
  },
  "PUT /v1/qualification-rules": {
    verb: "rules",
    does: async (by) => {
      const { version } = (await by.get("/v1/qualification-rules")).body;
      return by.call("PUT", "/v1/qualification-rules", { rules: [], expected_version: version });
    },
  },
  "POST /v1/batches/{id}/cancel": {
    verb: "cancel",
    does: async (by) => by.post(`/v1/batches/${await seedBatch(by.tenantId, await seedInstance(by.tenantId))}/cancel`, because),
  },
  "POST /v1/webhooks": {
    verb: "register",
    does: (by) => by.post("/v1/webhooks", { url: hookUrl(fresh("hook")), fact_types: ["outcome"] }),
  },
  "PUT /v1/webhooks/{id}": {
    verb: "change",
    does: async (by) => by.call("PUT", await hooked(by), { version: 1, url: hookUrl(fresh("hook")), fact_types: ["charge"] }),
  },
  "POST /v1/webhooks/{id}/enable": {
    verb: "enable",
    does: async (by) => by.post(`${await hooked(by)}/enable`, { version: 1 }),
  },
  "DELETE /v1/webhooks/{id}": { verb: "delete", does: async (by) => by.call("DELETE", await hooked(by)) },
  "POST /v1/webhooks/{id}/rotate": { verb: "rotate", does: async (by) => by.post(`${await hooked(by)}/rotate`, {}) },
  "POST /v1/webhooks/{id}/secrets/{generation}/end": {
    verb: "end_secret",
    does: async (by) => {
      const path = await hooked(by);
      await by.post(`${path}/rotate`, {});
      return by.post(`${path}/secrets/1/end`, {});
    },
  },
  "POST /v1/webhooks/{id}/redeliver": { verb: "redeliver", triedIn: "test/systems/webhooks/redeliver.test.ts" },
  "POST /v1/webhooks/{id}/deliveries/{delivery}/redeliver": { verb: "redeliver", triedIn: "test/systems/webhooks/redeliver.test.ts" },
  "POST /v1/articles/{id}/publish": { verb: "publish", triedIn: "test/systems/content/takedown.test.ts" },
  "PATCH /v1/articles/{id}": { verb: "edit", triedIn: "test/systems/content/edits.test.ts" },
  "POST /v1/articles/{id}/unpublish": { verb: "unpublish", triedIn: "test/systems/content/takedown.test.ts" },
  "POST /v1/contacts/forget": { verb: "forget", triedIn: "test/systems/privacy/forget.test.ts" },
  "POST /v1/tenant/delete": { verb: "delete_tenant", triedIn: "test/systems/privacy/tenant.test.ts" },
};

/** Routes outside /v1 that change an item, and the reason why the audit has no row. */
export const ELSEWHERE: Record<string, string> = {
  "POST /console/sign-in":
    "The token that a sign-in creates is audited like any token; a refused sign-in has no tenant, and is counted by address.",
  "POST /mcp": "Each tool calls a route of the API in the same process, and that route writes the audit.",
  "POST /crm/hubspot/webhooks/{tenant}": "A CRM signs its notices, and the changes that they cause are instances.",
  "PUT /embedded/faults": "Drills of a local engine; the route is disabled in a deployment.",
  "DELETE /embedded/faults": "As above.",
  "PUT /embedded/crm/faults": "As above.",
  "POST /embedded/crm/edits": "As above.",
};

/** Verbs without an earlier state, or without a new state. */
export const TOLD: Record<string, string[]> = {
  schedule: ["after"],
  mint: ["after"],
  register: ["after"],
  unschedule: ["before"],
  revoke: ["before"],
  run: [],
  bulk: [],
  signal: [],
  rotate: [],
  end_secret: [],
};
