import { tableLines } from "../table.ts";
import { oneLine, paint, say } from "../terminal.ts";
import type { Instance, InstanceDetail, StepList } from "./answers.ts";
import { nextLines, standing } from "./instance-words.ts";
import { callOf } from "./usage.ts";
import type { Asked } from "./verb.ts";
import { ago, lasting, moment, shownJson, tell } from "./words.ts";

type Step = StepList["items"][number];

const STEP_COLUMNS = [{ title: "step" }, { title: "state" }, { title: "attempts", isNumber: true }, { title: "took", isNumber: true }];

/** Prints an instance: payload, result, steps, and possible next commands. */
export async function sayInstance(instance: InstanceDetail, { api }: Asked): Promise<void> {
  const id = encodeURIComponent(instance.id);
  const [{ items }, children] = await Promise.all([
    api.get<StepList>(`/v1/instances/${id}/steps`),
    api.get<{ items: Instance[]; next_cursor: string | null }>(`/v1/instances?parent=${id}&limit=${MOST_CHILDREN}`),
  ]);
  for (const line of [...factLines(instance), ...stepTable(items), ...childLines(instance, children.items)]) say(line);
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
    ["parent", instance.parent === null ? undefined : `${instance.parent.id}, step “${instance.parent.step}”`],
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

const MOST_CHILDREN = 20;

/** Lists the newest children of an instance. A full list ends with the command that lists all children. */
function childLines({ id }: InstanceDetail, children: readonly Instance[]): string[] {
  if (children.length === 0) return [];
  const rows = children.map((child) => [oneLine(child.parent?.step ?? ""), child.id, child.workflow, child.status]);
  const [heading = "", ...lines] = tableLines([{ title: "child of" }, { title: "id" }, { title: "workflow" }, { title: "status" }], rows);
  const more = children.length === MOST_CHILDREN ? [`All children: ${callOf("instances list", "--parent", id)}`] : [];
  return [paint("dim", heading), ...lines, ...more].map((line) => `  ${line}`);
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
