import { type Duration, defineWorkflow, type EffectCall, notRetryable } from "millrace";
import { ContactsSync } from "../messages/crm.ts";
import { type Place, type Progress, retryChunk, type SyncCall, syncChunk } from "../systems/crm/chunk.ts";
import { cutQuestion, NOT_AGREED } from "../systems/crm/cut-question.ts";
import { placeOf } from "../systems/crm/keys.ts";

/** Delays before each retry of contacts that the CRM refused temporarily. */
const PAUSES: readonly Duration[] = ["5 seconds", "30 seconds", "2 minutes", "10 minutes"];

/** A deferred call is retried at the time that the CRM specifies. If the CRM specifies no time, the retries take about an hour in total. */
const PATIENCE = { retries: { limit: 10, delay: "5 seconds", backoff: "exponential" }, timeout: "5 minutes" } as const;

/** Maximum number of chunks in one sync. Each chunk is a step, and the platform's limit is 10,000 steps. */
const MAX_CHUNKS = 9_000;

/**
 * Pushes contacts to the CRM, chunk by chunk in the order of their ids. A chunk is one step and one write, named by the chunk's position.
 * Therefore no contact is pushed twice, even if the run is interrupted at any point. Temporarily refused contacts are retried separately.
 * If too many records of a chunk are missing, the chunk waits until an operator has confirmed the deletion. A sync asks this question only
 * once. The workflow's steps are platform steps, because a chunk makes several large calls, which wait for a shared rate limit.
 */
export const syncContacts = defineWorkflow({
  name: "sync-contacts",
  on: ContactsSync,
  async run({ payload: { sync_id: syncId, scope }, step, env, envelope, instanceId }) {
    const call: SyncCall = { env, envelope, instanceId, syncId, scope };
    let chunks = 0;
    let mayCut = false;
    /** Returns a function that first reports the number of finished chunks and then processes a chunk. */
    const counted =
      <Made>(chunk: () => Made) =>
      ({ progress }: Pick<EffectCall<never>, "progress">): Made => {
        progress({ done: chunks - 1, text: "chunks of contacts" });
        return chunk();
      };
    /** Processes all chunks in the order of the contacts' ids. Returns the number of contacts that wait for a retry. */
    const walk = async (chunk: (place: Place, key: string) => Promise<Progress>): Promise<number> => {
      let waiting = 0;
      let asked = "";
      for (let after: string | null = ""; after !== null; ) {
        if (++chunks > MAX_CHUNKS)
          throw notRetryable(`The sync has more than ${MAX_CHUNKS} chunks: these are done; send another sync for the rest.`);
        const progress: Progress = await chunk({ after, waiting, mayCut }, `${placeOf(after)}${asked}`);
        if (progress.lost) {
          const { approved } = await step.approve("agree that they were deleted", cutQuestion(syncId, progress.lost));
          if (!approved) throw notRetryable(NOT_AGREED);
          mayCut = true;
        }
        asked = progress.lost ? ", agreed" : "";
        after = progress.next;
        waiting = progress.waiting;
      }
      return waiting;
    };

    let waiting = await walk((place, key) =>
      step.commit(
        "sync contacts",
        counted(() => syncChunk(call, place)),
        { key, ...PATIENCE },
      ),
    );
    for (const [index, pause] of PAUSES.entries()) {
      if (waiting === 0) return;
      const round = `round ${index + 1}`;
      const isLast = index === PAUSES.length - 1;
      await step.sleep("let the CRM recover", pause, { key: round });
      waiting = await walk((place, key) =>
        step.commit(
          "retry contacts",
          counted(() => retryChunk(call, place, isLast)),
          { key: `${round}, ${key}`, ...PATIENCE },
        ),
      );
    }
  },
});
