import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { type ApprovalState, insertQuestion, settleOverdue } from "../store/approvals.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { markAnswered, waitForAnswer } from "../store/instances/wait.ts";
import { HELD, type Held } from "./held.ts";

/** Names a question: its instance, and which of its steps asks. */
export function approvalId(instanceId: string, label: string): string {
  return `${instanceId}-${digest("approval", label).slice(0, 16)}`;
}

/** The instance that asked; "" for a text that is no approval's id. */
export function askerOf(approvalId: string): string {
  return /^([0-9a-f]{32})-[0-9a-f]{16}$/.exec(approvalId)?.[1] ?? "";
}

/**
 * The platform's event type that carries the answer: every question has its own, because a consumed event can be delivered again to a later
 * wait of the same type.
 */
export function answerEventType(approvalId: string): string {
  return `answer-${digest("answer", approvalId)}`;
}

/** Which question it is. */
export interface Asker {
  env: EngineEnv;
  tenantId: string;
  instanceId: string;
  /** The step as the platform names it. */
  label: string;
}

/** What is asked. */
export interface Question {
  workflow: string;
  question: string;
  /** JSON. */
  details: string | null;
  otherwise: "approve" | "reject";
  timeoutMs: number;
}

/** How a question was answered. */
export interface Approval {
  approved: boolean;
  /** Who answered; null when the time was over and nobody had. */
  by: string | null;
  /** Why, in that person's words. */
  reason: string | null;
}

/** Minimum wait: the platform's timers have one-second resolution. */
export const SHORTEST_WAIT_MS = 1000;

/** Time that is left, and when that was so by the database's clock: a later pass, which finds it in its step's result, has less. */
export interface Left {
  leftMs: number;
  /** Absent from results of deployments before this was noted. */
  at?: number;
}

/** What is left of it by now. */
export function leftNow({ leftMs, at = Date.now() }: Left): number {
  return Math.min(leftMs, Math.max(SHORTEST_WAIT_MS, leftMs + at - Date.now()));
}

/** How a question stands: answered, or how much time is left for that. */
export type Standing = Approval | Left;

/**
 * Asks, in one round trip that also says that the instance waits. A question that was asked before is not asked again: it stands as it
 * stands, with what is left of its first time, whatever restarted meanwhile. Held where a person has paused the instance before it asked.
 */
export async function askQuestion(asker: Asker, asked: Question): Promise<Standing | Held> {
  const { env, tenantId, instanceId, label } = asker;
  const { question } = await namedBatch(env.DB, {
    asked: insertQuestion({ ...asked, id: approvalId(instanceId, label), instanceId, step: label, tenantId }),
    overdue: settleOverdue(asker, 0),
    status: waitForAnswer(tenantId, instanceId),
    question: selectQuestion(asker),
  });
  return question[0] ? standing(question[0]) : HELD;
}

/** How much earlier than the database's clock the platform's timer may say that the time is over. */
export const TIMER_SKEW_MS = 1000;

/** The wait for an answer has ended without one: if the time is over, that settles the question. A person who was faster has won. */
export async function settleQuestion(asker: Asker): Promise<Standing> {
  const { question } = await namedBatch(asker.env.DB, {
    overdue: settleOverdue(asker, TIMER_SKEW_MS),
    status: markAnswered(asker.tenantId, asker.instanceId),
    question: selectQuestion(asker),
  });
  return standing(question[0]);
}

/** What was answered before, without asking; undefined when nothing was. */
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

/** The questions of an instance that have their answer. */
export function selectAnswered(instanceId: string): Statement {
  return sql`SELECT id, state, decided_by, reason FROM millrace_approvals WHERE instance_id = ${instanceId} AND state <> 'pending'`;
}

/** A question with its answer, as its row says. */
export interface Answered {
  id: string;
  state: ApprovalState;
  decided_by: string | null;
  reason: string | null;
}

/** The answer, as the instance is told. */
export function asApproval({ state, decided_by, reason }: Omit<Answered, "id">): Approval {
  return { approved: state === "approved", by: decided_by, reason };
}

function standing(row: Record<string, unknown> | undefined): Standing {
  if (row === undefined) throw new MillraceError("invariant", "A question's row is gone while its instance asks.");
  if (row.state === "pending") return { leftMs: Math.max(SHORTEST_WAIT_MS, Number(row.left_ms)), at: Number(row.at) };
  return asApproval(row as unknown as Answered);
}
