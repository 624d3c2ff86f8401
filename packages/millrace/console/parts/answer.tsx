import { useState } from "preact/hooks";
import { post } from "../data/api.ts";
import { useData } from "../data/use-data.ts";
import { writtenJson } from "../data/written.ts";
import { hrefOf, Link } from "../frame/router.tsx";
import { Act } from "./act.tsx";
import { type Doubt, earlierOutput } from "./earlier-output.ts";
import { Json } from "./json.tsx";
import { Moment } from "./time.tsx";

type Done = { action_id: string };

interface AnswerProps {
  done: (action: string) => void;
  close: () => void;
}

/** A question of an instance, as far as a dialog says it. */
export interface Question {
  id: string;
  question: string;
  details?: unknown;
  otherwise?: "approve" | "reject";
  due_at?: string;
}

/** The one pair of words for a question's two answers. */
export const TO_QUESTIONS = { approve: "Approve", reject: "Reject" } as const;

/** Answers a question of an instance with yes or no. */
export function AnswerQuestion({ verb, done, close, ...asked }: AnswerProps & Question & { verb: keyof typeof TO_QUESTIONS }) {
  const { id, question, details, otherwise, due_at: due } = asked;
  return (
    <Act<undefined, Done>
      title={`${TO_QUESTIONS[verb]}?`}
      verb={TO_QUESTIONS[verb]}
      show={() => (
        <>
          <p>
            <strong>
              <bdi>{question}</bdi>
            </strong>
          </p>
          {details != null && <Json value={details} label="What to look at before answering" />}
          <p>The instance goes on {verb === "approve" ? "with it" : "without it"}. Each question is answered once.</p>
          {otherwise && due && (
            <p class="quiet">
              Without an answer it is {otherwise === "approve" ? "approved" : "rejected"} at <Moment at={due} />.
            </p>
          )}
        </>
      )}
      act={(reason) => post(`/v1/approvals/:id/${verb}`, { param: { id }, body: { reason } })}
      done={({ action_id }) => done(action_id)}
      close={close}
    />
  );
}

/** What can be said of an effect in doubt. */
const TO_DOUBTS = { confirm: "It happened", reject: "It did not happen", retry: "Nobody can tell: run it again" } as const;

export type DoubtVerb = keyof typeof TO_DOUBTS;

/** What follows from each answer to a doubt, as the API says it; null for one that it would refuse. */
export type Follows = Readonly<Record<DoubtVerb, string | null>>;

/** A doubt that nobody denies is known to have happened: done again, it is done a second time. */
function wordOf(verb: DoubtVerb, follows: Follows): string {
  return verb === "retry" && follows.reject === null ? "Run it a second time" : TO_DOUBTS[verb];
}

/** A button for each answer that is taken, with what follows from it. */
export function DoubtAnswers({ follows, answer }: { follows: Follows; answer: (verb: DoubtVerb) => void }) {
  return (
    <ul class="answers">
      {(Object.keys(TO_DOUBTS) as DoubtVerb[])
        .filter((verb) => follows[verb] !== null)
        .map((verb) => (
          <li key={verb}>
            <button type="button" onClick={() => answer(verb)}>
              {wordOf(verb, follows)}
            </button>
            <span>{follows[verb]}</span>
          </li>
        ))}
    </ul>
  );
}

/** An answer to a doubt that somebody has begun to give; without what follows it is another output for a step that has one. */
export interface AskedOfDoubt {
  doubt: Doubt;
  verb: DoubtVerb;
  follows?: Follows;
}

/** Another output for a step that a person has spoken of before: its instance failed of that. */
const ANOTHER = [
  "Give another output",
  "The step's output is this one from now on; a retry goes on with it. Nothing is sent. An output that the step cannot use brings it in doubt.",
] as const;

/** Says of an effect in doubt whether it happened; what is known that it answered is there to begin with. */
export function AnswerDoubt({ doubt, verb, follows, done, close }: AskedOfDoubt & { done: (followed: string) => void; close: () => void }) {
  const { key, step, item, input, answered } = doubt;
  const known = answered?.output_ref === null ? JSON.stringify(answered.output, null, 2) : "";
  // What is withheld from the reader is no output.
  const isKnown = known !== "" && !known.includes("[redacted]");
  const [text, setText] = useState(isKnown ? known : "");
  const output = writtenJson(text.trim() === "" ? "null" : text);
  const [word, following] = follows ? [wordOf(verb, follows), follows[verb] ?? ""] : ANOTHER;
  return (
    <Act<undefined, Done>
      title={`${step}${item && ` [${item}]`}: ${word.toLowerCase()}`}
      verb={word}
      final={
        verb === "retry" ? `${answered ? "It did happen: it" : "If it did happen, it"} happens twice, and nothing takes that back.` : null
      }
      isReady={verb !== "confirm" || output.wrong === undefined}
      missing="What it answered is no JSON yet."
      show={() => <p>{following}</p>}
      act={(reason) => post(`/v1/effects/:key/${verb}`, { param: { key }, body: { reason, ...(verb === "confirm" && { output }) } })}
      done={() => done(following)}
      close={close}
    >
      {input !== null && (
        <details open>
          <summary>What it sent</summary>
          <Json value={input} label={`What ${step} sent`} />
        </details>
      )}
      {verb === "confirm" && (
        <>
          <JsonField
            label={isKnown ? "What it answered, as is known (JSON)" : "What did it answer? (JSON; leave empty if it answers nothing)"}
            text={text}
            change={setText}
            mayBeEmpty
          />
          {!isKnown && <Example doubt={doubt} take={setText} />}
        </>
      )}
    </Act>
  );
}

/** What the step answered where it is known to have happened: nobody can guess what its code expects. */
function Example({ doubt, take }: { doubt: Doubt; take: (text: string) => void }) {
  const { data } = useData(
    () => earlierOutput(doubt),
    [doubt.key],
    () => false,
  );
  if (!data) return null;
  const { output, instance } = data;
  if (instance === undefined)
    return <p class="quiet">No other run of this step is on record that would show what it answers: look at the step's code.</p>;
  return (
    <div class="field">
      <span>
        What it answered{" "}
        {instance === doubt.instance_id ? "here before" : <Link to={hrefOf("instances", instance)}>in another instance</Link>}
      </span>
      <Json value={output} label={`What ${doubt.step} answered before`} />
      <p class="acts">
        <button type="button" onClick={() => take(JSON.stringify(output, null, 2))}>
          Begin with this
        </button>
      </p>
    </div>
  );
}

/** A field of JSON, which says at once where it is none. */
export function JsonField({
  label,
  text,
  change,
  mayBeEmpty = false,
}: {
  label: string;
  text: string;
  change: (text: string) => void;
  mayBeEmpty?: boolean;
}) {
  const { wrong } = writtenJson(text);
  return (
    <label class="field">
      {label}
      <textarea class="code" value={text} spellcheck={false} onInput={(event) => change(event.currentTarget.value)} />
      {wrong && !(mayBeEmpty && text.trim() === "") && <span class="wrong">{wrong}</span>}
    </label>
  );
}
