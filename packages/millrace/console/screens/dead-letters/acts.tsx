import { type Answer, get, post, type Result } from "../../data/api.ts";
import type { Written } from "../../data/written.ts";
import { Act } from "../../parts/act.tsx";
import { type Detail, planOf } from "./draft.ts";
import { PlanOfReplay } from "./replay-plan.tsx";

type Replayed = Extract<Answer<"/v1/dead-letters/:id/replay", "$post">, { sent: boolean }>;

export interface Done {
  sentence: string;
  instance?: string | null;
}

interface ActProps {
  letter: Detail;
  close: () => void;
  done: (done: Done) => void;
}

export function Replay({ letter: { id, replay }, body, close, done }: ActProps & { body: Written | undefined }) {
  return (
    <Act
      title={body === undefined ? "Replay unchanged" : "Replay the corrected message"}
      verb="Replay"
      dryRun={() => planOf(id, body)}
      refusal={({ outcome, why }) => (outcome === "refused" || outcome === "settled" ? why : null)}
      show={(plan) => <PlanOfReplay plan={plan} came={replay} />}
      act={(reason) =>
        post("/v1/dead-letters/:id/replay", { param: { id }, body: { reason, ...(body !== undefined && { body }) } }) as Promise<
          Result<Replayed>
        >
      }
      done={({ sent, why, instance_id: instance }) =>
        done({ sentence: sent ? "Replayed: the message is on its queue again." : why, instance })
      }
      close={close}
    />
  );
}

export function Skip({ letter: { id }, close, done }: ActProps) {
  return (
    <Act
      title="Skip this dead letter"
      verb="Skip permanently"
      final="A skipped dead letter cannot be replayed."
      dryRun={() => get("/v1/dead-letters/:id", { param: { id } })}
      refusal={settled}
      show={() => (
        <p>The message is discarded: it is not sent again and starts nothing. The dead letter and your reason remain on record.</p>
      )}
      act={(reason) => post("/v1/dead-letters/:id/skip", { param: { id }, body: { reason } })}
      done={({ skipped }) => done({ sentence: skipped ? "Skipped." : "Another operator settled it first. No change was made." })}
      close={close}
    />
  );
}

export function Escalate({ letter: { id }, close, done }: ActProps) {
  return (
    <Act
      title="Escalate this dead letter"
      verb="Escalate"
      ask="Note for others (sent to the alert channels and kept in the audit)"
      dryRun={() => get("/v1/dead-letters/:id", { param: { id } })}
      refusal={(letter) => settled(letter) ?? (letter.escalation ? `${letter.escalation.by} has already escalated it.` : null)}
      show={() => (
        <p>
          Your note and your name are sent to the alert channels once. The channels are notified again when the dead letter is settled. It
          remains open.
        </p>
      )}
      act={(reason) => post("/v1/dead-letters/:id/escalate", { param: { id }, body: { reason } })}
      done={({ escalated }) => done({ sentence: escalated ? "Escalated." : "Another operator was faster. No change was made." })}
      close={close}
    />
  );
}

const settled = ({ state }: Pick<Detail, "state">) => (state === "open" ? null : `It is already ${state}.`);
