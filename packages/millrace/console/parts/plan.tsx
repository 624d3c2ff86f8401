import { PLAN_VERDICTS, type PlanVerdict } from "../../src/contract/plan-verdicts.ts";
import { Status, type Tone } from "./status.tsx";
import { exact, onThePage } from "./text.tsx";

export interface Plan {
  refused: string | null;
  consequence?: string;
  /** A note about an output that an operator supplied and that the action keeps, and how to replace this output. */
  note?: string | null;
  from?: string | null;
  effects: { step: string; item: string; verdict: PlanVerdict }[];
  /** The number of instances in progress, for a pause or a resume of a workflow or a queue. */
  running?: number;
  waiting?: number;
}

const TONES: Partial<Record<PlanVerdict, Tone>> = {
  ...{ kept: "green", stays: "green", runs: "blue", under_way: "blue", undone: "amber", asked: "violet", repeated: "violet", held: "grey" },
  ...{ in_doubt: "orange", unknown: "orange", needs_output: "orange" },
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
        {effects.map(({ step, item, verdict }) => (
          <li key={`${step} ${item}`}>
            <span class="cut">
              {step}
              {item && ` [${item}]`}
            </span>
            <Status word={verdict} tone={TONES[verdict] ?? "quiet"} />
            <span class="quiet">{PLAN_VERDICTS[verdict]}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
