import type { EngineEnv } from "../../contract/bindings.ts";
import { instanceId, messageId } from "../../contract/ids.ts";
import { among, sql } from "../../contract/sql.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { selectPruned } from "../../store/tombstones.ts";
import { countEmitted, type Member, TOLD_MESSAGES } from "./members.ts";
import type { JobNode } from "./node.ts";

export interface Startable {
  readonly name: string;
  readonly on: { readonly type: string; readonly kind: string };
}

export interface Collapsed {
  instanceId: string;
  messageType: string;
  count: number;
}

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
  const causes = nodes.flatMap(({ kind, fromInstance }) => (kind !== "command" && kind !== "event" && fromInstance) || []);
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
    ...found.pruned.map(({ id }) => [String(id), "pruned"] as const),
    ...found.known.map(({ id, status }) => [String(id), String(status)] as const),
  ]);
  const waiting = new Set(found.waiting.map(({ id }) => id));
  for (const [node, instances] of started) {
    node.leadsTo = instances.flatMap((id) => ({ instanceId: id, status: statuses.get(id) ?? "" })).filter(({ status }) => status !== "");
    if (waiting.has(sentAs(tenantId, node))) node.status = "on_its_way";
  }
  const gone = causes.filter((id) => !statuses.has(id));
  return { nodes: withGone(nodes, new Set(gone)), collapsed: collapsedOf(nodes, found.emitted) };
}

function startedBy(tenantId: string, { kind, messageType, key }: JobNode, workflows: readonly Startable[]): string[] {
  if (key === null || (kind !== "command" && kind !== "event")) return [];
  return workflows.filter(({ on }) => on.type === messageType && on.kind === kind).map(({ name }) => instanceId(tenantId, name, key));
}

/** The id of a message's row in the outbox; "" for a node that is not a message. */
function sentAs(tenantId: string, { kind, messageType, key, causationId }: JobNode): string {
  if (kind === "instance" || kind === "dead_letter" || messageType === null || key === null || causationId === null) return "";
  return messageId({ tenant_id: tenantId, message_type: messageType, idempotency_key: key, causation_id: causationId });
}

/** Inserts a node for each removed instance, before the first node that it caused. */
function withGone(nodes: readonly JobNode[], gone: Set<string>): JobNode[] {
  return nodes.flatMap((node) => {
    const { fromInstance } = node;
    if (fromInstance === null || !gone.delete(fromInstance)) return [node];
    return [goneNode(fromInstance), node];
  });
}

function goneNode(id: string): JobNode {
  const unknown = { messageType: null, key: null, name: null, subject: null, at: null, cause: null, causationId: null };
  return { node: id, kind: "instance", status: "gone", ...unknown, fromInstance: null, step: null, latencyMs: null, leadsTo: [] };
}

function collapsedOf(nodes: readonly JobNode[], counted: readonly Record<string, unknown>[]): Collapsed[] {
  return counted.flatMap(({ instance_id, message_type, emitted }) => {
    const isTold = (node: JobNode) => node.fromInstance === instance_id && node.cause === instance_id && node.messageType === message_type;
    const count = Number(emitted) - nodes.filter(isTold).length;
    return count > 0 ? [{ instanceId: String(instance_id), messageType: String(message_type), count }] : [];
  });
}
