import { Status, type Tone } from "./status.tsx";

export interface Plan {
  refused: string | null;
  follows?: string;
  /** The operator-supplied output that the action keeps, and how to replace it. */
  note?: string | null;
  from?: string | null;
  effects: { step: string; item: string; verdict: string }[];
}

/** The meaning of each verdict of a dry run, as in the API's document. */
const VERDICTS: Readonly<Record<string, readonly [tone: Tone, means: string]>> = {
  kept: ["green", "the effect happened and is kept"],
  runs: ["blue", "the step runs, or runs again"],
  caught: ["quiet", "the step failed and the code continued; the same error is thrown again"],
  skipped: ["quiet", "the step is skipped, as you decided"],
  held: ["grey", "the step's next attempt starts when the instance is resumed"],
  under_way: ["blue", "an attempt is running; its outcome is recorded first"],
  undone: ["amber", "the effect is undone, or already was"],
  stays: ["green", "the effect remains, because it has no undo handler"],
  asked: ["violet", "the upstream is asked first whether the effect happened"],
  repeated: ["violet", "the effect may have happened: it runs again under the same key and is then undone"],
  nothing: ["quiet", "the effect did not happen"],
  in_doubt: ["orange", "an operator must decide whether the effect happened"],
  unknown: ["orange", "the step failed without a recorded outcome, and its effect may have happened"],
  needs_output: ["orange", "the effect happened, and an operator must give its output"],
};

/** Shows the effects of a refused action, because they remain. */
export function RefusedPlan({ plan: { effects } }: { plan: Plan }) {
  if (effects.length === 0) return null;
  return (
    <>
      <p class="quiet">If the action were not refused, each effect would be:</p>
      <EffectList effects={effects} />
    </>
  );
}

export function EffectPlan({ plan: { follows, from, note, effects } }: { plan: Plan }) {
  return (
    <>
      {(follows || from) && <p>{follows ?? `It starts at ${from}.`}</p>}
      {note && <p>{note}</p>}
      {effects.length === 0 && <p class="quiet">No effect is recorded.</p>}
      <EffectList effects={effects} />
    </>
  );
}

function EffectList({ effects }: Pick<Plan, "effects">) {
  return (
    <ul class="effects">
      {effects.map(({ step, item, verdict }) => {
        const [tone, means] = VERDICTS[verdict] ?? ["quiet", ""];
        return (
          <li key={`${step} ${item}`}>
            <span class="cut">
              {step}
              {item && ` [${item}]`}
            </span>
            <Status word={verdict} tone={tone} />
            <span class="quiet">{means}</span>
          </li>
        );
      })}
    </ul>
  );
}
