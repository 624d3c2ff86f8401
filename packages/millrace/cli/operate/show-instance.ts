import { oneLine, paint, say } from "../terminal.ts";
import type { Instance, InstanceDetail, StepList } from "./answers.ts";
import { nextLines, standing } from "./instance-words.ts";
import { sayFacts, sayTable } from "./list.ts";
import { callOf } from "./usage.ts";
import type { Asked } from "./verb.ts";
import { ago, lasting, moment, shownJson, tell } from "./words.ts";

const MOST_CHILDREN = 20;
const NESTED = { indent: "  " };

/** Prints an instance: payload, result, steps, children, and possible next commands. */
export async function sayInstance(instance: InstanceDetail, { api }: Asked): Promise<void> {
  const path = encodeURIComponent(instance.id);
  const [{ items: steps }, { items: children }] = await Promise.all([
    api.get<StepList>(`/v1/instances/${path}/steps`),
    api.get<{ items: Instance[] }>(`/v1/instances?parent=${path}&limit=${MOST_CHILDREN}`),
  ]);
  const { id, message_type, accepted_at, parent, must_end_by, overdue, payload, payload_ref, result } = instance;
  say(paint("bold", standing(instance)));
  sayFacts({
    id,
    asked: `${message_type}, ${moment(accepted_at)}, ${ago(accepted_at)}`,
    key: instance.idempotency_key,
    job: instance.correlation_id,
    parent: parent && `${parent.id}, step “${parent.step}”`,
    due: instance.due_at && moment(instance.due_at),
    ends_by: must_end_by && `${moment(must_end_by)}${overdue ? ", and is overdue" : ""}`,
    platform: instance.platform_status,
    payload: payload_ref ?? shownJson(payload),
    result: result && shownJson(result),
  });
  if (steps.length === 0) say("  No step has started.");
  else sayTable(steps.map(rowOfStep), ["step", "state", "attempts", "took"], NESTED);
  if (children.length > 0) {
    const rows = children.map(({ parent, ...child }) => ({ ...child, child_of: parent?.step }));
    sayTable(rows, ["child_of", "id", "workflow", "status"], NESTED);
  }
  if (children.length === MOST_CHILDREN) say(`  All children: ${callOf("instances list", "--parent", oneLine(id))}`);
  for (const line of nextLines(instance)) tell(line);
}

function rowOfStep({ name, count, state, attempts, started_at: start, ended_at: end }: StepList["items"][number]) {
  const took = start === null || end === null ? "" : lasting(Date.parse(end) - Date.parse(start));
  return { step: count > 1 ? `${name} (${count})` : name, state, attempts: attempts.length, took };
}
