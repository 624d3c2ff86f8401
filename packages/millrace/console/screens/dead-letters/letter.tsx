import { useEffect, useState } from "preact/hooks";
import { get } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { useKeys } from "../../frame/keys.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Button, Code, Facts, Lost, ProblemNote } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, copied, Id, Text } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import { type Done, Escalate, Replay, Skip } from "./acts.tsx";
import { isAboutLetters, nameOf } from "./columns.tsx";
import "./dead-letters.css";
import { type Detail, useDraft } from "./draft.ts";
import { Workbench } from "./workbench.tsx";

export function DeadLetter({ param: id }: ScreenProps) {
  const [reveal, setReveal] = useState(false);
  const { data, problem, again } = useData(
    () => get("/v1/dead-letters/:id", { param: { id }, query: reveal ? { reveal: "true" } : {} }),
    [id],
    (event) => isAboutLetters(event) && (event.kind === "skipped" || event.data.target === id || event.data.id === id),
  );
  // When redacted values are revealed, only these values are reloaded. All other content of the page remains unchanged.
  useEffect(() => void (reveal && again()), [reveal]);
  if (data) return <Known letter={data} problem={problem} again={again} reveal={reveal ? undefined : () => setReveal(true)} />;
  return <Lost title="Dead letter" problem={problem} all={["dead-letters", "All dead letters"]} />;
}

interface KnownProps {
  letter: Detail;
  problem: Parameters<typeof ProblemNote>[0]["problem"] | undefined;
  again: () => void;
  reveal: (() => void) | undefined;
}

function Known({ letter, problem, again, reveal }: KnownProps) {
  const [act, ask] = useState<"replay" | "skip" | "escalate" | undefined>();
  const [done, say] = useState<Done | undefined>();
  const draft = useDraft(letter);
  const { id, message_type: type, state, cause } = letter;
  useKeys({ c: () => void copied(id).then((isCopied) => isCopied && say({ sentence: "Id copied." })) });
  const isOpen = state === "open";
  const mayAct = isOpen && may("operate");
  const props = {
    letter,
    close: () => ask(undefined),
    done: (what: Done) => {
      say(what);
      again();
    },
  };
  return (
    <>
      <h1>
        <bdi>{type ?? "A message without a type"}</bdi> <span class="quiet">·</span> <bdi>{nameOf(letter)}</bdi>
      </h1>
      <Facts
        of={[
          <Status word={state} />,
          [<Ago key="at" label="captured" at={letter.captured_at} />, ` from ${letter.queue}`],
          letter.correlation_id && [
            "job ",
            <Link key="job" to={hrefOf("jobs", letter.correlation_id)}>
              {letter.correlation_id}
            </Link>,
          ],
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
          <button type="button" class="main" disabled={!draft.canBeSent} onClick={() => ask("replay")}>
            Replay {draft.isChanged ? "corrected" : "unchanged"} …
          </button>
          <Button press={() => ask("skip")}>Skip …</Button>
          {!letter.escalation && <Button press={() => ask("escalate")}>Escalate …</Button>}
        </p>
      )}
      <p class="told" role="status">
        {done?.sentence} {done?.instance && <Link to={hrefOf("instances", done.instance)}>Open the instance</Link>}
      </p>
      <Workbench letter={letter} draft={draft} reveal={reveal} send={mayAct && draft.canBeSent ? () => ask("replay") : undefined} />
      {act === "replay" && <Replay {...props} body={draft.body} />}
      {act === "skip" && <Skip {...props} />}
      {act === "escalate" && <Escalate {...props} />}
    </>
  );
}

function Failure({ letter }: { letter: Detail }) {
  const { reason, error, step, upstream_status: upstream, attempts, escalation, repair } = letter;
  const first = letter.first_attempt_at;
  const last = letter.last_attempt_at;
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
