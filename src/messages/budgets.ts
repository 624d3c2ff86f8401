import { defineEvent } from "millrace";
import * as z from "zod";
import { brandEvents } from "./queues.ts";

/** Somebody has set the limit of an account that bounds what is paid for outside: what waits for room in it asks again. */
export const BudgetSet = defineEvent({
  type: "budget.set",
  payload: z.object({ account: z.string().min(1).max(190), limit_cents: z.int().min(0) }),
  subject: ({ account }) => account,
  queue: brandEvents,
});

const SPENDING = "spending";

/** The accounts whose limits bound what a tenant, and what one of its brands, pays for outside. One without a limit bounds nothing. */
export function ceilingsOf(brand: string): string[] {
  return [SPENDING, `${SPENDING}:${brand}`];
}

export function isCeiling(account: string): boolean {
  return account === SPENDING || account.startsWith(`${SPENDING}:`);
}
