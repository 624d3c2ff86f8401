import { useState } from "preact/hooks";
import { get, type Item, type Result } from "../data/api.ts";
import { useData } from "../data/use-data.ts";
import { writtenJson } from "../data/written.ts";
import { hrefOf, Link } from "../frame/router.tsx";
import { Act } from "./act.tsx";
import type { Asker } from "./dialog.tsx";
import { Folded, Json } from "./json.tsx";
import { Button } from "./page.tsx";
import { Moment, Name } from "./text.tsx";

export interface Question {
  id: string;
  question: string;
  details?: unknown;
  otherwise?: "approve" | "reject";
  due_at?: string;
}

export const TO_QUESTIONS = { approve: "Approve", reject: "Reject" } as const;

interface QuestionButtonsProps {
  answer: (verb: keyof typeof TO_QUESTIONS) => void;
  /** True for a list of several kinds of items, in which no button is highlighted. */
  isPlain?: boolean;
}

export function QuestionButtons({ answer, isPlain = false }: QuestionButtonsProps) {
  return (
    <>
      {(["approve", "reject"] as const).map((verb) => (
        <Button key={verb} class={verb === "approve" && !isPlain ? "main" : undefined} press={() => answer(verb)}>
          {TO_QUESTIONS[verb]}
        </Button>
      ))}
    </>
  );
}

export function AnswerQuestion({ verb, told, close, ...asked }: Asker & Question & { verb: keyof typeof TO_QUESTIONS }) {
  const { id, question, details, otherwise, due_at: due } = asked;
  return (
    <Act
      {...{ told, close }}
      title={`${TO_QUESTIONS[verb]}?`}
      verb={TO_QUESTIONS[verb]}
      show={() => (
        <>
          <p>{<Name of={question} />}</p>
          {details != null && <Json value={details} label="Details of the question" />}
          <p>The instance continues as {verb === "approve" ? "approved" : "rejected"}. A question is answered only once.</p>
          {otherwise && due && (
            <p class="quiet">
              Without an answer, it is {otherwise === "approve" ? "approved" : "rejected"} at <Moment at={due} />.
            </p>
          )}
        </>
      )}
      at={`/v1/approvals/:id/${verb}`}
      param={{ id }}
      said="Answered. The instance continues."
    />
  );
}

const TO_DOUBTS = { confirm: "It happened", reject: "It did not happen", retry: "Unknown: run it again" } as const;

export type DoubtVerb = keyof typeof TO_DOUBTS;

/** The consequence of each resolution, as the API describes it. Null if the API would refuse the resolution. */
export type Follows = Readonly<Record<DoubtVerb, string | null>>;

/**
 * The label of a resolution. If the API would refuse `reject`, the effect certainly happened, so that a retry would execute the effect
 * again.
 */
function wordOf(verb: DoubtVerb, follows: Follows): string {
  return verb === "retry" && follows.reject === null ? "Run it again" : TO_DOUBTS[verb];
}

export function DoubtAnswers({ follows, answer }: { follows: Follows; answer: (verb: DoubtVerb) => void }) {
  return (
    <ul class="answers">
      {(Object.keys(TO_DOUBTS) as DoubtVerb[])
        .filter((verb) => follows[verb] !== null)
        .map((verb) => (
          <li key={verb}>
            <Button press={() => answer(verb)}>{wordOf(verb, follows)}</Button>
            <span>{follows[verb]}</span>
          </li>
        ))}
    </ul>
  );
}

/** A resolution. Without `follows`, the resolution replaces the recorded output of an effect. */
interface AskedOfDoubt extends Asker {
  doubt: Doubt;
  verb: DoubtVerb;
  follows?: Follows;
}

const ANOTHER = [
  "Replace the output",
  "This output replaces the recorded one, and a retry continues with it. It sends nothing. If the step cannot use the output, its outcome is unknown again (in doubt).",
] as const;

export function AnswerDoubt({ doubt, verb, follows, ...asker }: AskedOfDoubt) {
  const { key, step, item, input, answered } = doubt;
  const known = answered?.output_ref === null ? JSON.stringify(answered.output, null, 2) : "";
  // An output with redacted values cannot be used.
  const isKnown = known !== "" && !known.includes("[redacted]");
  const [text, setText] = useState(isKnown ? known : "");
  const output = writtenJson(text.trim() === "" ? "null" : text);
  const [word, following] = follows ? [wordOf(verb, follows), follows[verb] ?? ""] : ANOTHER;
  return (
    <Act
      {...asker}
      title={`${step}${item && ` [${item}]`}: ${word.toLowerCase()}`}
      verb={word}
      final={
        verb === "retry"
          ? `${answered ? "The effect happened: it" : "If the effect happened, it"} happens twice. This cannot be undone.`
          : null
      }
      missing={verb === "confirm" && output.wrong !== undefined && "The output is not valid JSON."}
      show={following}
      at={`/v1/effects/:key/${verb}`}
      param={{ key }}
      body={verb === "confirm" ? { output } : {}}
      said={`Answered. ${following}`}
    >
      {input !== null && <Folded open title="Input" value={input} label={`Input of ${step}`} />}
      {verb === "confirm" && (
        <>
          <JsonField
            label={isKnown ? "Recorded output (JSON)" : "Output of the step (JSON; leave empty if it has none)"}
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

function Example({ doubt, take }: { doubt: Doubt; take: (text: string) => void }) {
  const { data } = useData(() => earlierOutput(doubt), [doubt.key]);
  if (!data) return null;
  const { output, instance } = data;
  if (instance === undefined)
    return <p class="quiet">No other run of this step is recorded. The step's code shows the shape of its output.</p>;
  return (
    <div class="field">
      <span>
        Earlier output{" "}
        {instance === doubt.instance_id ? "of this instance" : <Link to={hrefOf("instances", instance)}>of another instance</Link>}
      </span>
      <Json value={output} label={`Earlier output of ${doubt.step}`} />
      <p class="acts">
        <Button press={() => take(JSON.stringify(output, null, 2))}>Use this output</Button>
      </p>
    </div>
  );
}

interface JsonFieldProps {
  label: string;
  text: string;
  change: (text: string) => void;
  mayBeEmpty?: boolean;
}

export function JsonField({ label, text, change, mayBeEmpty = false }: JsonFieldProps) {
  const { wrong } = writtenJson(text);
  return (
    <label class="field">
      {label}
      <textarea class="code" value={text} spellcheck={false} onInput={(event) => change(event.currentTarget.value)} />
      {wrong && !(mayBeEmpty && text.trim() === "") && <span class="wrong">{wrong}</span>}
    </label>
  );
}

type Doubt = Pick<Item<"/v1/effects">, "key" | "instance_id" | "workflow" | "step" | "item" | "input" | "answered">;

const LOOKED_AT = "3";

/** Finds a recorded output of an effect's step: in the same instance, or otherwise in an instance that completed recently. */
async function earlierOutput({ key, instance_id, step, workflow }: Doubt): Promise<Result<{ output?: unknown; instance?: string }>> {
  const others = await get("/v1/instances", { query: { workflow, status: "complete", limit: LOOKED_AT } });
  if (!others.ok) return others;
  for (const instance of [instance_id, ...others.data.items.map(({ id }) => id)]) {
    const effects = await get("/v1/instances/:id/effects", { param: { id: instance } });
    const found = (effects.ok ? effects.data.items : []).findLast(
      (effect) => effect.step === step && effect.key !== key && effect.state === "done" && !effect.skipped && effect.output_ref === null,
    );
    if (found) return { ok: true, data: { output: found.output, instance } };
  }
  return { ok: true, data: {} };
}
