import { tableLines } from "../table.ts";
import { oneLine } from "../terminal.ts";
import type { RetryAnswer } from "./answers.ts";
import { stepName } from "./words.ts";

export type Plan = Extract<RetryAnswer, { effects: unknown }> & { readonly running?: number; readonly waiting?: number };

/** The meaning of each verdict of a dry run, in the words of the API's document. A test compares both texts. */
export const VERDICTS: Readonly<Record<Plan["effects"][number]["verdict"], string>> = {
  kept: "it happened and is kept",
  runs: "it runs, or runs again",
  caught: "it failed and the code continued; the same error is thrown again",
  skipped: "an operator skipped it",
  held: "its next attempt starts when the instance is resumed",
  under_way: "an attempt is running or its answer was lost; its outcome is recorded first",
  undone: "it is undone, or already was",
  stays: "it remains, because it has no undo handler",
  asked: "the upstream is asked first whether it happened",
  repeated: "it may have happened; it runs again under its key and is then undone",
  nothing: "it did not happen",
  in_doubt: "an operator must decide whether it happened",
  unknown: "it failed without a recorded outcome and may have happened",
  needs_output: "it happened, and an operator must give its output",
};

const COLUMNS = [{ title: "step" }, { title: "would be" }, { title: "" }];

export function planLines(plan: Plan): string[] {
  const { refused, follows, note, effects } = plan;
  const said = [...(refused === null ? [] : [`It would be refused now: ${refused}`, "If it were not refused:"]), follows, note];
  const rows = effects.map((effect) => [stepName(effect), effect.verdict, VERDICTS[effect.verdict] ?? ""]);
  const sentences = said.flatMap((sentence) => (sentence ? [oneLine(sentence)] : []));
  // The plan of a pause counts instances, and lists no effects.
  if (plan.running !== undefined) return [...sentences, `running ${plan.running}, waiting ${plan.waiting}`];
  return [...sentences, ...(rows.length === 0 ? ["No effect is recorded."] : tableLines(COLUMNS, rows).map((line) => `  ${line}`))];
}
