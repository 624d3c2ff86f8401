import { MillraceError, sql } from "millrace";
import { act, actions, defineBulkVerb } from "millrace/operate";
import * as z from "zod";

/** Cancels unpaid orders. */
export const cancelOrders = defineBulkVerb({
  name: "cancel_orders",
  noun: "orders",
  filter: z.strictObject({ before: z.iso.datetime() }),
  members: ({ tenantId }, { before }) => sql`
    SELECT id, placed_at AS at FROM orders WHERE tenant_id = ${tenantId} AND state = 'open' AND placed_at < ${Date.parse(before)}`,
  async act({ env, by, reason }, id) {
    const action = { id: actions.idOf(by), verb: "cancel_order", target: id, instanceId: null, reason };
    const change = sql`UPDATE orders SET state = 'cancelled' WHERE id = ${id} AND tenant_id = ${by.tenantId} AND state = 'open'`;
    const { isApplied } = await act(env, by, action, { change });
    if (isApplied) return { changed: true };
    throw new MillraceError("invalid_transition", "The order is not open any more.");
  },
  isSpent: async () => true,
});
