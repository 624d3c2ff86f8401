import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { instanceId, messageId } from "../../contract/ids.ts";
import { among, sql } from "../../contract/sql.ts";
import { namedBatch } from "../../store/d1/named.ts";
import type { InstanceStatus } from "../../store/instances/status.ts";
import { selectPruned } from "../../store/tombstones.ts";
import { countEmitted, type Member, TOLD_MESSAGES } from "./members.ts";
import type { JobNode } from "./node.ts";

export interface Startable {
  readonly name: string;
  readonly on: { readonly type: string; readonly kind: string };
}

/** A count of the messages without a node of their own, of an instance that emitted many messages. */
export const Collapsed = z.object({ instance_id: z.string(), message_type: z.string(), count: z.int() });
export type Collapsed = z.infer<typeof Collapsed>;

/**
 * The nodes of a page, completed with data from other tables: the outbox state of messages, the instances that messages started, and
 * removed causes.
 */
export async function joined(
  env: Pick<EngineEnv, "DB">,
  tenantId: string,
  members: readonly Member[],
  workflows: readonly Startable[],
): Promise<{ nodes: JobNode[]; collapsed: Collapsed[] }> {
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
  const statuses = new Map([
    ...found.pruned.map(({ id }) => [String(id), "pruned" as JobNode["leads_to"][number]["status"]] as const),
    ...found.known.map(({ id, status }) => [String(id), status as InstanceStatus] as const),
  ]);
  const waiting = new Set(found.waiting.map(({ id }) => id));
  for (const [node, instances] of started) {
    node.leads_to = instances.flatMap((instance_id) => {
      const status = statuses.get(instance_id);
      return status === undefined ? [] : [{ instance_id, status }];
    });
    if (waiting.has(sentAs(tenantId, node))) node.status = "on_its_way";
  }
  const gone = causes.filter((id) => !statuses.has(id));
  return { nodes: withGone(nodes, new Set(gone)), collapsed: collapsedOf(nodes, found.emitted) };
}

function startedBy(tenantId: string, { kind, message_type, idempotency_key: key }: JobNode, workflows: readonly Startable[]): string[] {
  if (key === null || (kind !== "command" && kind !== "event")) return [];
  return workflows.filter(({ on }) => on.type === message_type && on.kind === kind).map(({ name }) => instanceId(tenantId, name, key));
}

/** The id of a message's row in the outbox; "" for a node that is not a message. */
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
