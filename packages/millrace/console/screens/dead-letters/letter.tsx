import { useEffect, useState } from "preact/hooks";
import { type Answer, get } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Acts, Asking, useActs } from "../../parts/act.tsx";
import { Json, Reveal } from "../../parts/json.tsx";
import { Code, Facts, Issues, LinkTo, Lost, Pairs, ProblemNote, Section } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Id, Quiet, Text } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import { nameOf } from "./dead-letters.tsx";

type Detail = Answer<"/v1/dead-letters/:id">;
type ReplayPlan = Detail["replay"];

export function DeadLetter({ param: id }: ScreenProps) {
  const [reveal, setReveal] = useState(false);
  const {
    data: letter,
    problem,
    again,
  } = useData(
    () => get("/v1/dead-letters/:id", { param: { id }, query: reveal ? { reveal: "true" } : {} }),
    [id],
    ({ kind, data: { target, id: of } }) => kind === "skipped" || target === id || of === id,
  );
  // When redacted values are revealed, only these values are reloaded. All other content of the page remains unchanged.
  useEffect(() => void (reveal && again()), [reveal]);
  const { ask, line } = useActs(again, { id });
  if (!letter) return <Lost title="Dead letter" problem={problem} all={["dead-letters", "All dead letters"]} />;
  const { message_type: type, state, cause, correlation_id: job } = letter;
  const isOpen = state === "open";
  const which = { about: nameOf(letter), param: { id } };
  const isValid = letter.replay.refused === null;
  const replay = {
    ...({ ...which, at: "/v1/dead-letters/:id/replay" } as const),
    refusal: ({ outcome, why }: ReplayPlan) => (outcome === "refused" || outcome === "settled" ? why : null),
    // The dialog shows the reason of a refusal itself.
    show: (plan: ReplayPlan) => <PlanOfReplay plan={plan.refused ? { ...plan, why: "" } : plan} came={letter.replay} />,
    says: ({ sent, why }: { sent: boolean; why: string }) => (sent ? undefined : why),
  };
  return (
    <Asking.Provider value={ask}>
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
      {isOpen && (
        <Acts
          of={[
            { ...replay, verb: "Replay", class: isValid ? "main" : undefined, given: { body: undefined } },
            { ...replay, verb: "Correct and replay", class: isValid ? undefined : "main", fill: { body: letter.body } },
            { ...which, verb: "Skip", at: "/v1/dead-letters/:id/skip" },
            !letter.escalation && { ...which, verb: "Escalate", at: "/v1/dead-letters/:id/escalate" },
          ]}
        />
      )}
      {line}
      <div class="letters-bench">
        <section aria-label="Message">
          <h2>Message</h2>
          <Json value={letter.body} label="Message, as JSON" />
          {reveal ? (
            <p class="quiet">All fields are shown. The audit records that you saw them.</p>
          ) : (
            <Reveal of={letter.body} press={() => setReveal(true)} note=" A replay keeps the stored values." />
          )}
        </section>
        {isOpen && (
          <Section title="Preview of a replay">
            <PlanOfReplay plan={letter.replay} came={letter.replay} />
          </Section>
        )}
      </div>
    </Asking.Provider>
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

function PlanOfReplay({ plan, came }: { plan: ReplayPlan; came: ReplayPlan }) {
  const { outcome, why, refused, queue, identity, instance } = plan;
  const isOtherWork = identity !== null && came.identity !== null && identity.fingerprint !== came.identity.fingerprint;
  return (
    <>
      <p>
        <Status word={outcome} /> <bdi>{why}</bdi>
      </p>
      {refused?.issues && <Issues of={refused.issues} />}
      {refused && (
        <p class="quiet">
          <Code code={refused.code} />
        </p>
      )}
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
