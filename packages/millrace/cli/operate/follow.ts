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
  wait: { says: "print its steps until it ends or needs an operator, then its output; exit code 3 if it failed" },
};

/** Yields the events of an instance until it ends. Errors: as `heardOf`. */
export async function* toldOf({ api, stop }: Pick<Asked, "api" | "stop">, id: string): AsyncGenerator<StreamEvent[]> {
  for await (const events of heardOf(api.engine, pathOf("instances", id, "/stream"), stop)) {
    yield events;
    if (events.some(({ event }) => event === "end")) return;
  }
}

export function stepTeller(): (events: readonly StreamEvent[]) => string[] {
  const teller = new StepTeller();
  return (events) => teller.lines(events.flatMap(({ event, data }) => (event === "step" ? [data as StepEvent] : [])));
}

/** Ends a command after which an instance runs: with `--wait` prints its steps, otherwise the answer. */
export async function goesOn(asked: Asked<"wait">, id: string, answer: unknown, wanted: Instance["status"] = "complete"): Promise<number> {
  if (asked.isSet("wait")) return waitFor(asked, id, wanted);
  if (asked.isJson) sayJson(answer);
  else tell(`Result: ${callOf("instances tail", id)}`);
  return 0;
}

/**
 * Prints the steps of an instance until it ends or needs an operator, then its status, output and next commands. Returns the exit code: 0
 * for the status `wanted`.
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

/** True if an operator must act. A question is void while the instance is undone. */
function standsStill({ status, undo, waiting_for: waits }: Instance): boolean {
  return status === "in_doubt" || status === "paused" || (undo === null && waits.some(({ approval_id }) => approval_id !== null));
}
