import type { Answer, Item } from "../../data/api.ts";
import { hrefOf } from "../../frame/router.tsx";
import { type Tone, toneOf } from "../../parts/status.tsx";

export type Page = Answer<"/v1/correlations/:id">;
type JobNode = Item<"/v1/correlations/:id">;

export interface ReadJob {
  summary: NonNullable<Page["summary"]>;
  nodes: JobNode[];
  collapsed: Page["collapsed"];
  elsewhere: Page["elsewhere"];
}

/** A node of a job, or a group of nodes that have the same type and the same cause. The graph and the list use the same labels. */
export interface Knot {
  id: string;
  /** `counted` is a group of messages for which the API returns only the number of messages. */
  kind: JobNode["kind"] | "counted";
  label: string;
  count: number;
  statuses: (readonly [word: string, count: number])[];
  subject: string | null;
  step: string | null;
  at: string | null;
  /** The latencies in ms between the cause and the nodes of this group, as far as they are known. */
  latencies: number[];
  href: string;
  children: Knot[];
  depth: number;
}

export function treeOf({ nodes, collapsed }: ReadJob): Knot[] {
  const knots = new Map(nodes.map((node) => [node.node, knotOf(node)]));
  const counted = new Map<string, Knot>();
  for (const { instance_id, message_type, count } of collapsed) {
    const id = `${instance_id} ${message_type}`;
    const knot = { ...bare(id, "counted", message_type, hrefOf("instances", instance_id)), count };
    counted.set(id, knot);
    knots.get(instance_id)?.children.push(knot);
  }
  const roots: Knot[] = [];
  for (const node of nodes) {
    const knot = knots.get(node.node) as Knot;
    // Nodes whose cause is in a counted group become children of this group.
    const from = counted.get(`${node.from_instance} ${node.message_type}`) ?? knots.get(node.from_instance ?? "");
    const cause = knots.get(node.cause ?? "") ?? (from === knot ? undefined : from);
    if (cause) cause.children.push(knot);
    else roots.push(knot);
    for (const { instance_id: id, status } of node.leads_to) {
      if (knots.has(id)) continue;
      const label = status === "pruned" ? "an instance, since pruned" : "an instance, shown further below";
      knot.children.push({ ...bare(`${node.node} ${id}`, "instance", label, hrefOf("instances", id)), statuses: [[status, 1]] });
    }
  }
  return whole(roots, [...knots.values()]);
}

const bare = (id: string, kind: Knot["kind"], label: string, href: string): Knot => ({
  ...{ id, kind, label, href, count: 1, statuses: [], subject: null, step: null, at: null },
  ...{ latencies: [], children: [], depth: 0 },
});

function knotOf(node: JobNode): Knot {
  const label = node.name ?? node.message_type ?? "an instance, since removed";
  const from = node.from_instance ?? node.node;
  const href =
    node.status === "gone"
      ? hrefOf("messages", { q: node.node })
      : node.kind === "dead_letter"
        ? hrefOf("dead-letters", node.node)
        : hrefOf("instances", node.kind === "instance" ? node.node : from);
  return {
    ...bare(node.node, node.kind, label, href),
    statuses: [[node.status, 1]],
    subject: node.subject,
    step: node.step,
    at: node.at,
    latencies: node.latency_ms === null ? [] : [node.latency_ms],
  };
}

/**
 * Sets the depth of each node of a job. Causes can form a cycle, because senders may set any cause. Such a cycle becomes a separate tree.
 */
function whole(roots: Knot[], all: readonly Knot[]): Knot[] {
  const seen = new Set<Knot>();
  const visit = (root: Knot) => {
    const stack = [root];
    seen.add(root);
    for (let knot = stack.pop(); knot; knot = stack.pop()) {
      const { depth } = knot;
      knot.children = knot.children.filter((child) => !seen.has(child));
      for (const child of knot.children) {
        child.depth = depth + 1;
        seen.add(child);
        stack.push(child);
      }
    }
  };
  for (const root of roots) visit(root);
  const found = [...roots];
  for (const knot of all) {
    if (seen.has(knot)) continue;
    found.push(knot);
    visit(knot);
  }
  return found;
}

/** Groups the nodes of a job that have the same label and the same type of cause. `job` is the filter for the list of these nodes. */
export function byType(roots: readonly Knot[], job: string): Knot[] {
  const top: Knot = bare("", "counted", "", "");
  const stack: [into: Knot, knots: readonly Knot[]][] = [[top, roots]];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const [into, knots] = next;
    for (const [name, of] of Map.groupBy(knots, ({ kind, label }) => `${kind} ${label}`)) {
      const group = together(`${into.id}/${name}`, of, job);
      group.depth = into.id === "" ? 0 : into.depth + 1;
      into.children.push(group);
      stack.push([group, of.flatMap(({ children }) => children)]);
    }
  }
  return top.children;
}

function together(id: string, of: readonly Knot[], job: string): Knot {
  const [first] = of as [Knot, ...Knot[]];
  const counts = new Map<string, number>();
  for (const [word, count] of of.flatMap(({ statuses }) => statuses)) counts.set(word, (counts.get(word) ?? 0) + count);
  const same = (values: (string | null)[]) => (new Set(values).size === 1 ? (values[0] ?? null) : null);
  const ofAll = first.kind === "dead_letter" ? hrefOf("dead-letters", { queue: first.label }) : hrefOf("instances", { correlation: job });
  const ofWorkflow = first.kind === "instance" ? hrefOf("instances", { correlation: job, workflow: first.label }) : ofAll;
  return {
    ...bare(id, first.kind, first.label, of.length === 1 ? first.href : ofWorkflow),
    count: of.reduce((sum, { count }) => sum + count, 0),
    statuses: [...counts].toSorted(([, one], [, other]) => other - one),
    subject: same(of.map(({ subject }) => subject)),
    step: same(of.map(({ step }) => step)),
    at: of.length === 1 ? first.at : null,
    latencies: of.flatMap(({ latencies }) => latencies),
  };
}

export function inOrder(roots: readonly Knot[]): Knot[] {
  const found: Knot[] = [];
  const stack = roots.toReversed();
  for (let knot = stack.pop(); knot; knot = stack.pop()) {
    found.push(knot);
    for (const child of knot.children.toReversed()) stack.push(child);
  }
  return found;
}

const WORST: readonly Tone[] = ["red", "orange", "amber", "grey", "violet", "blue", "green", "quiet"];

/** The tone of a node's status. An open dead letter never has a neutral tone. */
export function toneFor({ kind }: Knot, word: string): Tone {
  return kind === "dead_letter" && word === "open" ? "red" : toneOf(word);
}

export function worstOf(knot: Knot): Tone {
  const tones = new Set(knot.statuses.map(([word]) => toneFor(knot, word)));
  return WORST.find((tone) => tones.has(tone)) ?? "quiet";
}

export function latencyOf({ latencies }: Knot): number | undefined {
  return latencies.toSorted((one, other) => one - other)[Math.floor(latencies.length / 2)];
}
