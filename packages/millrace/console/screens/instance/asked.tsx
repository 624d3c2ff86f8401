import { may } from "../../data/session.ts";
import { DoubtAnswers, type DoubtVerb, type Follows, TO_QUESTIONS } from "../../parts/answer.tsx";
import type { Doubt } from "../../parts/earlier-output.ts";
import { Json } from "../../parts/json.tsx";
import { Moment } from "../../parts/time.tsx";
import { labelOf } from "./step-names.ts";
import type { Effect, Question } from "./whole.ts";

interface QuestionProps {
  question: Question;
  answer: (verb: keyof typeof TO_QUESTIONS) => void;
}

export function OpenQuestion({ question: { question, step, details, otherwise, due_at: due }, answer }: QuestionProps) {
  return (
    <section class="cause" data-tone="violet" aria-label="Question">
      <p>
        Question: <strong>{<bdi>{question}</bdi>}</strong>
      </p>
      {details && <Json value={details} label="Details of the question" />}
      <p class="beside quiet">
        Step: <bdi>{step}</bdi>. Without an answer, it is {otherwise === "approve" ? "approved" : "rejected"} at <Moment at={due} />.
      </p>
      {may("operate") && (
        <p class="acts">
          {(["approve", "reject"] as const).map((verb) => (
            <button key={verb} type="button" class={verb === "approve" ? "main" : undefined} onClick={() => answer(verb)}>
              {TO_QUESTIONS[verb]}
            </button>
          ))}
        </p>
      )}
    </section>
  );
}

interface DoubtProps {
  step: string;
  why: string | null;
  since: string;
  follows: Follows;
  effect: Effect | undefined;
  answer: (doubt: Doubt, verb: DoubtVerb) => void;
}

/**
 * Shows an effect whose outcome is unknown or whose rows the database refused. Shows the effect's input, and the resolutions with their
 * consequences.
 */
export function OpenDoubt({ step, why, since, follows, effect, answer }: DoubtProps) {
  const isKnown = effect?.answered != null;
  return (
    <section class="cause" data-tone="orange" aria-label="Unknown outcome">
      <p>
        {isKnown ? "The effect" : "Unknown outcome: the effect"}{" "}
        <strong>
          <bdi>{effect ? labelOf(effect) : step}</bdi>
        </strong>{" "}
        {isKnown
          ? "happened, but the rows recorded with it were refused. Deploy code with valid rows, then decide:"
          : "may have happened. Check the upstream, then decide:"}
      </p>
      {effect && may("operate") && <DoubtAnswers follows={follows} answer={(verb) => answer(effect, verb)} />}
      <p class="beside quiet">
        In doubt since <Moment at={since} />
        {why && (
          <>
            : <bdi>{why}</bdi>
          </>
        )}
      </p>
      {effect && effect.input !== null && (
        <details class="beside">
          <summary>Input</summary>
          <Json value={effect.input} label={`Input of ${step}`} />
        </details>
      )}
    </section>
  );
}
