import { MillraceError, query, texts } from "millrace";
import { defineBulkVerb } from "millrace/operate";
import * as z from "zod";
import { type DeliveryState, REPEATABLE, selectRepeatable, selectStanding } from "./deliveries.ts";
import { getEndpoint } from "./endpoints.ts";
import { redeliver } from "./redeliver.ts";

const moment = z.iso.datetime({ offset: true });
const at = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));

interface Standing {
  id: string;
  endpoint_id: string;
  state: DeliveryState;
}

/** Sends an endpoint's deliveries of a period again, and checks whether the receiver accepts these deliveries. */
export const redeliverDeliveries = defineBulkVerb({
  name: "redeliver",
  noun: "webhook deliveries",
  filter: z.strictObject({
    endpoint_id: z.string().min(1).max(64),
    state: z.enum(REPEATABLE).default("sent"),
    since: moment.optional(),
    until: moment.optional(),
  }),
  members: ({ tenantId }, { endpoint_id, state, since, until }) =>
    selectRepeatable(tenantId, endpoint_id, { state, since: at(since), until: at(until) }),
  async refusal({ env, by }, id) {
    await repeatable(env.DB, by.tenantId, id);
    return null;
  },
  async act({ env, catalog, by, reason, bulkId }, id) {
    const found = await repeatable(env.DB, by.tenantId, id);
    const asked = { endpointId: found.endpoint_id, which: { id }, key: `bulk/${bulkId}`, reason };
    const { instanceIds } = await redeliver(env, catalog, by, asked);
    return instanceIds.length > 0 ? { changed: true } : { changed: false, why: `The delivery is ${found.state}.` };
  },
  async outcomes({ env, by }, acted) {
    return outcomesOf(
      env.DB,
      by.tenantId,
      acted.map(({ id }) => id),
    );
  },
});

/** Returns the outcomes of the given deliveries by id. Successful deliveries have no entry. */
export async function outcomesOf(db: D1Database, tenantId: string, ids: readonly string[]): Promise<Map<string, Outcome>> {
  const found = await query<Standing>(db, selectStanding(tenantId, ids));
  return new Map(found.flatMap(({ id, state }) => (CAME[state] ? [[id, CAME[state]] as const] : [])));
}

/**
 * Returns a delivery that can be sent again. Throws `delivery_not_found` for an unknown delivery, and `invalid_transition` if the
 * delivery's endpoint is deleted.
 */
async function repeatable(db: D1Database, tenantId: string, id: string): Promise<Standing> {
  const [found] = await query<Standing>(db, selectStanding(tenantId, [id]));
  if (!found) throw new MillraceError("delivery_not_found", `There is no delivery ${texts.beginning(id, 64)}.`);
  const endpoint = await getEndpoint(db, tenantId, found.endpoint_id);
  if (endpoint?.state === "deleted")
    throw new MillraceError("invalid_transition", "The delivery's endpoint is deleted: no further delivery is sent.");
  return found;
}

type Outcome = "open" | { code: string; why: string };

/** The outcome for each state of a delivery; undefined for a successful delivery. */
const CAME: Readonly<Partial<Record<DeliveryState, Outcome>>> = {
  pending: "open",
  failed: { code: "upstream_refused", why: "The receiver did not accept the delivery: its log has the responses." },
  gone: { code: "upstream_refused", why: "The receiver answered 410 Gone." },
};
