import { type Progress, retryChunk, type SyncCall, syncChunk } from "../crm/chunk.ts";
import { placeOf } from "../crm/keys.ts";
import { type Duration, defineWorkflow, notRetryable, type StepOptions } from "../engine/index.ts";
import { ContactsSync } from "../messages/crm.ts";

/** Before each round in which contacts are tried again that the CRM did not take for reasons of its own. */
const PAUSES: readonly Duration[] = ["5 seconds", "30 seconds", "2 minutes", "10 minutes"];

/** A whole call that the CRM put off is repeated when it says; without a word from it, for about an hour. */
const PATIENCE: StepOptions = { retries: { limit: 10, delay: "5 seconds", backoff: "exponential" }, timeout: "5 minutes" };

/** Steps of one sync: the platform's limit is 10,000. */
const MAX_CHUNKS = 9_000;

/**
 * Brings contacts to the CRM, chunk by chunk in the order of their ids. A chunk is one step and one write, named by where it begins: no
 * contact is brought twice, wherever the run dies. Those that the CRM puts off are tried again, alone.
 */
export const syncContacts = defineWorkflow({
  name: "sync-contacts",
  on: ContactsSync,
  async run({ payload: { sync_id: syncId, scope }, step, env, envelope, instanceId }) {
    const call: SyncCall = { env, envelope, instanceId, syncId, scope };
    let chunks = 0;
    /** Walks through contacts, from the first to the last. Answers how many of them wait. */
    const walk = async (chunk: (after: string, waiting: number) => Promise<Progress>): Promise<number> => {
      let waiting = 0;
      for (let after: string | null = ""; after !== null; ) {
        if (++chunks > MAX_CHUNKS)
          throw notRetryable(`The sync has more than ${MAX_CHUNKS} chunks: what it did stays; send another for the rest.`);
        const progress: Progress = await chunk(after, waiting);
        after = progress.next;
        waiting = progress.waiting;
      }
      return waiting;
    };

    let waiting = await walk((after, before) =>
      step.commit("sync contacts", () => syncChunk(call, after, before), { key: placeOf(after), ...PATIENCE }),
    );
    for (const [index, pause] of PAUSES.entries()) {
      if (waiting === 0) return;
      const round = `round ${index + 1}`;
      const isLast = index === PAUSES.length - 1;
      await step.sleep("let the CRM recover", pause, { key: round });
      waiting = await walk((after, before) =>
        step.commit("retry contacts", () => retryChunk(call, after, before, isLast), { key: `${round}/${placeOf(after)}`, ...PATIENCE }),
      );
    }
  },
});
