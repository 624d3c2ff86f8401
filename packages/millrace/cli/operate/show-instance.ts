import { tableLines } from "../table.ts";
import { oneLine, paint, say } from "../terminal.ts";
import type { InstanceDetail, StepList } from "./answers.ts";
import { nextLines, standing } from "./instance-words.ts";
import type { Asked } from "./verb.ts";
import { ago, lasting, moment, shownJson, tell } from "./words.ts";

type Step = StepList["items"][number];

const STEP_COLUMNS = [{ title: "step" }, { title: "state" }, { title: "attempts", isNumber: true }, { title: "took", isNumber: true }];

/** Prints an instance: payload, result, steps, and possible next commands. */
export async function sayInstance(instance: InstanceDetail, { api }: Asked): Promise<void> {
  const { items } = await api.get<StepList>(`/v1/instances/${encodeURIComponent(instance.id)}/steps`);
  for (const line of [...factLines(instance), ...stepTable(items)]) say(line);
  for (const line of nextLines(instance)) tell(line);
}

function factLines(instance: InstanceDetail): string[] {
  const {
    id,
    message_type,
    idempotency_key,
    correlation_id,
    accepted_at,
    platform_status,
    payload,
    payload_ref,
    result,
    due_at,
    must_end_by,
    overdue,
  } = instance;
  const facts: [string, string | undefined][] = [
    ["id", id],
    ["asked", `${message_type}, ${moment(accepted_at)}, ${ago(accepted_at)}`],
    ["key", idempotency_key],
    ["job", correlation_id],
    ["due", due_at === null ? undefined : moment(due_at)],
    ["ends by", must_end_by === null ? undefined : `${moment(must_end_by)}${overdue ? ", and is overdue" : ""}`],
    ["platform", platform_status],
    ["payload", payload_ref ?? shownJson(payload)],
    ["result", result === null ? undefined : shownJson(result)],
  ];
  return [
    paint("bold", standing(instance)),
    ...facts.flatMap(([name, fact]) => (fact === undefined ? [] : [`  ${name.padEnd(9)} ${oneLine(fact)}`])),
  ];
}

function stepTable(steps: readonly Step[]): string[] {
  if (steps.length === 0) return ["  No step has started."];
  const rows = steps.map(({ name, count, state, attempts, started_at, ended_at }) => [
    oneLine(count > 1 ? `${name} (${count})` : name),
    state,
    attempts.length === 0 ? "" : String(attempts.length),
    started_at === null || ended_at === null ? "" : lasting(Date.parse(ended_at) - Date.parse(started_at)),
  ]);
  const [heading = "", ...lines] = tableLines(STEP_COLUMNS, rows);
  return [`  ${paint("dim", heading)}`, ...lines.map((line) => `  ${line}`)];
}
