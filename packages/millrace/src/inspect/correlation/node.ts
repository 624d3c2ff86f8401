import * as z from "zod";
import { messageId } from "../../contract/ids.ts";
import { component, listOf, rowOf, timestamp } from "../../contract/row.ts";
import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import type { Position } from "../../store/d1/paging.ts";
import type { Row } from "../../store/d1/retry.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";

/** A member of a job: an instance, a message that one of its steps emitted, or a dead letter. */
export const JobNode = component("JobNode", {
  node: z.string().describe("The id of the node in the job; `cause` of another node refers to it."),
  kind: z.enum(["instance", "command", "event", "dead_letter"]),
  message_type: z.string().nullable().describe("For an instance: the message that started it."),
  idempotency_key: z.string().nullable(),
  name: z.string().nullable().describe("The workflow of an instance or the queue of a dead letter."),
  status: z
    .string()
    .describe("The status of the instance or dead letter. For a message: `on_its_way` or `taken`. `gone`: a cause that was removed."),
  subject: z.string().nullable(),
  at: timestamp.nullable().describe("When the node was accepted, emitted or captured; null for a removed node."),
  cause: z.string().nullable().describe("The node that caused this node (the edge). Null if the cause is not in the job."),
  causation_id: z.string().nullable().describe("The cause as named in the message."),
  from_instance: z.string().nullable().describe("The instance that emitted the message, or the message that led to the instance."),
  step: z.string().nullable().describe("The step that emitted the message."),
  latency_ms: z.int().nullable().describe("Milliseconds between the cause and the node; for an instance, since its message was created."),
  leads_to: listOf({ instance_id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) }).describe(
    "For a message: the instances that it started, by its key, including `pruned` ones.",
  ),
});
export type JobNode = z.infer<typeof JobNode>;

/** Maximum number of inbox entries of an instance that are searched for messages. */
const READ_ENTRIES = 500;
/** Further messages of an instance get no node, and are counted by type. */
export const TOLD_MESSAGES = 20;
/** A longer message of a dead letter is not parsed for its cause. */
const READ_CHARACTERS = 200_000;

const ENTRIES = fragment(`(SELECT step, item, position, messages, updated_at FROM millrace_inbox
      WHERE millrace_inbox.instance_id = millrace_instances.id LIMIT ${READ_ENTRIES}) e`);

/** Causes precede their effects. `sent_as` is the kind of an instance's message, and `began` the time of its cause. */
export function selectInstances(tenantId: string, job: string, behind: Position, limit: number): Statement {
  return sql`
    SELECT id AS node, 'instance' AS kind, workflow AS name, status, message_type, idempotency_key, causation_id, subject, accepted_at AS at,
      envelope->>'kind' AS sent_as, envelope->>'created_at' AS began,
      (SELECT sum(coalesce(m.value->>'omitted', 1)) FROM ${ENTRIES}, json_each(e.messages) m) AS emitted,
      (SELECT json_group_array(json(told.message)) FROM (
        SELECT json_object('step', e.step, 'item', e.item, 'sent_as', m.value->>'kind', 'message_type', m.value->>'message_type',
          'idempotency_key', m.value->>'idempotency_key', 'causation_id', m.value->>'causation_id', 'subject', m.value->>'subject',
          'made_at', m.value->>'created_at', 'updated_at', e.updated_at) AS message
        FROM ${ENTRIES}, json_each(e.messages) m WHERE m.value->>'omitted' IS NULL
        ORDER BY e.position < 0, e.position, e.item, m.key LIMIT ${TOLD_MESSAGES}) told) AS messages
    FROM millrace_instances INDEXED BY millrace_instances_by_correlation
    WHERE tenant_id = ${tenantId} AND correlation_id = ${job} AND (accepted_at, id) > (${behind.at}, ${behind.id})
    ORDER BY accepted_at, id LIMIT ${limit}`;
}

export function selectLetters(tenantId: string, job: string, behind: Position, limit: number): Statement {
  return sql`
    SELECT id AS node, 'dead_letter' AS kind, queue AS name, state AS status, message_type, idempotency_key, first_at AS began,
      captured_at AS at, iif(length(body) <= ${READ_CHARACTERS}, body->>'kind', NULL) AS sent_as,
      iif(length(body) <= ${READ_CHARACTERS}, body->>'causation_id', NULL) AS causation_id,
      iif(length(body) <= ${READ_CHARACTERS}, body->>'subject', NULL) AS subject
    FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_correlation
    WHERE tenant_id = ${tenantId} AND correlation_id = ${job} AND (captured_at, id) > (${behind.at}, ${behind.id})
    ORDER BY captured_at, id LIMIT ${limit}`;
}

/** Includes the messages that have a node. */
export function countEmitted(instanceId: string): Statement {
  return sql`
    SELECT ${instanceId} AS instance_id, m.value->>'message_type' AS message_type, sum(coalesce(m.value->>'omitted', 1)) AS emitted
    FROM (SELECT messages FROM millrace_inbox WHERE instance_id = ${instanceId} LIMIT ${READ_ENTRIES}) e, json_each(e.messages) m
    GROUP BY m.value->>'message_type'`;
}

export interface Member {
  readonly position: Position;
  readonly nodes: JobNode[];
  readonly emitted: number;
}

/** The member in a row of `selectInstances` or `selectLetters`: a node, and one for each message that an instance emitted. */
export function memberIn(tenantId: string, row: Row): Member {
  const position = { at: Number(row.at), id: String(row.node) };
  const messages = JSON.parse(String(row.messages ?? "[]")) as Row[];
  const nodes = [nodeIn({ ...row, ...causeOf(tenantId, row) }), ...messages.map((one) => messageIn(tenantId, position, one))];
  return { position, nodes, emitted: Number(row.emitted ?? 0) };
}

function messageIn(tenantId: string, { at: began, id }: Position, message: Row): JobNode {
  return nodeIn({
    ...message,
    node: messageNode(tenantId, message),
    kind: message.sent_as === "event" ? "event" : "command",
    name: null,
    status: "taken",
    at: timeOf(message.made_at) ?? message.updated_at,
    cause: id,
    from_instance: id,
    step: labelOf(String(message.step), String(message.item)),
    began,
  });
}

/** The latency is at least 0, although clocks may differ slightly. */
function nodeIn(row: Row): JobNode {
  const began = timeOf(row.began);
  return rowOf(JobNode, { ...row, latency_ms: began === undefined ? null : Math.max(0, Number(row.at) - began), leads_to: [] });
}

/** The node of an event is its key, which its consequences record as their cause. */
function messageNode(tenantId: string, { sent_as, message_type, idempotency_key, causation_id }: Row): string {
  const named = { message_type: text(message_type), idempotency_key: text(idempotency_key), causation_id: text(causation_id) };
  return sent_as === "event" ? named.idempotency_key : messageId({ tenant_id: tenantId, ...named });
}

/** The origin of a message: a step of an instance, an event that an instance emitted, or a source outside the deployment. */
function causeOf(tenantId: string, message: Row): Pick<JobNode, "cause" | "from_instance" | "step"> {
  const causation = text(message.causation_id);
  const [, emitter, label] = /^([0-9a-f]{32})\/(.+)$/s.exec(causation) ?? [];
  if (emitter !== undefined && label !== undefined) {
    const step = label.replace(/( · generation \d+)?( · message \d+)?$/, "");
    return { cause: messageNode(tenantId, message), from_instance: emitter, step };
  }
  const [, teller] = /^([0-9a-f]{32})\.[0-9a-f]{16}$/.exec(causation) ?? [];
  return { cause: teller === undefined ? null : causation, from_instance: teller ?? null, step: null };
}

const text = (value: unknown) => (typeof value === "string" ? value : "");

/** Reads a column with milliseconds or a text of a sender; undefined if the text is no time. */
function timeOf(said: unknown): number | undefined {
  const at = typeof said === "number" ? said : Date.parse(text(said));
  return Number.isNaN(at) ? undefined : at;
}
