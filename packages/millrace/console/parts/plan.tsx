import { Status, type Tone } from "./status.tsx";

/** What a dry run of an action on an instance answers. */
export interface Plan {
  refused: string | null;
  /** What would follow, in a sentence, where the route says it. */
  follows?: string;
  /** What it keeps that a person has said, and what to do where that is wrong. */
  note?: string | null;
  from?: string | null;
  effects: { step: string; item: string; verdict: string }[];
}

/** What each verdict means, as the API's document says it. */
const VERDICTS: Readonly<Record<string, readonly [tone: Tone, means: string]>> = {
  kept: ["green", "it happened, and stands"],
  runs: ["blue", "it is done, or tried again"],
  caught: ["quiet", "it failed, its code went on without it, and is told so again"],
  skipped: ["quiet", "it is passed by, by your word"],
  held: ["grey", "its next attempt waits until the instance is resumed"],
  under_way: ["blue", "an attempt is under way: what came of it is recorded first"],
  undone: ["amber", "it is taken back, or was before"],
  stays: ["green", "it stays: its code has no way back"],
  asked: ["violet", "the upstream is asked first whether it happened"],
  repeated: ["violet", "it may have happened: it is done once more under its key, and then taken back"],
  nothing: ["quiet", "it did not happen"],
  in_doubt: ["orange", "a person has to say whether it happened"],
  unknown: ["orange", "it failed without a record, and may have happened"],
  needs_output: ["orange", "it happened, and its output has to be given"],
};

/** What a dry run says of each effect though the act is refused: what may stand, somebody has to know. */
export function RefusedPlan({ plan: { effects } }: { plan: Plan }) {
  if (effects.length === 0) return null;
  return (
    <>
      <p class="quiet">Effect by effect, were it not refused:</p>
      <EffectList effects={effects} />
    </>
  );
}

/** A dry run, effect by effect. */
export function EffectPlan({ plan: { follows, from, note, effects } }: { plan: Plan }) {
  return (
    <>
      {(follows || from) && <p>{follows ?? `It starts from ${from}.`}</p>}
      {note && <p>{note}</p>}
      {effects.length === 0 && <p class="quiet">No effect is recorded of it.</p>}
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
