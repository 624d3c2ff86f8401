import { MillraceError } from "millrace";
import { instances } from "millrace/operate";
import { type BadAnswer, codeFor } from "../systems/content/bad-answer.ts";
import { paidAt } from "../systems/content/text-calls.ts";

/** A model's paid answer that could not be used. */
export interface BadCall {
  tenantId: string;
  contentId: string;
  attempt: number;
  bad: BadAnswer;
  problem: string;
}

/**
 * True if an operator has retried the instance since this answer was recorded. The function returns the same value in every replay and
 * restart. Errors: `answer_truncated`, `answer_refused`, `answer_empty` or `answer_malformed` while no operator has retried.
 */
export async function requireRetry(env: Cloudflare.Env, { tenantId, contentId, attempt, bad, problem }: BadCall): Promise<void> {
  const at = await paidAt(env.DB, tenantId, contentId, attempt);
  if (await instances.retriedSince(env, tenantId, contentId, at)) return;
  throw new MillraceError(
    codeFor(bad),
    `The model's answer ${attempt} could not be used. ${problem} ${ADVICE[bad]} A retry pays for one more answer.`,
    // A request with the same key would get the same paid answer from the provider.
    { terminal: true },
  );
}

const ADVICE: Record<BadAnswer, string> = {
  truncated: "A retry allows twice the tokens; if that is not enough, the prompt asks for too much.",
  refused: "Change the prompt or the model (TEXT_MODEL) first.",
  empty: "If it fails again, use another model (TEXT_MODEL).",
  malformed: "If it fails again, use another model (TEXT_MODEL), or check TEXT_JSON.",
};
