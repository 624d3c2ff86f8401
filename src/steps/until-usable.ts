import type { Draft, Statement, Steps } from "millrace";
import type { ArticleAsk } from "../systems/content/article-request.ts";
import { mayAskAgain, nextAsk } from "../systems/content/next-ask.ts";
import type { SynthesisAsk } from "../systems/content/synthesis.ts";
import { insertTextCall, type Paid } from "../systems/content/text-calls.ts";
import type { Unusable } from "../systems/content/usable.ts";
import { onceAffordable } from "./await-room.ts";
import { chargesOf, type Refused, type Spent } from "./ceiling.ts";
import { requireRetry } from "./require-retry.ts";

/** A model's paid answer, with a usable result or the reason why the answer is unusable. */
export type Answered<Good> = ({ good: Good } | Unusable) & { paid: Paid; spent: Spent };

/** A call of a model, with the data that the call needs. */
export interface Asking<Ask> {
  ask: Ask;
  /** The number of this call among the instance's calls of the model, from 1. */
  attempt: number;
  /** The idempotency key of the call's step. */
  key: string;
  isLast: boolean;
  /** The model's unusable answers that were paid before this call. */
  before: readonly Paid[];
}

/**
 * Calls a model until the model's answer is usable. After an unusable answer the model is called once more if a second call may help. After
 * a second unusable answer the instance fails, and an operator can retry the instance. Each retry pays for one more answer, with the newest
 * prompt.
 */
export async function untilUsable<Ask extends ArticleAsk | SynthesisAsk, Good>(
  step: Steps,
  env: Cloudflare.Env,
  of: { tenantId: string; contentId: string },
  first: Ask,
  newest: string,
  call: (asking: Asking<Ask>) => Promise<Answered<Good> | Refused>,
): Promise<Good> {
  let ask = first;
  const before: Paid[] = [];
  for (let attempt = 1; ; attempt++) {
    const nth = attempt === 1 ? "" : String(attempt);
    const answered = await onceAffordable(step, nth, (key, isLast) => call({ ask, attempt, key, isLast, before }));
    if ("good" in answered) return answered.good;

    before.push(answered.paid);
    const { bad, problem } = answered;
    let prompt = ask.prompt;
    if (!mayAskAgain(attempt, bad)) {
      // The prompt is read in a separate step. A retry continues here, so the retry uses a prompt that was fixed in the meantime.
      prompt = await step.read(
        "ask again",
        async () => {
          await requireRetry(env, { ...of, attempt, bad, problem });
          return newest;
        },
        { key: String(attempt) },
      );
    }
    ask = nextAsk(ask, answered, prompt);
  }
}

/** The rows and messages that are written with a usable answer. */
interface Recorded {
  statements: Statement[];
  emit: Draft[];
}

/**
 * Records a paid answer with its cost. A usable answer is recorded together with its rows and messages, which are computed from all paid
 * answers.
 */
export function recordAnswer<Good>(
  answered: Answered<Good> | Refused,
  by: { tenantId: string; contentId: string; brand: string },
  { ask: { prompt, maxTokens }, attempt, before }: Asking<ArticleAsk | SynthesisAsk>,
  record: (good: Good, paid: readonly Paid[]) => Recorded,
): Partial<Recorded> {
  if ("refused" in answered) return {};
  const { paid, spent } = answered;
  const outcome = "bad" in answered ? answered.bad : "written";
  const call = insertTextCall({ ...by, attempt, prompt, maxTokens, paid, outcome });
  const charges = chargesOf(spent, `${by.contentId}/text/${attempt}`);
  if ("bad" in answered) return { statements: [call], emit: charges };
  const { statements, emit } = record(answered.good, [...before, paid]);
  return { statements: [call, ...statements], emit: [...emit, ...charges] };
}
