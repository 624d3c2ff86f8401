import { type Answer, get, post, type Result } from "../../data/api.ts";
import type { Written } from "../../data/written.ts";
import { Act } from "../../parts/act.tsx";
import { type Detail, planOf } from "./draft.ts";
import { PlanOfReplay } from "./replay-plan.tsx";

type Replayed = Extract<Answer<"/v1/dead-letters/:id/replay", "$post">, { sent: boolean }>;

/** What came of an act, in a sentence, and the instance that it led to. */
export interface Done {
  sentence: string;
  instance?: string | null;
}

interface ActProps {
  letter: Detail;
  close: () => void;
  done: (done: Done) => void;
}

/** Sends the letter's message again: as it came, or corrected. */
export function Replay({ letter: { id, replay }, body, close, done }: ActProps & { body: Written | undefined }) {
  return (
    <Act
      title={body === undefined ? "Replay it as it came" : "Replay it corrected"}
      verb="Replay"
      dryRun={() => planOf(id, body)}
      refusal={({ outcome, why }) => (outcome === "refused" || outcome === "settled" ? why : null)}
      show={(plan) => <PlanOfReplay plan={plan} came={replay} />}
      act={(reason) =>
        post("/v1/dead-letters/:id/replay", { param: { id }, body: { reason, ...(body !== undefined && { body }) } }) as Promise<
          Result<Replayed>
        >
      }
      done={({ sent, why, instance_id: instance }) => done({ sentence: sent ? "Replayed: it is on its queue again." : why, instance })}
      close={close}
    />
  );
}

/** Gives the letter up. */
export function Skip({ letter: { id }, close, done }: ActProps) {
  return (
    <Act
      title="Skip this letter"
      verb="Skip it for good"
      final="It is final: a skipped letter is not replayed any more."
      dryRun={() => get("/v1/dead-letters/:id", { param: { id } })}
      refusal={settled}
      show={() => (
        <p>
          Its message is given up: it is not sent, nothing starts by it, and the letter leaves its group. It stays on record, with your
          reason.
        </p>
      )}
      act={(reason) => post("/v1/dead-letters/:id/skip", { param: { id }, body: { reason } })}
      done={({ skipped }) => done({ sentence: skipped ? "Skipped." : "Somebody else had settled it first: nothing was changed." })}
      close={close}
    />
  );
}

/** Asks others to look at the letter. */
export function Escalate({ letter: { id }, close, done }: ActProps) {
  return (
    <Act
      title="Escalate this letter"
      verb="Escalate"
      ask="What others should know; sent to them, and kept in the audit"
      dryRun={() => get("/v1/dead-letters/:id", { param: { id } })}
      refusal={(letter) => settled(letter) ?? (letter.escalation ? `${letter.escalation.by} has escalated it already.` : null)}
      show={() => (
        <p>
          Your note and name go to the channels of alerts, once, and that it is over when somebody has settled it. The letter stays open.
        </p>
      )}
      act={(reason) => post("/v1/dead-letters/:id/escalate", { param: { id }, body: { reason } })}
      done={({ escalated }) => done({ sentence: escalated ? "Escalated." : "Somebody else was faster: nothing was changed." })}
      close={close}
    />
  );
}

const settled = ({ state }: Pick<Detail, "state">) => (state === "open" ? null : `It is ${state} by now: somebody else was faster.`);
