import { defineEvent } from "millrace";
import * as z from "zod";
import { brandEvents } from "./queues.ts";

/**
 * The event that the limit of a budget account for external spending was set. Paid calls that wait for this budget account then ask again.
 */
export const BudgetSet = defineEvent({
  type: "budget.set",
  payload: z.object({ account: z.string().min(1).max(190), limit_cents: z.int().min(0) }),
  subject: ({ account }) => account,
  queue: brandEvents,
});

const SPENDING = "spending";

/**
 * Returns the budget accounts that limit the external spending of a tenant and of this brand. A budget account without a limit has no
 * effect.
 */
export function ceilingsOf(brand: string): string[] {
  return [SPENDING, `${SPENDING}:${brand}`];
}

export function isCeiling(account: string): boolean {
  return account === SPENDING || account.startsWith(`${SPENDING}:`);
}
