import { bindingName, objectsIn } from "../../contract/bindings.ts";
import { laneIn } from "../../contract/queue.ts";
import { sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { Check } from "../check.ts";
import { slicedBy } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of messages in one slice of the scan. */
const ROWS = 250;
/** Number of sends of a message after which more than an hour has passed since the message's commit. */
const MANY = 12;

interface Row {
  id: string;
  queue: string;
  attempts: number;
  tenant_id: string | null;
  type: string | null;
}

/** Compares unconfirmed messages with the queues and consumers of the deployment. */
export const outbox = (catalog: Catalog | undefined): Check =>
  engineCheck({
    name: "outbox",
    everyHours: 1,
    kinds: {
      message_without_taker: { says: "A message is for a queue without a binding or a consumer in this deployment." },
      message_unconfirmed: { says: "A message was sent again for more than an hour, and no consumer has confirmed it." },
    },
    async slice(env, from) {
      const rows = await query<Row>(
        env.DB,
        sql`
          SELECT id, queue, attempts, iif(json_valid(body), body->>'tenant_id', NULL) AS tenant_id,
            iif(json_valid(body), body->>'message_type', NULL) AS type
          FROM millrace_outbox WHERE id >= ${from ?? ""} ORDER BY id LIMIT ${ROWS + 1}`,
      );
      const taken = catalog && new Set(catalog.consumers.map(({ queue }) => queue.name));
      return slicedBy(
        rows,
        ROWS,
        ({ id }) => id,
        ({ id, queue, attempts, tenant_id, type }) => {
          const about = { what: id, tenantId: tenant_id };
          const missing = catalog?.elsewhere.queues.has(queue) ? undefined : missingFor(env, queue, taken);
          if (missing !== undefined) return [{ ...about, kind: "message_without_taker", detail: `${type} for ${queue}: ${missing}.` }];
          if (attempts < MANY) return [];
          return [{ ...about, kind: "message_unconfirmed", detail: `${type} for ${queue} was tried ${attempts} times.` }];
        },
      );
    },
  });

/** The reason why a queue's messages cannot be delivered in this deployment; undefined if the messages can be delivered. */
function missingFor(env: object, queue: string, taken: ReadonlySet<string> | undefined): string | undefined {
  const isLane = laneIn(queue) !== undefined;
  const binding = isLane ? "LANES" : bindingName(queue);
  const carries = isLane ? objectsIn(env, binding) : (env as Record<string, unknown>)[binding];
  if (carries === undefined) return `${binding} is not bound`;
  return taken === undefined || taken.has(queue) ? undefined : "no consumer takes it";
}
