import { bindingName, objectsIn } from "../../contract/bindings.ts";
import { digest } from "../../contract/ids.ts";
import { laneIn } from "../../contract/queue.ts";
import { now, sql } from "../../contract/sql.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { ageOf, scan } from "../scan.ts";

/**
 * Age in milliseconds from which an open action counts as a divergence. When the platform is available, the keeper applies an action within
 * seconds.
 */
const LATE_ACTION_MS = 3_600_000;
/** Delay in milliseconds from which a due schedule counts as a divergence. The keeper starts due runs every ten seconds. */
const LATE_SCHEDULE_MS = 600_000;
/** Number of sends of a message after which more than an hour has passed since the message's commit. */
const MANY_SENDS = 12;

interface ActionRow {
  id: string;
  instance_id: string;
  tenant_id: string;
  verb: string;
  attempts: number;
  age_ms: number;
}

/** Finds accepted actions of operators that the keeper has not applied on the platform in time. */
export const promises = scan<ActionRow, readonly [string, string]>({
  name: "promises",
  everyHours: 1,
  kinds: {
    promise_unkept: { says: "An operator's action was recorded more than an hour ago, but is not applied on the platform." },
  },
  rows: 250,
  start: ["", ""],
  select: ([instanceId, actionId], limit) => sql`
    SELECT id, instance_id, tenant_id, verb, attempts, ${now} - at AS age_ms FROM millrace_actions INDEXED BY millrace_actions_open
    WHERE applied_at IS NULL AND (instance_id, id) >= (${instanceId}, ${actionId}) ORDER BY instance_id, id LIMIT ${limit}`,
  place: ({ instance_id, id }) => [instance_id, id],
  find: ({ verb, attempts, age_ms }) => [
    age_ms > LATE_ACTION_MS && { kind: "promise_unkept", detail: `${verb} of ${ageOf(age_ms)} ago, tried ${attempts} times.` },
  ],
});

interface ScheduleRow {
  tenant_id: string;
  name: string;
  command: string;
  next_at: number;
  late_ms: number;
}

/** Compares the time of each schedule's next run with the present time. */
export const schedules = scan<ScheduleRow, readonly [number]>({
  name: "schedules",
  everyHours: 1,
  kinds: {
    schedule_overdue: { says: "The next time of a schedule has passed, but no run was started or recorded." },
  },
  rows: 250,
  start: [0],
  select: ([nextAt], limit) => sql`
    SELECT tenant_id, name, command, next_at, ${now} - next_at AS late_ms FROM millrace_schedules
    WHERE next_at IS NOT NULL AND next_at >= ${nextAt} AND next_at <= ${now} - ${LATE_SCHEDULE_MS}
    ORDER BY next_at LIMIT ${limit}`,
  place: ({ next_at }) => [next_at],
  find: ({ tenant_id, name, command, late_ms }) => [
    { kind: "schedule_overdue", what: digest("schedule", tenant_id, name), detail: `${command} was due ${ageOf(late_ms)} ago.` },
  ],
});

interface MessageRow {
  id: string;
  queue: string;
  attempts: number;
  tenant_id: string | null;
  type: string | null;
}

/** Compares unconfirmed messages with the queues and consumers of the deployment. */
export function outbox(catalog: Catalog | undefined) {
  const taken = catalog && new Set(catalog.consumers.map(({ queue }) => queue.name));
  return scan<MessageRow, readonly [string]>({
    name: "outbox",
    everyHours: 1,
    kinds: {
      message_without_taker: { says: "A message is for a queue without a binding or a consumer in this deployment." },
      message_unconfirmed: { says: "A message was sent again for more than an hour, and no consumer has confirmed it." },
    },
    rows: 250,
    start: [""],
    select: ([id], limit) => sql`
      SELECT id, queue, attempts, iif(json_valid(body), body->>'tenant_id', NULL) AS tenant_id,
        iif(json_valid(body), body->>'message_type', NULL) AS type
      FROM millrace_outbox WHERE id >= ${id} ORDER BY id LIMIT ${limit}`,
    place: ({ id }) => [id],
    find: ({ queue, attempts, type }, env) => {
      const missing = catalog?.elsewhere.queues.has(queue) ? undefined : missingFor(env, queue, taken);
      if (missing !== undefined) return [{ kind: "message_without_taker", detail: `${type} for ${queue}: ${missing}.` }];
      return [attempts >= MANY_SENDS && { kind: "message_unconfirmed", detail: `${type} for ${queue} was tried ${attempts} times.` }];
    },
  });
}

/** The reason why a queue's messages cannot be delivered in this deployment; undefined if the messages can be delivered. */
function missingFor(env: object, queue: string, taken: ReadonlySet<string> | undefined): string | undefined {
  const isLane = laneIn(queue) !== undefined;
  const binding = isLane ? "LANES" : bindingName(queue);
  const carries = isLane ? objectsIn(env, binding) : (env as Record<string, unknown>)[binding];
  if (carries === undefined) return `${binding} is not bound`;
  return taken === undefined || taken.has(queue) ? undefined : "no consumer takes it";
}
