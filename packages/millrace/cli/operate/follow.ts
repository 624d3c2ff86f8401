import { oneLine } from "../terminal.ts";
import type { Instance, InstanceDetail } from "./answers.ts";
import { heardOf, type StreamEvent } from "./events.ts";
import { nextLines, standing } from "./instance-words.ts";
import { type StepEvent, StepTeller } from "./step-words.ts";
import { callOf } from "./usage.ts";
import type { Asked } from "./verb.ts";
import { pathOf } from "./which.ts";
import { sayJson, shownJson, tell } from "./words.ts";

/** Exit code: the run ended without success, or waits for an operator. */
export const NOT_COME_TO_IT = 3;

export const WAIT = {
  wait: { says: "print its steps until it ends or needs an operator; exit code 3 if it failed" },
};

/** What an instance tells until it is over, in the pieces in which it comes. Errors: as `heardOf`. */
export async function* toldOf({ api, stop }: Pick<Asked, "api" | "stop">, id: string): AsyncGenerator<StreamEvent[]> {
  for await (const events of heardOf(api.engine, pathOf("instances", id, "/stream"), stop)) {
    yield events;
    if (events.some(({ event }) => event === "end")) return;
  }
}

/** Tells what the steps of an instance do, in lines for people, as the events of its stream come. */
export function stepTeller(): (events: readonly StreamEvent[]) => string[] {
  const teller = new StepTeller();
  return (events) => teller.lines(events.flatMap(({ event, data }) => (event === "step" ? [data as StepEvent] : [])));
}

/** What is said behind something by which a run goes on: its steps where they are waited for, else the answer, or where to look. */
export async function goesOn(asked: Asked<"wait">, id: string, answer: unknown, wanted: Instance["status"] = "complete"): Promise<number> {
  if (asked.isSet("wait")) return waitFor(asked, id, wanted);
  if (asked.isJson) sayJson(answer);
  else tell(`Result: ${callOf("instances tail", id)}`);
  return 0;
}

/**
 * Tells people what happens to an instance until it is over, or does not go on before a person acts; then how it stands, and what to do.
 * Answers the exit code, by whether that is what it was to come to.
 */
async function waitFor(asked: Asked<"wait">, id: string, wanted: Instance["status"]): Promise<number> {
  const linesOf = stepTeller();
  try {
    for await (const events of toldOf(asked, id)) {
      for (const line of linesOf(events)) tell(line);
      const stands = events.findLast(({ event }) => event !== "step")?.data as Instance | undefined;
      if (stands && standsStill(stands)) break;
    }
  } catch (error) {
    if (asked.stop.aborted) tell(`\nIt continues. To see it: ${callOf("instances tail", id)}`);
    throw error;
  }
  const instance = await asked.api.get<InstanceDetail>(pathOf("instances", id));
  tell(standing(instance));
  if (instance.result !== null) tell(`Result: ${oneLine(shownJson(instance.result))}`);
  for (const line of nextLines(instance)) tell(line);
  if (asked.isJson) sayJson(instance);
  return instance.status === wanted ? 0 : NOT_COME_TO_IT;
}

/** True where a person has to act before it goes on. The question of one that is being undone is nobody's any more. */
function standsStill({ status, undo, waiting_for: waits }: Instance): boolean {
  return status === "in_doubt" || status === "paused" || (undo === null && waits.some(({ approval_id }) => approval_id !== null));
}
