import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { type ApprovalState, insertQuestion, settleOverdue } from "../store/approvals.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { markAnswered, waitForAnswer } from "../store/instances/wait.ts";

/** The id of an approval: the instance's id and a digest of the step. */
export function approvalId(instanceId: string, label: string): string {
  return `${instanceId}-${digest("approval", label).slice(0, 16)}`;
}

/** The instance id in an approval's id; an empty string for any other string. */
export function askerOf(approvalId: string): string {
  return /^([0-9a-f]{32})-[0-9a-f]{16}$/.exec(approvalId)?.[1] ?? "";
}

/**
 * The event type that delivers the answer on the platform. Each approval has its own type, because the platform can deliver a consumed
 * event again to a later wait of the same type.
 */
export function answerEventType(approvalId: string): string {
  return `answer-${digest("answer", approvalId)}`;
}

export interface Asker {
  env: EngineEnv;
  tenantId: string;
  instanceId: string;
  /** The name of the approval's step on the platform. */
  label: string;
  /** The version of the workflow that the run executes. */
  version: number;
}

export interface Question {
  /** The number of the run that asks. */
  run: number;
  workflow: string;
  question: string;
  /** JSON. */
  details: string | null;
  otherwise: "approve" | "reject";
  timeoutMs: number;
}

export interface Approval {
  approved: boolean;
  /** The operator who decided; null if the deadline passed without an operator's decision. */
  by: string | null;
  /** The operator's reason. */
  reason: string | null;
}

/** Minimum duration of a wait in milliseconds, because the platform's timers have one-second resolution. */
export const SHORTEST_WAIT_MS = 1000;

/**
 * The remaining time of a wait, and the time when it was read. A later replay gets both values from the step's result, and less time
 * remains at that replay.
 */
export interface Left {
  leftMs: number;
  /** When the remaining time was read; undefined in results of older deployments. */
  at?: number;
}

/** The present remaining time of a wait, in milliseconds. */
export function leftNow({ leftMs, at = Date.now() }: Left): number {
  return Math.min(leftMs, Math.max(SHORTEST_WAIT_MS, leftMs + at - Date.now()));
}

/** The state of an approval: the decision, or the remaining time of a pending approval. */
export type Standing = Approval | Left;

/**
 * Creates the approval and marks the instance as waiting, in one round trip. An existing approval is returned unchanged, also after a
 * restart, with the time that remains until its original deadline. The result is `Held` if an operator has paused the instance or
 * begun another run.
 */
export async function askQuestion(asker: Asker, asked: Question): Promise<Standing | Held> {
  const { env, tenantId, instanceId, label } = asker;
  const { question } = await namedBatch(env.DB, {
    asked: insertQuestion({ ...asked, id: approvalId(instanceId, label), instanceId, step: label, tenantId }),
    overdue: settleOverdue(asker, 0),
    status: waitForAnswer(tenantId, instanceId, asker.version),
    question: selectQuestion(asker),
  });
  return question[0] ? standing(question[0]) : HELD;
}

/** The platform's timer may be ahead of the database's clock by at most this time, in milliseconds. */
export const TIMER_SKEW_MS = 1000;

/** Decides an approval whose deadline has passed, unless an operator has decided it before. */
export async function settleQuestion(asker: Asker): Promise<Standing> {
  const { question } = await namedBatch(asker.env.DB, {
    overdue: settleOverdue(asker, TIMER_SKEW_MS),
    status: markAnswered(asker.tenantId, asker.instanceId),
    question: selectQuestion(asker),
  });
  return standing(question[0]);
}

/** The decision of an existing approval; undefined if there is no decision. The function creates no approval. */
export async function knownAnswer(asker: Asker): Promise<Approval | undefined> {
  const [row] = await query(asker.env.DB, selectQuestion(asker));
  const found = row && standing(row);
  return found && "approved" in found ? found : undefined;
}

function selectQuestion({ tenantId, instanceId, label }: Asker): Statement {
  return sql`
    SELECT state, decided_by, reason, due_at - ${now} AS left_ms, ${now} AS at FROM millrace_approvals
    WHERE tenant_id = ${tenantId} AND instance_id = ${instanceId} AND step = ${label}`;
}

/** The decided approvals of an instance. */
export function selectAnswered(instanceId: string): Statement {
  return sql`SELECT id, state, decided_by, reason FROM millrace_approvals WHERE instance_id = ${instanceId} AND state <> 'pending'`;
}

export interface Answered {
  id: string;
  state: ApprovalState;
  decided_by: string | null;
  reason: string | null;
}

/** The result of an approval that the instance receives. */
export function asApproval({ state, decided_by, reason }: Omit<Answered, "id">): Approval {
  return { approved: state === "approved", by: decided_by, reason };
}

/** Sends an instance the decisions of its approvals. A decision has its own event type, so a second copy has no effect. */
export async function tellAnswers(env: EngineEnv, instance: WorkflowInstance, instanceId: string): Promise<void> {
  for (const row of (await query(env.DB, selectAnswered(instanceId))) as unknown as Answered[]) {
    await within(instance.sendEvent({ type: answerEventType(row.id), payload: asApproval(row) }));
  }
}

function standing(row: Record<string, unknown> | undefined): Standing {
  if (row === undefined) throw new MillraceError("invariant", "The row of a pending approval is missing. Please report this.");
  if (row.state === "pending") return { leftMs: Math.max(SHORTEST_WAIT_MS, Number(row.left_ms)), at: Number(row.at) };
  return asApproval(row as unknown as Answered);
}

/** The platform's event type that wakes a paused run when it is resumed. */
export function resumeEventType(instanceId: string): string {
  return RESUME_EVENT + digest("resume", instanceId);
}

export function isResumeEvent(type: string): boolean {
  return type.startsWith(RESUME_EVENT);
}

const RESUME_EVENT = "resume-";

/** The result of a step that did not start, because an operator has paused the run. */
export interface Held {
  readonly held: true;
}

export const HELD: Held = { held: true };
