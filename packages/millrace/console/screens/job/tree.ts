import type { Answer, Item } from "../../data/api.ts";
import { hrefOf } from "../../frame/router.tsx";
import { type Knot as GraphKnot, treesOf } from "../../parts/graph.tsx";
import { type Tone, toneOf } from "../../parts/status.tsx";

export type Page = Answer<"/v1/correlations/:id">;
type JobNode = Item<"/v1/correlations/:id">;

export interface ReadJob {
  summary: NonNullable<Page["summary"]>;
  nodes: JobNode[];
  collapsed: Page["collapsed"];
  elsewhere: Page["elsewhere"];
  isMore: boolean;
}

/** A node of a job, or a group of nodes that have the same type and the same cause. The graph and the list use the same labels. */
export interface Knot extends GraphKnot<Knot> {
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
}

export function treeOf({ nodes, collapsed }: ReadJob): Knot[] {
  const knots = new Map(nodes.map((node) => [node.node, knotOf(node)]));
  const counted = new Map<string, Knot>();
  const causes = new Map<Knot, Knot | undefined>();
  for (const { instance_id, message_type, count } of collapsed) {
    const id = `${instance_id} ${message_type}`;
    const knot = { ...bare(id, "counted", message_type, hrefOf("instances", instance_id)), count };
    counted.set(id, knot);
    causes.set(knot, knots.get(instance_id));
  }
  for (const node of nodes) {
    const knot = knots.get(node.node) as Knot;
    // Nodes whose cause is in a counted group become children of this group.
    const from = counted.get(`${node.from_instance} ${node.message_type}`) ?? knots.get(node.from_instance ?? "");
    causes.set(knot, knots.get(node.cause ?? "") ?? from);
    for (const { instance_id: id, status } of node.leads_to) {
      if (knots.has(id)) continue;
      const label = status === "pruned" ? "an instance, since pruned" : "an instance, shown further below";
      causes.set({ ...bare(`${node.node} ${id}`, "instance", label, hrefOf("instances", id)), statuses: [[status, 1]] }, knot);
    }
  }
  return treesOf(causes.keys(), (knot) => [causes.get(knot)].filter((cause) => cause !== undefined));
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
