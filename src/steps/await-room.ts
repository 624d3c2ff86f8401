import { errors, type Steps } from "millrace";
import { BudgetSet } from "../messages/budgets.ts";
import type { Refused, Spender } from "./ceiling.ts";

/**
 * Maximum number of days for which a paid call waits for its budget accounts. The workflow asks the budget again each day, because holds
 * expire and a notification may be lost.
 */
const DAYS = 30;

/**
 * Makes a paid call when its budget accounts allow the call. After a refusal by the budget the workflow waits until a limit is set, or for
 * one day. `nth` distinguishes the calls of one run. `call` gets a new idempotency key for each request to the budget. A refusal after 30
 * days fails the step, and an operator can retry the step.
 */
export async function onceAffordable<Paid extends object>(
  step: Steps,
  nth: string,
  call: (key: string, isLast: Spender["isLast"]) => Promise<Paid | Refused>,
): Promise<Paid> {
  let days = 0;
  for (let look = 1; ; look++) {
    const key = look === 1 ? nth : [nth, `look ${look}`].filter(Boolean).join(", ");
    const done = await call(key, days === DAYS);
    if (!("refused" in done)) return done;
    try {
      await step.waitFor("wait for room", BudgetSet, { subject: done.account, timeout: "1 day", key });
    } catch (error) {
      if (errors.codeOf(error) !== "wait_timeout") throw error;
      days++;
    }
  }
}
