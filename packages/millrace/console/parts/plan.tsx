import { Status, type Tone } from "./status.tsx";
import { exact, onThePage } from "./text.tsx";

export interface Plan {
  refused: string | null;
  consequence?: string;
  /** A note about an output that an operator supplied and that the action keeps, and how to replace this output. */
  note?: string | null;
  from?: string | null;
  effects: { step: string; item: string; verdict: string }[];
  /** The number of instances in progress, for a pause or a resume of a workflow or a queue. */
  running?: number;
  waiting?: number;
}

/** The meaning of each verdict of a dry run, as in the API's document. */
const VERDICTS: Readonly<Record<string, readonly [tone: Tone, means: string]>> = {
  kept: ["green", "it happened and is kept"],
  runs: ["blue", "it runs, or runs again"],
  caught: ["quiet", "it failed and the code continued; the same error is thrown again"],
  skipped: ["quiet", "it is skipped, as you decided"],
  held: ["grey", "its next attempt starts when the instance is resumed"],
  under_way: ["blue", "an attempt is running; its outcome is recorded first"],
  undone: ["amber", "it is undone, or already was"],
  stays: ["green", "it remains: it has no undo handler"],
  asked: ["violet", "the upstream is asked first whether the effect happened"],
  repeated: ["violet", "it may have happened: it runs again under the same key, then it is undone"],
  nothing: ["quiet", "it did not happen"],
  in_doubt: ["orange", "an operator must decide whether it happened"],
  unknown: ["orange", "it failed without a recorded outcome and may have happened"],
  needs_output: ["orange", "it happened, and an operator must give its output"],
};

const ISO_TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;

/** Shows the plan of an action. If the API refuses the action, shows the effects that remain. */
export function EffectPlan({ plan: { refused, consequence, from, note, effects, running, waiting } }: { plan: Plan }) {
  return (
    <>
      {refused === null && (consequence || from) && <p>{consequence?.replaceAll(ISO_TIME, exact) ?? `It starts at ${from}.`}</p>}
      {note && <p>{onThePage(note)}</p>}
      {running !== undefined && (
        <p class="quiet">
          Among your tenant's newest instances: {running.toLocaleString()} in progress, {waiting?.toLocaleString()} not started.
        </p>
      )}
      {refused !== null && effects.length > 0 && <p class="quiet">If the action were not refused, each effect would be:</p>}
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
    </>
  );
}
