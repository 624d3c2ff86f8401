import { get, type Item, type Result } from "../data/api.ts";
import { useData } from "../data/use-data.ts";
import { hrefOf, Link } from "../frame/router.tsx";
import { ActButtons, type Declared } from "./act.tsx";
import { Folded, Json } from "./json.tsx";
import { Button } from "./page.tsx";

export interface Question {
  id: string;
  question: string;
  details?: unknown;
}

export function answersOf({ id, question, details }: Question): Declared[] {
  const act = { about: question, param: { id }, more: () => details != null && <Json value={details} label="Details of the question" /> };
  return [
    { ...act, verb: "Approve", at: "/v1/approvals/:id/approve" },
    { ...act, verb: "Reject", at: "/v1/approvals/:id/reject" },
  ];
}

const TO_DOUBTS = { confirm: "It happened", reject: "It did not happen", retry: "Unknown: run it again" } as const;

type DoubtVerb = keyof typeof TO_DOUBTS;

/** The consequence of each resolution, as the API describes it. Null if the API would refuse the resolution. */
export type Follows = Readonly<Record<DoubtVerb, string | null>>;

/** The label of a resolution. Where the API would refuse `reject`, the effect happened, so that a retry repeats it. */
function wordOf(verb: DoubtVerb, consequences: Follows): string {
  return verb === "retry" && consequences.reject === null ? "Run it again" : TO_DOUBTS[verb];
}

export function DoubtAnswers({ doubt, consequences }: { doubt: Doubt; consequences: Follows }) {
  return (
    <ul class="answers">
      {(Object.keys(TO_DOUBTS) as DoubtVerb[])
        .filter((verb) => consequences[verb] !== null)
        .map((verb) => (
          <li key={verb}>
            <ActButtons of={[resolutionOf(doubt, verb, wordOf(verb, consequences), consequences[verb] ?? "")]} />
            <span>{consequences[verb]}</span>
          </li>
        ))}
    </ul>
  );
}

export const replacementOf = (doubt: Doubt) =>
  resolutionOf(
    doubt,
    "confirm",
    "Replace the output",
    "This output replaces the recorded one, and a retry continues with it. It sends nothing. If the step cannot use the output, its outcome is unknown again (in doubt).",
  );

function resolutionOf(doubt: Doubt, verb: DoubtVerb, word: string, consequences: string): Declared {
  const { key, step, item, input, answered } = doubt;
  // An output with redacted values cannot be used.
  const isKnown = answered?.output_ref === null && !JSON.stringify(answered.output).includes("[redacted]");
  const isAsked = verb === "confirm";
  return {
    verb: word,
    about: item ? `${step} [${item}]` : step,
    at: `/v1/effects/:key/${verb}`,
    param: { key },
    fill: isAsked ? { output: isKnown ? answered.output : undefined } : {},
    more: (set) => (
      <>
        <p>{consequences}</p>
        {input !== null && <Folded open title="Input" value={input} label={`Input of ${step}`} />}
        {isAsked && !isKnown && <Example doubt={doubt} take={(output) => set({ output })} />}
      </>
    ),
  };
}

function Example({ doubt, take }: { doubt: Doubt; take: (output: unknown) => void }) {
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
        <Button press={() => take(output)}>Use this output</Button>
      </p>
    </div>
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
