import { tableLines } from "../table.ts";
import { oneLine, paint, say } from "../terminal.ts";
import type { CancelAnswer, RetryAnswer, UndoAnswer } from "./answers.ts";
import { sayJson, stepName } from "./words.ts";

/** What a dry run of any act on an instance answers. */
export type Plan = Extract<RetryAnswer | CancelAnswer | UndoAnswer, { effects: unknown }>;

/** What each verdict means, in the words of the API's document: a test holds them against it. */
export const VERDICTS: Readonly<Record<Plan["effects"][number]["verdict"], string>> = {
  kept: "it happened, and stands",
  runs: "it is done, or tried again",
  caught: "it failed, its code went on without it, and is told so again",
  skipped: "it is passed by, by a person's word",
  held: "its next attempt waits until the instance is resumed",
  under_way: "an attempt is under way, or its answer was lost: what came of it is recorded first",
  undone: "it is taken back, or was before",
  stays: "its code has no way to",
  asked: "the upstream is asked first whether it happened",
  repeated: "it may have happened: it is done once more under its key, and then taken back",
  nothing: "it did not happen",
  in_doubt: "a person has to say whether it did",
  unknown: "it failed without a record, and may have happened",
  needs_output: "it happened, and its output has to be given",
};

const COLUMNS = [{ title: "step" }, { title: "would be" }, { title: "" }];

/** Says a dry run. Answers the exit code: 1 where the act would be refused. */
export function sayPlan(plan: Plan, isJson: boolean): number {
  if (isJson) sayJson(plan);
  else for (const line of planLines(plan)) say(line);
  return plan.refused === null ? 0 : 1;
}

function planLines(plan: Plan): string[] {
  const { refused, effects } = plan;
  const said = [
    ...(refused === null ? [] : [`It would be refused now: ${refused}`, "If it were not refused:"]),
    "follows" in plan ? plan.follows : undefined,
    "note" in plan ? plan.note : undefined,
  ];
  const rows = effects.map((effect) => [stepName(effect), effect.verdict, VERDICTS[effect.verdict] ?? ""]);
  return [
    paint("dim", "A dry run: nothing is changed."),
    ...said.flatMap((sentence) => (sentence ? [oneLine(sentence)] : [])),
    ...(rows.length === 0 ? ["No effect is recorded of it."] : tableLines(COLUMNS, rows).map((line) => `  ${line}`)),
  ];
}
