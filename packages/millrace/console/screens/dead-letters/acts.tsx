import { type Answer, get, post, type Result } from "../../data/api.ts";
import type { Written } from "../../data/written.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act } from "../../parts/act.tsx";
import { Pairs } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Id, Quiet, Text } from "../../parts/text.tsx";
import { type Detail, planOf, type ReplayPlan } from "./draft.ts";

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

export function PlanOfReplay({ plan: { outcome, why, queue, identity, instance }, came }: { plan: ReplayPlan; came: ReplayPlan }) {
  const isOtherWork = identity !== null && came.identity !== null && identity.fingerprint !== came.identity.fingerprint;
  return (
    <>
      <p>
        <Status word={outcome} /> <bdi>{why}</bdi>
      </p>
      <Pairs
        of={{
          Key: identity && (
            <>
              <bdi>{identity.idempotency_key}</bdi>{" "}
              {instance ? (
                <Link to={hrefOf("instances", instance.id)}>its instance is {instance.status.replaceAll("_", " ")}</Link>
              ) : (
                <Quiet of="no instance has it" />
              )}
            </>
          ),
          Subject: identity && <bdi>{identity.subject}</bdi>,
          Type: identity && [<Text key="type" of={identity.message_type} after=" of " />, <Text key="of" of={identity.tenant_id} />],
          Payload: identity && [<Id key="id" id={identity.fingerprint} />, <Quiet key="is" of={isOtherWork ? " changed" : " unchanged"} />],
          To: queue && `the queue ${queue}`,
        }}
      />
      {!identity && <p class="quiet">The message has no readable key.</p>}
    </>
  );
}
