import { type Duration, defineWorkflow, notRetryable } from "millrace";
import { ContactForget } from "../messages/crm.ts";
import { eraseRecords } from "../steps/erase-records.ts";
import { finish, searchOn, takeOff } from "../systems/privacy/forget.ts";

/** Delays before further passes, which are needed because running instances may mention the person until the instances end. */
const PAUSES: readonly Duration[] = [
  "1 second",
  "10 seconds",
  "1 minute",
  "10 minutes",
  "1 hour",
  "6 hours",
  ...Array<Duration>(30).fill("1 day"),
];
/** Maximum number of steps of one pass. A higher number of steps would indicate a bug. */
const MAX_STRETCHES = 5000;

/** The step retries for three quarters of an hour, because several pushes may reserve the contact for 6 minutes each. */
const PATIENCE = { retries: { limit: 8, delay: "10 seconds", backoff: "exponential" }, timeout: "2 minutes" } as const;

/**
 * Forgets a person: first in all tables that work with contacts, then in the CRM, then in all other places. The workflow repeats passes
 * until a pass finds no mention of the person and no running instance could mention the person again. The workflow's steps return only
 * numbers, because the outputs of steps are stored. After the last delay, a pass with running instances fails, and an operator can retry
 * the pass. If the person's removal is requested again under another name, the newest command continues and all earlier commands end. The
 * steps are platform steps, because each step searches for seconds and the workflow sleeps between passes.
 */
export const forgetContact = defineWorkflow({
  name: "forget-contact",
  on: ContactForget,
  async run({ payload: { person }, step, env, envelope, instanceId }) {
    const tenantId = envelope.tenant_id;
    const call = { env: env as Env, tenantId, instanceId, person, trace: envelope };
    const taken = await step.commit("take off", () => takeOff(call), PATIENCE);
    if (taken.others) return { removed: {} };
    await step.effect("erase in the CRM", eraseRecords, { tenantId, person });
    for (let pass = 0, stretch = 0; ; stretch++) {
      if (stretch > MAX_STRETCHES) throw notRetryable("The search for a person's remaining data did not end. Please report this.");
      const mayWait = pass < PAUSES.length;
      const reached = await step.commit("search", () => searchOn(call, { mayWait }), { key: String(stretch), timeout: "2 minutes" });
      if (reached.others) return { removed: {} };
      if (!reached.over) continue;
      if (reached.found + reached.waiting === 0) break;
      const pause = PAUSES[pass++];
      if (pause !== undefined) await step.sleep("let end what is under way", pause, { key: String(pass) });
    }
    return step.commit("finish", () => finish(call));
  },
});
