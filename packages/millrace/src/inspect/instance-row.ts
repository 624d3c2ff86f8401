import * as z from "zod";
import { hasVersion, versionMissing } from "../contract/params.ts";
import { component, listOf, redacted, rowOf, timestamp } from "../contract/row.ts";
import { fragment, now } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import { type Failure, ShownFailure } from "../replay/failure.ts";
import type { Row } from "../store/d1/retry.ts";
import {
  BEGUN,
  INSTANCE_STATUSES,
  IS_INDEXED_AS_IN_TURN,
  IS_OVERDUE,
  ON_ITS_WAY,
  UNSEEN,
  WAITS_FOR_SLOT,
} from "../store/instances/status.ts";
import { pauseOf } from "../store/pauses.ts";
import { ENDED_CHILD } from "../store/waits.ts";

/** The column stores the values in this order. */
export const StepProgress = component("Progress", {
  step: z.string().meta({ description: "The step name in the code, followed by the key of an item in brackets.", ...redacted }),
  attempt: z.int().describe("The attempt that reported it."),
  share: z.number().min(0).max(1).nullable().describe("Null if the step reported neither a share nor a whole."),
  done: z.number().nullable(),
  of: z.number().nullable().describe("The whole."),
  text: z.nullable(z.string()).meta({ description: "The text of the step, such as the unit of `done` and `of`.", ...redacted }),
  at: timestamp,
});
export type StepProgress = z.infer<typeof StepProgress>;

const MOST_WAITS = 20;

export const Instance = component("Instance", {
  id: z.string(),
  workflow: z.string(),
  status: z.enum(INSTANCE_STATUSES),
  message_type: z.string(),
  idempotency_key: z.string(),
  correlation_id: z.string(),
  causation_id: z.string(),
  subject: z.string(),
  deliveries: z.int().describe("The number of deliveries of its message. Deliveries after the first are duplicates without effect."),
  step: z
    .nullable(z.string())
    .describe("The step with an effect that wrote last, or the failed step if none has written. For waiting steps see `waiting_for`."),
  waiting_for: listOf({
    step: z.string().describe("The step name in the code, followed by the key of an item in brackets."),
    event_type: z.string().nullable().describe("For an event: its type, such as `order.paid`."),
    subject: z.string().nullable().describe("For an event: its required subject."),
    child_id: z.string().nullable().describe("For a child: its instance id."),
    approval_id: z.string().nullable().describe("For a question: `POST /v1/approvals/{id}/approve` or `/reject`."),
    until: timestamp.nullable().describe("When the wait ends. Null for a wait that started before this time was recorded."),
  })
    .max(MOST_WAITS)
    .describe("Awaited events, answers and children, at most 20. For a sleep see `sleeping`."),
  held: z
    .nullable(z.string())
    .describe(
      "The reason why the instance does not start: the pause of its workflow or queue, or its workflow's `concurrency`, `debounce` or `throttle`. Null otherwise.",
    ),
  retrying: z
    .object({
      step: z.string(),
      attempt: z.int().describe("The number of the failed attempt, starting at 1."),
      next_at: timestamp.nullable().describe("When the next attempt starts; null in a list, because only the platform knows this time."),
      error: z.string().meta({ description: "The error message.", ...redacted }),
    })
    .nullable()
    .meta({
      description:
        "The step that waits for its next attempt after a failure; the first if there are several. A list has it only for `lookup` and `once` steps.",
      ...redacted,
    }),
  sleeping: z
    .object({ step: z.string().nullable(), until: timestamp.nullable() })
    .nullable()
    .describe(
      "A sleeping step. In a list, a sleep (or a long back-off) appears about 30 s later, when the keeper has asked the platform, without the step and the end.",
    ),
  due_at: timestamp.nullable().describe("When a delayed command is due; until then the status is `accepted`. Null without a delay."),
  must_end_by: timestamp.nullable().describe("The deadline; null without one."),
  overdue: z.boolean().describe("True if the deadline has passed and the instance is still running. It is not stopped automatically."),
  error: ShownFailure.nullable().meta(redacted),
  tags: z.array(z.string()).meta({ description: "The tags of its command.", examples: [["customer:acme"]] }),
  parent: z
    .object({ id: z.string(), step: z.string() })
    .nullable()
    .describe("The instance and the step that started it as a child; null otherwise."),
  progress: StepProgress.nullable().describe("The last progress that a step of this run reported; null without a report."),
  version: z.int().describe("The version of the workflow that it runs. A higher number of the workflow does not change it."),
  run: z.int().describe("The number of the current run. The first run has the number 1, and each retry or undo adds 1."),
  undo: z
    .nullable(z.enum(["open", "done"]))
    .describe("`open` during an undo, also after the undo failed; `done` after it. A close keeps the value. A retry resets it to null."),
  undo_action: z.string().nullable().describe("The id of the action that began the undo; null without an undo."),
  accepted_at: timestamp,
  updated_at: timestamp,
});
export type Instance = z.infer<typeof Instance>;

/** NULL for an instance that has ended or is being undone. */
const WAITING_FOR = fragment(`
  CASE WHEN undo IS NULL AND status IN ${BEGUN.fragment} THEN (
    SELECT json_group_array(json_object('step', step, 'event_type', type, 'subject', subject, 'approval_id', approval_id,
      'child_id', child_id, 'until', due_at))
    FROM (
      SELECT name AS step, nullif(type, '${ENDED_CHILD}') AS type, iif(type = '${ENDED_CHILD}', NULL, subject) AS subject,
        NULL AS approval_id, iif(type = '${ENDED_CHILD}', subject, NULL) AS child_id, due_at FROM millrace_waits
      WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL AND over_at IS NULL
      UNION ALL
      SELECT step, NULL, NULL, id, NULL, due_at FROM millrace_approvals
        WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending'
      LIMIT ${MOST_WAITS})) END`);

/** True for an instance with a non-empty `waiting_for`. */
export const IS_WAITING = fragment(`(undo IS NULL AND (
  EXISTS (SELECT 1 FROM millrace_waits WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL AND over_at IS NULL)
  OR EXISTS (SELECT 1 FROM millrace_approvals WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending')))`);

const MOST_BEFORE = 100;

/** The number of instances that get a slot before this one. */
const BEFORE = `(SELECT count(*) FROM (SELECT 1 FROM (
      SELECT slot_turn AS turn, rowid AS nth FROM millrace_instances w
      WHERE w.slot = millrace_instances.slot AND ${IS_INDEXED_AS_IN_TURN.fragment})
    WHERE (turn, nth) < (millrace_instances.slot_turn, millrace_instances.rowid) LIMIT ${MOST_BEFORE}))`;

const HELD = fragment(`CASE WHEN status IN ${UNSEEN.fragment} THEN coalesce(
    ${pauseOf("'Paused by ' || p.actor || ': ' || p.reason").fragment},
    iif(status = 'accepted' AND due_at > ${now.fragment}, CASE WHEN flow->>'debounce' IS NOT NULL
      THEN 'Debounced: starts at its due time, unless a later command of its key replaces it.'
      WHEN flow->>'throttle' IS NOT NULL THEN 'Throttled: starts at its due time.' END, NULL),
    iif(${WAITS_FOR_SLOT.fragment}, printf('Waits for one of %d slots of its key, after %d others.', flow->>'limit', ${BEFORE}), NULL)) END`);

/** Columns for `instanceIn`. The column `last` contains the newest inbox entry; NULL for an instance without an entry. */
export const INSTANCE_COLUMNS = fragment(`id, workflow, version, status, message_type, idempotency_key,
    correlation_id, causation_id, subject, deliveries, error, run, accepted_at, updated_at, due_at, must_end_by, progress,
    iif(undo IS NULL, NULL, iif(undone = 1, 'done', 'open')) AS undo, undo AS undo_action,
    coalesce(envelope->'tags', '[]') AS tags, iif(parent IS NULL, NULL, json_object('id', parent, 'step', parent_step)) AS parent,
    ${IS_OVERDUE.fragment} AS overdue,
    (SELECT json_object('step', step, 'item', item, 'failed', iif(state = 'claimed', json(error), NULL))
      FROM millrace_inbox WHERE instance_id = millrace_instances.id ORDER BY updated_at DESC LIMIT 1) AS last,
    coalesce(${WAITING_FOR.fragment}, '[]') AS waiting_for, ${HELD.fragment} AS held`);

/**
 * The instance in a row of `INSTANCE_COLUMNS`. The database records failed attempts only for the classes `lookup` and `once`, and a sleep
 * only after the keeper has queried the platform.
 */
export function instanceIn(row: Row): Instance {
  const last = JSON.parse(String(row.last)) as { step: string; item: string; failed: Failure | null } | null;
  const failed = ON_ITS_WAY.has(row.status as Instance["status"]) ? last?.failed : null;
  const retrying = failed &&
    last && { step: labelOf(last.step, last.item), attempt: failed.attempts, next_at: null, error: failed.message };
  const sleeps = row.status === "waiting" && row.undo === null && row.waiting_for === "[]" && !retrying;
  const { step: failedStep = null } = row.error === null ? {} : (JSON.parse(String(row.error)) as Failure);
  return rowOf(Instance, {
    ...row,
    error: row.error ?? withoutVersion(row),
    step: last?.step ?? (failedStep || null),
    retrying: retrying ?? null,
    sleeping: sleeps ? { step: null, until: null } : null,
    progress: progressIn(row.progress).at(-1) ?? null,
  });
}

/** The error, as JSON, if the deployed code lacks the instance's version. */
function withoutVersion({ workflow, version, status }: Row): string | null {
  const [name, number] = [String(workflow), Number(version)];
  if (!ON_ITS_WAY.has(status as Instance["status"]) || hasVersion(name, number)) return null;
  return JSON.stringify({ step: "", code: "config_invalid", message: versionMissing(name, number), attempts: 0 } satisfies Failure);
}

/** The reports in the column `progress`, the newest last. */
export function progressIn(column: unknown): StepProgress[] {
  const names = Object.keys(StepProgress.shape);
  const reports = typeof column === "string" ? Object.values<unknown[]>(JSON.parse(column)) : [];
  return reports
    .map((report) => rowOf(StepProgress, Object.fromEntries(names.map((name, place) => [name, report[place]]))))
    .toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
}
