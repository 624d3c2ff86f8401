import { useEffect, useState } from "preact/hooks";
import { type Answer, get } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { type Data, useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act } from "../../parts/act.tsx";
import { type Asker, useActs } from "../../parts/dialog.tsx";
import { Button, Code, Facts, LinkTo, Lost, ProblemNote } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Id, Text } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import { nameOf } from "./dead-letters.tsx";
import { type Detail, PlanOfReplay, type ReplayPlan, useDraft, Workbench } from "./workbench.tsx";

export function DeadLetter({ param: id }: ScreenProps) {
  const [reveal, setReveal] = useState(false);
  const { data, problem, again } = useData(
    () => get("/v1/dead-letters/:id", { param: { id }, query: reveal ? { reveal: "true" } : {} }),
    [id],
    ({ kind, data: { target, id: of } }) => kind === "skipped" || target === id || of === id,
  );
  // When redacted values are revealed, only these values are reloaded. All other content of the page remains unchanged.
  useEffect(() => void (reveal && again()), [reveal]);
  if (data) return <Known letter={data} problem={problem} again={again} reveal={reveal ? undefined : () => setReveal(true)} />;
  return <Lost title="Dead letter" problem={problem} all={["dead-letters", "All dead letters"]} />;
}

function Known({
  letter,
  problem,
  again,
  reveal,
}: { letter: Detail; reveal: (() => void) | undefined } & Pick<Data<Detail>, "problem" | "again">) {
  const draft = useDraft(letter);
  const { id, message_type: type, state, cause, correlation_id: job } = letter;
  const { ask, line } = useActs(again, { id });
  const isOpen = state === "open";
  const mayAct = isOpen && may("operate");
  const replay = () => ask(Replay, { letter, body: draft.body });
  return (
    <>
      <h1>
        <bdi>{type ?? "A message without a type"}</bdi> <span class="quiet">·</span> <bdi>{nameOf(letter)}</bdi>
      </h1>
      <Facts
        of={[
          <Status word={state} />,
          [<Ago key="at" label="captured" at={letter.captured_at} />, ` from ${letter.queue}`],
          job && ["job ", <LinkTo key="job" to={hrefOf("jobs", job)} of={job} />],
          letter.instance_id && <Link to={hrefOf("instances", letter.instance_id)}>instance</Link>,
          cause && isOpen && <Link to={hrefOf("dead-letters", { cause })}>all with this cause</Link>,
          !isOpen && <Link to={hrefOf("audit", { target: id })}>actor and reason</Link>,
          <Id id={id} />,
        ]}
      />
      {problem && <ProblemNote problem={problem} />}
      <Failure letter={letter} />
      {mayAct && (
        <p class="acts">
          <button type="button" class="main" disabled={!draft.canBeSent} onClick={replay}>
            Replay {draft.isChanged ? "corrected" : "unchanged"} …
          </button>
          <Button press={() => ask(Skip, letter)}>Skip …</Button>
          {!letter.escalation && <Button press={() => ask(Escalate, letter)}>Escalate …</Button>}
        </p>
      )}
      {line}
      <Workbench letter={letter} draft={draft} reveal={reveal} send={mayAct && draft.canBeSent ? replay : undefined} />
    </>
  );
}

function Failure({ letter }: { letter: Detail }) {
  const { reason, error, step, upstream_status: upstream, attempts, escalation, repair } = letter;
  const { first_attempt_at: first, last_attempt_at: last } = letter;
  return (
    <section class="cause" data-tone="red" aria-label="Error">
      <p>
        <Text of={step} after=": " />
        <bdi>{error ?? reason.replaceAll("_", " ")}</bdi>
      </p>
      <Facts
        of={[
          <Code code={reason} />,
          upstream !== null && `the upstream answered ${upstream}`,
          `${attempts} ${attempts === 1 ? "attempt" : "attempts"}`,
          <Ago label={first ? "first" : "sent"} at={first ?? letter.first_at} />,
          <Ago label="last" at={last ?? letter.captured_at} />,
        ]}
      />
      {escalation && (
        <p class="beside">
          <Status word="escalated" tone="violet" /> <Ago at={escalation.at} /> by <bdi>{escalation.by}</bdi>: <bdi>{escalation.note}</bdi>
        </p>
      )}
      {repair && (
        <p class="beside">
          The repair {repair.name} {repair.outcome === "sent" ? "sent it again" : `ran: ${repair.outcome}`} <Ago at={repair.at} />
          <Text before=": " of={repair.error} />
          {repair.changed.length > 0 && ` (changed ${repair.changed.join(", ")})`}
        </p>
      )}
    </section>
  );
}

type Replayed = Extract<Answer<"/v1/dead-letters/:id/replay", "$post">, { sent: boolean }>;

function Replay({ letter: { id, replay }, body, ...asker }: Asker & { letter: Detail } & Pick<ReturnType<typeof useDraft>, "body">) {
  return (
    <Act<ReplayPlan, Replayed>
      {...asker}
      title={body === undefined ? "Replay unchanged" : "Replay the corrected message"}
      verb="Replay"
      at="/v1/dead-letters/:id/replay"
      param={{ id }}
      body={{ body }}
      dryRun
      refusal={({ outcome, why }) => (outcome === "refused" || outcome === "settled" ? why : null)}
      show={(plan) => <PlanOfReplay plan={plan} came={replay} />}
      said={({ sent, why, instance_id: instance }) => {
        const link = instance && <Link to={hrefOf("instances", instance)}>Open the instance</Link>;
        return [sent ? "Replayed: the message is on its queue again." : why, " ", link];
      }}
    />
  );
}

/** The parts that the dialogs to skip and to escalate share: both read the dead letter first, because they have no dry run. */
const ofLetter = ({ id, told, close }: Asker & { id: string }) => ({
  ...{ told, close, param: { id } },
  dryRun: () => get("/v1/dead-letters/:id", { param: { id } }),
});
const settled = ({ state }: Detail) => (state === "open" ? null : `It is already ${state}.`);

function Skip(letter: Asker & { id: string }) {
  return (
    <Act
      {...ofLetter(letter)}
      title="Skip this dead letter"
      verb="Skip permanently"
      final="A skipped dead letter cannot be replayed."
      at="/v1/dead-letters/:id/skip"
      refusal={settled}
      show="The message is discarded: it is not sent again and starts nothing. The dead letter and your reason remain on record."
      said={({ skipped }: Answer<"/v1/dead-letters/:id/skip", "$post">) =>
        skipped ? "Skipped." : "Another operator settled it first. No change was made."
      }
    />
  );
}

function Escalate(letter: Asker & { id: string }) {
  return (
    <Act
      {...ofLetter(letter)}
      title="Escalate this dead letter"
      verb="Escalate"
      ask="Note for others (sent to the alert channels and kept in the audit)"
      at="/v1/dead-letters/:id/escalate"
      refusal={(read: Detail) => settled(read) ?? (read.escalation ? `${read.escalation.by} has already escalated it.` : null)}
      show="Your note and your name are sent to the alert channels once. The channels are notified again when the dead letter is settled. It remains open."
      said={({ escalated }: Answer<"/v1/dead-letters/:id/escalate", "$post">) =>
        escalated ? "Escalated." : "Another operator was faster. No change was made."
      }
    />
  );
}
