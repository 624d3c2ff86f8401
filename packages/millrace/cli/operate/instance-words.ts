import { oneLine, paint, say } from "../terminal.ts";
import type { Instance, InstanceDetail, StepList } from "./api.ts";
import { type Asked, callOf } from "./arguments.ts";
import { sayFacts, sayTable } from "./list.ts";
import { ago, lasting, moment, namedInstance, shellWord, shownJson, tell } from "./words.ts";

export function statusLine(instance: Instance): string {
  const why = whyOf(instance);
  return oneLine(`${namedInstance(instance)} is ${instance.status}${why === "" ? "." : `: ${why}`}`);
}

export function whyOf({ status, error, waiting_for: [wait], held, retrying, sleeping, due_at, undo }: Instance): string {
  if (error) {
    const { step, code, message, attempts, upstream_status } = error;
    const tried = attempts > 1 ? `, ${attempts} attempts` : "";
    const upstream = upstream_status === undefined ? "" : `, upstream ${upstream_status}`;
    const nowhere = status === "accepted" || status === "queued" ? "it cannot start" : "between its steps";
    return `${step === "" ? nowhere : `“${step}”`}${tried}${upstream}: ${message} (${code})`;
  }
  if (held) return held;
  if (status === "accepted" && due_at) return `due ${moment(due_at)}`;
  if (retrying) return `“${retrying.step}” failed at attempt ${retrying.attempt} and will be retried: ${retrying.error}`;
  if (wait?.approval_id) return `“${wait.step}” asks an operator`;
  if (wait?.child_id) return `“${wait.step}” waits for the child ${wait.child_id}`;
  if (wait?.event_type) return `“${wait.step}” waits for ${wait.event_type} about ${wait.subject}`;
  if (sleeping) return `it sleeps${sleeping.until === null ? "" : ` until ${moment(sleeping.until)}`}`;
  return undo === "done" ? "undone" : undo === "open" ? "its undo has not ended" : "";
}

export function nextLines({ id, status, error, waiting_for: waits, undo, unknown_outcomes: doubts }: InstanceDetail): string[] {
  const act = (verb: string) => callOf("instances", verb, id, "--reason …");
  if (status === "errored") {
    const hint = error?.hint === undefined ? [] : [oneLine(error.hint)];
    return [...hint, `Fix the cause, then: ${act("retry")}   (--dry-run prints the consequences)`];
  }
  if (status === "in_doubt") return doubts.flatMap((doubt) => doubtLines(id, doubt));
  if (status === "paused") return [`It continues with: ${act("resume")}`];
  if (status === "dead") return [`Its message is a dead letter: ${callOf("dead-letters list")}`];
  const asks = undo === null ? waits.flatMap(({ approval_id: question }) => (question === null ? [] : [question])) : [];
  return asks.map((question) => `Answer it: ${callOf("approvals approve", question, "--reason …")}, or reject`);
}

/** An effect that certainly happened cannot be rejected. */
function doubtLines(id: string, { step, effect, why, answered, retry }: InstanceDetail["unknown_outcomes"][number]): string[] {
  const answer = (verb: string) => callOf("effects", verb, effect, "--reason …");
  if (answered !== null) {
    const known = answered.output_ref === null ? shownJson(answered.output) : "";
    // An output with redacted values cannot be confirmed.
    const output = known === "" || known.includes("[redacted]") ? "…" : shellWord(known);
    return [
      oneLine(`“${step}” happened, but the rows recorded with it were refused. ${why ?? ""}`),
      `  after deploying code with valid rows: ${answer("confirm")} --output ${output}`,
      `  to end it and keep the effect: ${callOf("instances cancel", id, "--no-undo --reason …")}`,
      ...(retry === null ? [] : [`  to run it a second time: ${answer("retry")}`]),
    ];
  }
  return [
    oneLine(
      `Unknown outcome: “${step}” may have happened${why === null ? "." : `: ${why.replace(/[^.!?]$/, "$&.")}`} Check the upstream, then decide:`,
    ),
    `  it happened, with this output (null if none): ${answer("confirm")} --output …`,
    `  it did not happen; send it now: ${answer("reject")}`,
    `  unknown; run it again, and it may happen twice: ${answer("retry")}`,
  ];
}

const MOST_CHILDREN = 20;
const NESTED = { indent: "  " };

export async function sayInstance(instance: InstanceDetail, { api }: Asked): Promise<void> {
  const path = encodeURIComponent(instance.id);
  const [{ items: steps }, { items: children }] = await Promise.all([
    api.get<StepList>(`/v1/instances/${path}/steps`),
    api.get<{ items: Instance[] }>(`/v1/instances?parent=${path}&limit=${MOST_CHILDREN}`),
  ]);
  const { id, message_type, accepted_at, parent, must_end_by, overdue, payload, payload_ref, result } = instance;
  say(paint("bold", statusLine(instance)));
  sayFacts({
    id,
    asked: `${message_type}, ${moment(accepted_at)}, ${ago(accepted_at)}`,
    key: instance.idempotency_key,
    job: instance.correlation_id,
    parent: parent && `${parent.id}, step “${parent.step}”`,
    due: instance.due_at && moment(instance.due_at),
    ends_by: must_end_by && `${moment(must_end_by)}${overdue ? ", and is overdue" : ""}`,
    archived: instance.archived_at && moment(instance.archived_at),
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
