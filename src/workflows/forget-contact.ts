import { type Duration, defineWorkflow, notRetryable } from "../engine/index.ts";
import { ContactForget } from "../messages/crm.ts";
import { finish, searchOn, takeOff } from "../privacy/forget.ts";
import { eraseRecords } from "../steps/erase-records.ts";

/** Before each further pass: what is still under way says the person's name until it has ended. */
const PAUSES: readonly Duration[] = [
  "1 second",
  "10 seconds",
  "1 minute",
  "10 minutes",
  "1 hour",
  "6 hours",
  ...Array<Duration>(30).fill("1 day"),
];
/** A pass of so many stretches is a mistake of ours. */
const MAX_STRETCHES = 5000;

/**
 * Forgets a person: first out of all that works with contacts, then in the CRM, then everywhere else, pass after pass, until one finds nothing more
 * and nothing is under way that could say the name again. Its steps answer numbers: they are kept too.
 */
export const forgetContact = defineWorkflow({
  name: "forget-contact",
  on: ContactForget,
  async run({ payload: { person }, step, env, envelope: { tenant_id: tenantId }, instanceId }) {
    const call = { env: env as Env, tenantId, instanceId, person };
    await step.commit("take off", () => takeOff(call), { timeout: "2 minutes" });
    await step.effect("erase in the CRM", eraseRecords, { tenantId, person });
    for (let pass = 0, stretch = 0; ; stretch++) {
      if (stretch > MAX_STRETCHES)
        throw notRetryable("The search for what is left of a person did not come to an end. Please report this.");
      const { over, found, waiting } = await step.commit("search", () => searchOn(call), { key: String(stretch), timeout: "2 minutes" });
      if (!over) continue;
      if (found + waiting === 0) break;
      const pause = PAUSES[pass++];
      if (pause === undefined) throw underWay(waiting);
      await step.sleep("let end what is under way", pause, { key: String(pass) });
    }
    return step.commit("finish", () => finish(call));
  },
});

function underWay(waiting: number): Error {
  return notRetryable(
    `${waiting} rows of instances that are still under way, or messages that no queue takes, name the person who is to be forgotten: settle what GET /v1/instances lists as waiting, paused or in_doubt, then ask for it again under another request.`,
  );
}
