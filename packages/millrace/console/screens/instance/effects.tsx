import { Json } from "../../parts/json.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { type Effect, UNDO_STEP } from "./whole.ts";

const WORDS: Readonly<Record<string, string>> = { superseded: "undone, or run again" };

interface EffectsProps {
  effects: readonly Effect[];
  correct: ((effect: Effect) => void) | undefined;
}

const isGiven = ({ step, state, skipped }: Effect) =>
  !step.startsWith(UNDO_STEP) && (state === "confirmed" || (state === "done" && skipped));

export function Effects({ effects, correct }: EffectsProps) {
  if (effects.length === 0) return null;
  return (
    <section aria-label="Effects">
      <h2>Effects</h2>
      <ul class="things">
        {effects.map((effect) => {
          const { key, step, item, state, generation, error, updated_at: at, output, output_ref: ref, input } = effect;
          return (
            <li key={key}>
              <details>
                <summary>
                  <bdi>
                    {step}
                    {item && ` [${item}]`}
                  </bdi>
                  <Status word={effect.skipped ? "skipped" : (WORDS[state] ?? state)} />
                  <span class="quiet">
                    {effect.class}
                    {generation > 1 && `, run ${generation} times`} · <Ago at={at} />
                  </span>
                </summary>
                {error && <bdi class="said">{error.message}</bdi>}
                {input !== null && <Json label={`Input of ${step}`} value={input} />}
                {ref ? <p class="quiet">The output is stored as {ref}.</p> : <Json label={`Output of ${step}`} value={output} />}
                {correct && isGiven(effect) && (
                  <p class="acts">
                    <button type="button" onClick={() => correct(effect)}>
                      Replace the output
                    </button>
                  </p>
                )}
              </details>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
