import { randomBytes } from "node:crypto";
import type { EngineApi } from "../../../src/http/engine-api.ts";
import { apiOf, askerOf, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import type { Engine } from "../../local/engine-process.ts";

type InstancePage = Output<EngineApi, "/v1/instances", "$get">;
type Detail = Output<EngineApi, "/v1/instances/:id", "$get">;
type CausePage = Output<EngineApi, "/v1/instances/causes", "$get">;
type LetterCausePage = Output<EngineApi, "/v1/dead-letters/causes", "$get">;
type EffectList = Output<EngineApi, "/v1/effects", "$get">;
type Found = Output<EngineApi, "/v1/search", "$get">;
type ReplayAnswer = Output<EngineApi, "/v1/dead-letters/:id/replay", "$post">;
type CancelAnswer = Output<EngineApi, "/v1/instances/:id/cancel", "$post">;
type BulkAnswer = Output<EngineApi, "/v1/bulk-actions", "$post">;
type Bulk = Output<EngineApi, "/v1/bulk-actions/:id", "$get">;
type LanePage = Output<EngineApi, "/v1/lanes", "$get">;
type AuditPage = Output<EngineApi, "/v1/audit", "$get">;
type Replay = Extract<ReplayAnswer, { outcome: unknown }>;
type Cancel = Extract<CancelAnswer, { follows: unknown }>;
type BulkPlan = Extract<BulkAnswer, { sample: unknown }>;

export type AuditRow = AuditPage["items"][number];

/** An order as it is asked for. */
export interface Order {
  order: string;
  to: string;
  pieces: number;
}

/** A retry of everything that has failed of one cause, in stages. */
const retryOf = (cause: string) => ({ verb: "retry", filter: { cause }, ramp: [1, 10], rate_per_second: 20 });
/** The longest page of the audit. */
const PAGE = 200;
/** The longest that an answer is held, in seconds. */
const HELD = 30;

/** What an operator asks of an engine's API. */
export function operateApi({ url, token }: Engine) {
  const ask = askerOf(url, token);
  const { enqueue, planRetry, retry, letter, replay } = apiOf(url, token);
  return {
    planRetry,
    retry,
    letter,
    replay,
    async ship(orders: readonly Order[]): Promise<void> {
      const results = await enqueue(orders.map((payload) => ({ type: "order.ship", payload })));
      for (const result of results) if ("problem" in result) throw new Refusal(`The engine refused an order: ${result.problem.detail}`);
    },
    /** Another program sends a message to the queue, as it is. */
    async outsider(key: string, payload: object, type = "order.ship"): Promise<void> {
      const message = {
        ...{ schema_version: 1, message_type: type, kind: "command", source: "the old shop", tenant_id: "acme" },
        ...{ correlation_id: "old-shop", causation_id: key, idempotency_key: key, subject: key, created_at: new Date().toISOString() },
        traceparent: `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`,
        payload_inline: payload,
      };
      const answer = await fetch(`${url}/outsider`, { method: "POST", body: JSON.stringify(message) });
      if (!answer.ok) throw new Refusal(`The queue took nothing from outside: ${answer.status}.`);
    },
    causes: async () => (await ask<CausePage>("GET", "/v1/instances/causes")).items,
    letterCauses: async () => (await ask<LetterCausePage>("GET", "/v1/dead-letters/causes")).items,
    ofCause: async (id: string) => (await ask<InstancePage>("GET", `/v1/instances?cause=${id}&limit=50`)).items,
    all: async (workflow = "ship-order") => (await ask<InstancePage>("GET", `/v1/instances?workflow=${workflow}&limit=50`)).items,
    /** The newest instance of an order. Errors: a `Refusal` where there is none. */
    async ofOrder(order: string): Promise<InstancePage["items"][number]> {
      const [found] = (await ask<InstancePage>("GET", `/v1/instances?subject=${order}`)).items;
      if (!found) throw new Refusal(`There is no instance of ${order}.`);
      return found;
    },
    /** An instance, once it does not go on by itself. */
    settled: (id: string) => ask<Detail>("GET", `/v1/instances/${id}?wait=${HELD}`),
    planAll: (cause: string, reason: string) => ask<BulkPlan>("POST", "/v1/bulk-actions", { ...retryOf(cause), reason, dry_run: true }),
    retryAll: (cause: string, reason: string, key: string) =>
      ask<Bulk>("POST", "/v1/bulk-actions", { ...retryOf(cause), reason }, { "idempotency-key": key }),
    skipAll: (cause: string, reason: string) =>
      ask<Bulk>("POST", "/v1/bulk-actions", { verb: "skip", filter: { cause }, ramp: [], rate_per_second: 100, reason }),
    bulk: (id: string) => ask<Bulk>("GET", `/v1/bulk-actions/${id}`),
    planCancel: (id: string, reason: string) => ask<Cancel>("POST", `/v1/instances/${id}/cancel`, { reason, dry_run: true }),
    cancel: (id: string, reason: string) => ask<unknown>("POST", `/v1/instances/${id}/cancel`, { reason }),
    doubts: async () => (await ask<EffectList>("GET", "/v1/effects?state=in_doubt")).items,
    confirm: (key: string, output: object, reason: string) => ask<unknown>("POST", `/v1/effects/${key}/confirm`, { output, reason }),
    search: async (text: string) => (await ask<Found>("GET", `/v1/search?${new URLSearchParams({ q: text })}`)).items,
    planReplay: (id: string, reason: string, body?: object) =>
      ask<Replay>("POST", `/v1/dead-letters/${id}/replay`, { ...(body && { body }), reason, dry_run: true }),
    /** Lanes that stand still. */
    lanes: async () => (await ask<LanePage>("GET", "/v1/lanes")).items,
    /** What operators did, oldest first. */
    audit: async () => (await ask<AuditPage>("GET", `/v1/audit?limit=${PAGE}`)).items.toReversed(),
  };
}

export type OperateApi = ReturnType<typeof operateApi>;
