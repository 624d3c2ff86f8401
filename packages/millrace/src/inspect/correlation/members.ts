import { iso } from "../../contract/row.ts";
import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import type { Position } from "../../store/d1/paging.ts";
import type { Row } from "../../store/d1/retry.ts";
import { type Addressed, causeOf, type JobNode, messageNode } from "./node.ts";

/** Maximum number of an instance's inbox entries that are searched for emitted messages. */
const READ_ENTRIES = 500;
/** Maximum number of messages of an instance that get a node each. Further messages are counted by type. */
export const TOLD_MESSAGES = 20;
/** Maximum length in characters of a dead letter's message. A longer message is not parsed for its cause. */
const READ_CHARACTERS = 200_000;

const ENTRIES = fragment(`(SELECT step, item, position, messages, updated_at FROM millrace_inbox
      WHERE millrace_inbox.instance_id = millrace_instances.id LIMIT ${READ_ENTRIES}) e`);

/** Instances of a job after a position, in the order of acceptance, so that causes precede their effects. */
export function selectInstances(tenantId: string, job: string, behind: Position, limit: number): Statement {
  return sql`
    SELECT id, workflow, status, message_type, idempotency_key, causation_id, subject, accepted_at,
      envelope->>'kind' AS kind, envelope->>'created_at' AS made_at,
      (SELECT sum(coalesce(m.value->>'left_out', 1)) FROM ${ENTRIES}, json_each(e.messages) m) AS emitted,
      (SELECT json_group_array(json(told.message)) FROM (
        SELECT json_object('step', e.step, 'item', e.item, 'kind', m.value->>'kind', 'message_type', m.value->>'message_type',
          'idempotency_key', m.value->>'idempotency_key', 'causation_id', m.value->>'causation_id', 'subject', m.value->>'subject',
          'made_at', m.value->>'created_at', 'updated_at', e.updated_at) AS message
        FROM ${ENTRIES}, json_each(e.messages) m WHERE m.value->>'left_out' IS NULL
        ORDER BY e.position < 0, e.position, e.item, m.key LIMIT ${TOLD_MESSAGES}) told) AS messages
    FROM millrace_instances INDEXED BY millrace_instances_by_correlation
    WHERE tenant_id = ${tenantId} AND correlation_id = ${job} AND (accepted_at, id) > (${behind.at}, ${behind.id})
    ORDER BY accepted_at, id LIMIT ${limit}`;
}

/** Dead letters of a job after a position, in the order of capture. */
export function selectLetters(tenantId: string, job: string, behind: Position, limit: number): Statement {
  return sql`
    SELECT id, queue, state, message_type, idempotency_key, reason, first_at, captured_at,
      iif(length(body) <= ${READ_CHARACTERS}, body->>'kind', NULL) AS kind,
      iif(length(body) <= ${READ_CHARACTERS}, body->>'causation_id', NULL) AS causation_id,
      iif(length(body) <= ${READ_CHARACTERS}, body->>'subject', NULL) AS subject
    FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_correlation
    WHERE tenant_id = ${tenantId} AND correlation_id = ${job} AND (captured_at, id) > (${behind.at}, ${behind.id})
    ORDER BY captured_at, id LIMIT ${limit}`;
}

/** Counts an instance's messages by type. The counts include the messages that have a node. */
export function countEmitted(instanceId: string): Statement {
  return sql`
    SELECT ${instanceId} AS instance_id, m.value->>'message_type' AS message_type, sum(coalesce(m.value->>'left_out', 1)) AS emitted
    FROM (SELECT messages FROM millrace_inbox WHERE instance_id = ${instanceId} LIMIT ${READ_ENTRIES}) e, json_each(e.messages) m
    GROUP BY m.value->>'message_type'`;
}

interface Emitted extends Addressed {
  readonly step: string;
  readonly item: string;
  readonly subject: string;
  readonly made_at: string | null;
  readonly updated_at: number;
}

export interface Member {
  readonly position: Position;
  readonly nodes: JobNode[];
  readonly emitted: number;
}

export function instanceMember(tenantId: string, row: Row): Member {
  const id = String(row.id);
  const at = Number(row.accepted_at);
  const message = addressed(row);
  const node: JobNode = {
    node: id,
    kind: "instance",
    message_type: message.message_type,
    idempotency_key: message.idempotency_key,
    name: String(row.workflow),
    status: String(row.status),
    subject: String(row.subject),
    at: iso(at),
    causation_id: message.causation_id,
    ...causeOf(tenantId, message),
    latency_ms: since(timeOf(row.made_at), at),
    leads_to: [],
  };
  const messages = JSON.parse(String(row.messages ?? "[]")) as Emitted[];
  const nodes = [node, ...messages.map((one) => messageMember(tenantId, { id, at }, one))];
  return { position: { at, id }, nodes, emitted: Number(row.emitted ?? 0) };
}

export function letterMember(tenantId: string, row: Row): Member {
  const id = String(row.id);
  const at = Number(row.captured_at);
  const message = addressed(row);
  const node: JobNode = {
    node: id,
    kind: "dead_letter",
    message_type: row.message_type as string | null,
    idempotency_key: row.idempotency_key as string | null,
    name: String(row.queue),
    status: String(row.state),
    subject: row.subject as string | null,
    at: iso(at),
    causation_id: row.causation_id as string | null,
    ...causeOf(tenantId, message),
    latency_ms: since(Number(row.first_at), at),
    leads_to: [],
  };
  return { position: { at, id }, nodes: [node], emitted: 0 };
}

function messageMember(tenantId: string, from: Position, { step, item, subject, made_at, updated_at, ...message }: Emitted): JobNode {
  const at = timeOf(made_at) ?? updated_at;
  return {
    node: messageNode(tenantId, message),
    kind: message.kind === "event" ? "event" : "command",
    message_type: message.message_type,
    idempotency_key: message.idempotency_key,
    name: null,
    status: "taken",
    subject,
    at: iso(at),
    cause: from.id,
    causation_id: message.causation_id,
    from_instance: from.id,
    step: labelOf(step, item),
    latency_ms: since(from.at, at),
    leads_to: [],
  };
}

function addressed(row: Row): Addressed {
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  return {
    kind: row.kind as string | null,
    message_type: text(row.message_type),
    idempotency_key: text(row.idempotency_key),
    causation_id: text(row.causation_id),
  };
}

function timeOf(said: unknown): number | undefined {
  const at = typeof said === "string" ? Date.parse(said) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/** The latency in milliseconds. The result is at least 0, although clocks may differ slightly. */
function since(cause: number | undefined, at: number): number | null {
  return cause === undefined ? null : Math.max(0, at - cause);
}
