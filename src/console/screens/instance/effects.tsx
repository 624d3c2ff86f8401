import { useState } from "preact/hooks";
import { may } from "../../data/session.ts";
import { AnswerDoubt } from "../../parts/answer.tsx";
import { Json } from "../../parts/json.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import type { Effect } from "./whole.ts";

const ANSWERS = { confirm: "It happened", reject: "It did not", retry: "Run it again" } as const;

/** What an instance did outside, as it is recorded; a doubt is answered here. */
export function Effects({ effects, told }: { effects: readonly Effect[]; told: (sentence: string) => void }) {
  const [asked, ask] = useState<{ name: string; step: string; verb: keyof typeof ANSWERS } | undefined>();
  if (effects.length === 0) return null;
  return (
    <section aria-label="Effects">
      <h2>Effects</h2>
      <ul class="things">
        {effects.map((effect) => {
          const { key, step, item, state, generation, error, updated_at: at, output, output_ref: ref, input } = effect;
          return (
            <li key={key}>
              <details open={state === "in_doubt"}>
                <summary>
                  <bdi>
                    {step}
                    {item && ` [${item}]`}
                  </bdi>
                  <Status word={effect.skipped ? "skipped" : state} />
                  <span class="quiet">
                    {effect.class}
                    {generation > 1 && `, generation ${generation}`} · <Ago at={at} />
                  </span>
                </summary>
                {error && <bdi class="said">{error.message}</bdi>}
                {input !== null && <Json label={`What ${step} sent`} value={input} />}
                {ref ? <p class="quiet">Its output is kept as {ref}.</p> : <Json label={`What ${step} answered`} value={output} />}
                {state === "in_doubt" && may("operate") && (
                  <p class="acts">
                    {(Object.keys(ANSWERS) as (keyof typeof ANSWERS)[]).map((verb) => (
                      <button key={verb} type="button" onClick={() => ask({ name: key, step, verb })}>
                        {ANSWERS[verb]}
                      </button>
                    ))}
                  </p>
                )}
              </details>
            </li>
          );
        })}
      </ul>
      {asked && <AnswerDoubt {...asked} done={(action) => told(`Answered, as action ${action}.`)} close={() => ask(undefined)} />}
    </section>
  );
}
