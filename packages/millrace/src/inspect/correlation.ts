import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { instanceId, messageId } from "../contract/ids.ts";
import { component, iso, listOf, rowOf, timestamp } from "../contract/row.ts";
import { among, fragment, type Statement, sql } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import { beginning } from "../contract/text.ts";
import type { Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";
import { type Page, type PageRequest, type Position, positionOf } from "../store/d1/paging.ts";
import type { Row } from "../store/d1/retry.ts";
import { MAX_COUNTED } from "../store/health.ts";
import { INSTANCE_STATUSES, UNDER_WAY } from "../store/instances/status.ts";
import { selectPruned } from "../store/tombstones.ts";
import type { Catalog } from "../topology/catalog.ts";

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
const TOLD_MESSAGES = 20;
/** A longer message of a dead letter is not parsed for its cause. */
const READ_CHARACTERS = 200_000;

const ENTRIES = fragment(`(SELECT step, item, position, messages, updated_at FROM millrace_inbox
      WHERE millrace_inbox.instance_id = millrace_instances.id LIMIT ${READ_ENTRIES}) e`);

/** Causes precede their effects. `sent_as` is the kind of an instance's message, and `began` the time of its cause. */
function selectInstances(tenantId: string, job: string, behind: Position, limit: number): Statement {
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

function selectLetters(tenantId: string, job: string, behind: Position, limit: number): Statement {
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
function countEmitted(instanceId: string): Statement {
  return sql`
    SELECT ${instanceId} AS instance_id, m.value->>'message_type' AS message_type, sum(coalesce(m.value->>'omitted', 1)) AS emitted
    FROM (SELECT messages FROM millrace_inbox WHERE instance_id = ${instanceId} LIMIT ${READ_ENTRIES}) e, json_each(e.messages) m
    GROUP BY m.value->>'message_type'`;
}

interface Member {
  readonly position: Position;
  readonly nodes: JobNode[];
  readonly emitted: number;
}

/** The member in a row of `selectInstances` or `selectLetters`: a node, and one for each message that an instance emitted. */
function memberIn(tenantId: string, row: Row): Member {
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

const CountedInstances = z.object({ status: z.enum(INSTANCE_STATUSES), workflow: z.string(), message_type: z.string(), count: z.int() });
const CountedLetters = z.object({ state: z.string(), count: z.int() });

export const JobSummary = component("JobSummary", {
  open: z.boolean().describe("True while an instance of the job is running."),
  first_at: timestamp.nullable(),
  last_at: timestamp.nullable(),
  instances: z.array(CountedInstances),
  dead_letters: z.array(CountedLetters),
  more: z.boolean().describe("True if the job has more instances or messages than the first 10,000 of each, which are counted."),
});
export type JobSummary = z.infer<typeof JobSummary>;

/** The messages without a node, of an instance that emitted many messages. */
export const Collapsed = z.object({ instance_id: z.string(), message_type: z.string(), count: z.int() });
export type Collapsed = z.infer<typeof Collapsed>;

type Startable = Pick<Catalog["workflows"][number], "name" | "on">;

/**
 * A page of the tenant's members of a job, from causes to effects. Only the first page has the summary. The cost of a page does not depend
 * on the size of the job. Errors: `correlation_not_found`.
 */
export async function readJob(
  env: Pick<EngineEnv, "DB">,
  { tenantId }: Operator,
  job: string,
  { workflows, ...request }: PageRequest & { workflows: readonly Startable[] },
): Promise<Page<JobNode> & { summary: JobSummary | null; collapsed: Collapsed[] }> {
  const size = Math.min(request.limit ?? 50, 200);
  const behind = positionOf(request.cursor) ?? FIRST;
  const isFirst = behind === FIRST;
  const found = await namedBatch(env.DB, {
    instances: selectInstances(tenantId, job, behind, size + 1),
    letters: selectLetters(tenantId, job, behind, size + 1),
    statuses: isFirst ? countInstances(tenantId, job) : [],
    states: isFirst ? countLetters(tenantId, job) : [],
  });
  const members = [...found.instances, ...found.letters].map((row) => memberIn(tenantId, row)).sort(byPosition);
  if (isFirst && members.length === 0) throw unknownJob(job);
  const told = members.slice(0, size);
  const last = told.at(-1)?.position;
  return {
    summary: isFirst ? summaryOf(found.statuses, found.states) : null,
    ...(await joined(env, tenantId, told, workflows)),
    next: members.length > size && last ? `${last.at}.${last.id}` : null,
  };
}

const FIRST: Position = { at: 0, id: "" };

function byPosition({ position: a }: Member, { position: b }: Member): number {
  return a.at - b.at || (a.id < b.id ? -1 : 1);
}

function unknownJob(job: string): MillraceError {
  const said = `There is no job ${beginning(job, 64)}: no record has this correlation id, or its records are pruned. Search with GET /v1/search.`;
  return new MillraceError("correlation_not_found", said);
}

function countInstances(tenantId: string, job: string): Statement {
  return sql`
    SELECT status, workflow, message_type, count(*) AS count, min(accepted_at) AS first_at, max(updated_at) AS last_at FROM (
      SELECT status, workflow, message_type, accepted_at, updated_at FROM millrace_instances INDEXED BY millrace_instances_by_correlation
      WHERE tenant_id = ${tenantId} AND correlation_id = ${job} ORDER BY accepted_at, id LIMIT ${MAX_COUNTED})
    GROUP BY status, workflow, message_type`;
}

function countLetters(tenantId: string, job: string): Statement {
  return sql`
    SELECT state, count(*) AS count FROM (
      SELECT state FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_correlation
      WHERE tenant_id = ${tenantId} AND correlation_id = ${job} LIMIT ${MAX_COUNTED})
    GROUP BY state`;
}

function summaryOf(instances: readonly Row[], letters: readonly Row[]): JobSummary {
  const counted = instances.map((row) => rowOf(CountedInstances, row));
  const dead_letters = letters.map((row) => rowOf(CountedLetters, row));
  const isFull = (rows: readonly { count: number }[]) => rows.reduce((sum, { count }) => sum + count, 0) >= MAX_COUNTED;
  return {
    open: counted.some(({ status }) => UNDER_WAY.has(status)),
    first_at: instances.length === 0 ? null : iso(Math.min(...instances.map(({ first_at }) => Number(first_at)))),
    last_at: instances.length === 0 ? null : iso(Math.max(...instances.map(({ last_at }) => Number(last_at)))),
    instances: counted,
    dead_letters,
    more: isFull(counted) || isFull(dead_letters),
  };
}

/** Adds the outbox state of messages, the instances that messages started, and removed causes. */
async function joined(env: Pick<EngineEnv, "DB">, tenantId: string, members: readonly Member[], workflows: readonly Startable[]) {
  const nodes = members.flatMap((member) => member.nodes);
  const started = new Map(nodes.map((node) => [node, startedBy(tenantId, node, workflows)]));
  const causes = nodes.flatMap(({ kind, from_instance }) => (kind !== "command" && kind !== "event" && from_instance) || []);
  const crowded = members.filter(({ emitted }) => emitted > TOLD_MESSAGES);
  const ids = [...started.values()].flat();
  const found = await namedBatch(env.DB, {
    // A sender chooses the causation id, so an instance of another tenant must look like an unknown one.
    known: sql`
      SELECT id, status FROM millrace_instances WHERE id IN ${among([...new Set([...ids, ...causes])])} AND +tenant_id = ${tenantId}`,
    pruned: selectPruned(ids),
    waiting: sql`SELECT id FROM millrace_outbox WHERE id IN ${among(nodes.map((node) => sentAs(tenantId, node)))}`,
    emitted: crowded.map(({ position }) => countEmitted(position.id)),
  });
  const statuses = new Map(
    [...found.pruned, ...found.known].map(({ id, status = "pruned" }) => [String(id), status as JobNode["leads_to"][number]["status"]]),
  );
  const waiting = new Set(found.waiting.map(({ id }) => id));
  for (const [node, instances] of started) {
    node.leads_to = instances.flatMap((instance_id) => {
      const status = statuses.get(instance_id);
      return status === undefined ? [] : [{ instance_id, status }];
    });
    if (waiting.has(sentAs(tenantId, node))) node.status = "on_its_way";
  }
  const gone = causes.filter((id) => !statuses.has(id));
  return { items: withGone(nodes, new Set(gone)), collapsed: collapsedOf(nodes, found.emitted) };
}

function startedBy(tenantId: string, { kind, message_type, idempotency_key: key }: JobNode, workflows: readonly Startable[]): string[] {
  if (key === null) return [];
  return workflows.filter(({ on }) => on.type === message_type && on.kind === kind).map(({ name }) => instanceId(tenantId, name, key));
}

/** The message's id in the outbox; "" for a node that is not a message. */
function sentAs(tenantId: string, { kind, message_type, idempotency_key, causation_id }: JobNode): string {
  const isMessage = kind === "command" || kind === "event";
  if (!isMessage || message_type === null || idempotency_key === null || causation_id === null) return "";
  return messageId({ tenant_id: tenantId, message_type, idempotency_key, causation_id });
}

/** Inserts a node for each removed instance, before the first node that it caused. */
function withGone(nodes: readonly JobNode[], gone: Set<string>): JobNode[] {
  return nodes.flatMap((node) => {
    const { from_instance } = node;
    return from_instance !== null && gone.delete(from_instance) ? [goneNode(from_instance), node] : [node];
  });
}

function goneNode(id: string): JobNode {
  const unknown = { message_type: null, idempotency_key: null, name: null, subject: null, at: null, cause: null, causation_id: null };
  return { node: id, kind: "instance", status: "gone", ...unknown, from_instance: null, step: null, latency_ms: null, leads_to: [] };
}

function collapsedOf(nodes: readonly JobNode[], counted: readonly Record<string, unknown>[]): Collapsed[] {
  return counted.flatMap(({ instance_id, message_type, emitted }) => {
    const isTold = (node: JobNode) =>
      node.from_instance === instance_id && node.cause === instance_id && node.message_type === message_type;
    const count = Number(emitted) - nodes.filter(isTold).length;
    return count > 0 ? [{ instance_id: String(instance_id), message_type: String(message_type), count }] : [];
  });
}
