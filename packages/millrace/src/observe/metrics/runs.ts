import { isCode } from "../../contract/errors.ts";
import { count, observe } from "./count.ts";

/** The outcome of an attempt at a step: done, retried by the platform, failed for good, or unknown. */
export type AttemptOutcome = "done" | "retried" | "failed" | "in_doubt";

/**
 * Counts an attempt at a step, and its duration. `step`: the step's name in the code, or undefined for one of the engine's own steps, which
 * share one label.
 */
export function countAttempt(
  env: object,
  { workflow, step, outcome, beganAt }: { workflow: string; step: string | undefined; outcome: AttemptOutcome; beganAt: number },
): void {
  const name = step ?? ENGINE_STEPS;
  count(env, "step_attempts_total", { workflow, step: name, outcome });
  observe(env, "step_duration_seconds", { workflow, step: name }, (Date.now() - beganAt) / 1000);
}

/** The step label of all steps of the engine itself. */
export const ENGINE_STEPS = "engine";

/** Counts a run that ended. `code`: the error code of the run. */
export function countEnd(env: object, workflow: string, status: string, code: string | undefined): void {
  count(env, "instances_ended_total", { workflow, status, code: code === undefined ? "" : codeLabel(code) });
}

/** Counts messages that became dead letters. */
export function countLetters(env: object, letters: readonly { readonly queue: string; readonly reason: string | undefined }[]): void {
  for (const { queue, reason } of letters) count(env, "queue_dlq_total", { queue, reason: codeLabel(reason) });
}

/** The label of an error code. Every text that is no error code gets the label `other`. */
function codeLabel(code = "other"): string {
  return isCode(code) ? code : "other";
}

interface SettledBatch {
  readonly queue: string;
  readonly messages: readonly Pick<Message, "attempts" | "timestamp" | "body">[];
  /** The outcome of each message of the batch, in the order of the messages. */
  readonly outcomes: readonly string[];
  /** The time of the batch's delivery, in milliseconds since the epoch. */
  readonly beganAt: number;
  /** Returns true for a message type that the deployment defines. */
  readonly isKnown: (type: string) => boolean;
}

/** Counts a batch: the size and duration of the batch, each message's wait before its first delivery, and the outcomes by message type. */
export function countBatch(env: object, { queue, messages, outcomes, beganAt, isKnown }: SettledBatch): void {
  const retried = outcomes.filter((outcome) => outcome === "retried").length;
  count(env, "queue_messages_received_total", { queue }, messages.length);
  count(env, "queue_messages_retried_total", { queue }, retried);
  count(env, "queue_messages_acked_total", { queue }, messages.length - retried);
  observe(env, "queue_batch_size", { queue }, messages.length);
  observe(env, "queue_processing_duration_seconds", { queue }, (Date.now() - beganAt) / 1000);
  const first = messages.filter(({ attempts }) => attempts === 1);
  observe(env, "queue_wait_seconds", { queue }, ...first.map(({ timestamp }) => (beganAt - timestamp.getTime()) / 1000));
  for (const [index, { body }] of messages.entries())
    count(env, "messages_total", { queue, type: typeOf(body, isKnown), outcome: outcomes[index] ?? "retried", source: sourceOf(body) });
}

/** The label of a message's type. A sender may choose any text as type, so an unknown type is not used as a label. */
function typeOf(body: unknown, isKnown: (type: string) => boolean): string {
  const type = (body as { message_type?: unknown } | null | undefined)?.message_type;
  return typeof type === "string" && isKnown(type) ? type : UNKNOWN_TYPE;
}

/**
 * The kinds of senders that the engine names in `source`, before a slash or colon. All other senders count as one kind, because a sender
 * may choose any name.
 */
export const SOURCE_KINDS = ["api", "workflow", "schedule", "inbound", "router", "operator", "keeper", "retention", "other"] as const;

function sourceOf(body: unknown): string {
  const source = (body as { source?: unknown } | null | undefined)?.source;
  const [kind] = typeof source === "string" ? source.split(/[/:]/, 1) : [];
  return SOURCE_KINDS.find((one) => one === kind) ?? "other";
}

/** The label of all message types that the deployed code does not define. */
const UNKNOWN_TYPE = "unknown";
