import type { Answer } from "../../data/api.ts";

export type Catalog = Answer<"/v1/catalog">;

export interface Node {
  name: string;
  kind: "command" | "event" | "workflow";
  title: string;
}

/** An edge of the catalog's graph. `seen` is true for an edge that the engine observed, but that the catalog does not declare. */
export interface Edge {
  from: string;
  to: string;
  isSeen: boolean;
}

export interface Graph {
  nodes: Node[];
  edges: Edge[];
}

export function graphOf({ messages, workflows }: Pick<Catalog, "messages" | "workflows">): Graph {
  const edges: Edge[] = [
    ...workflows.map(({ name, on }) => ({ from: `${on.kind} ${on.type}`, to: `workflow ${name}`, isSeen: false })),
    ...messages.flatMap(({ kind, type, follows }) =>
      follows.flatMap((one) => (one.type === null ? [] : [{ from: `${kind} ${type}`, to: `command ${one.type}`, isSeen: false }])),
    ),
    ...workflows.flatMap(({ name, emits }) =>
      emits.map(({ kind, type }) => ({ from: `workflow ${name}`, to: `${kind} ${type}`, isSeen: true })),
    ),
  ];
  const names = new Set([
    ...messages.map(({ kind, type }) => `${kind} ${type}`),
    ...workflows.map(({ name }) => `workflow ${name}`),
    ...edges.flatMap(({ from, to }) => [from, to]),
  ]);
  return { nodes: [...names].map(nodeNamed), edges };
}

function nodeNamed(name: string): Node {
  const at = name.indexOf(" ");
  return { name, kind: name.slice(0, at) as Node["kind"], title: name.slice(at + 1) };
}

export const NODE = { width: 168, height: 28, gapX: 48, gapY: 12, apart: 28 } as const;

export interface Placed extends Node {
  x: number;
  y: number;
}

export interface Picture {
  nodes: Placed[];
  edges: Edge[];
  width: number;
  height: number;
}

/** Lays out the graph. Causes are to the left of their effects, and unconnected parts of the graph are below each other. */
export function drawn({ nodes, edges }: Graph): Picture {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const placed: Placed[] = [];
  let top = 0;
  for (const part of partsOf(nodes, edges)) {
    const of = edges.filter(({ from }) => part.has(from));
    const columns = columnsOf(part, of);
    const ys = new Map<string, number>();
    let bottom = top;
    for (const column of columns) {
      const wish = (name: string) => {
        const before = of.filter(({ to, from }) => to === name && ys.has(from)).map(({ from }) => ys.get(from) ?? 0);
        return before.length === 0 ? top : before.reduce((sum, y) => sum + y, 0) / before.length;
      };
      let y = top;
      for (const name of column.toSorted((one, other) => wish(one) - wish(other) || (one < other ? -1 : 1))) {
        y = Math.max(y, Math.round(wish(name)));
        ys.set(name, y);
        y += NODE.height + NODE.gapY;
      }
      bottom = Math.max(bottom, y);
    }
    for (const [index, column] of columns.entries()) {
      for (const name of column) {
        const node = byName.get(name);
        if (node) placed.push({ ...node, x: index * (NODE.width + NODE.gapX), y: ys.get(name) ?? top });
      }
    }
    top = bottom + NODE.apart - NODE.gapY;
  }
  const width = Math.max(0, ...placed.map(({ x }) => x)) + NODE.width;
  return { nodes: placed, edges, width, height: Math.max(0, top - NODE.apart) };
}

/** Finds the connected components of the graph. The largest component comes first. */
function partsOf(nodes: readonly Node[], edges: readonly Edge[]): Set<string>[] {
  const left = new Set(nodes.map(({ name }) => name));
  const parts: Set<string>[] = [];
  for (const { name } of nodes) {
    if (!left.has(name)) continue;
    const part = new Set<string>();
    const open = [name];
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      if (!left.delete(one)) continue;
      part.add(one);
      for (const { from, to } of edges) if (from === one || to === one) open.push(from === one ? to : from);
    }
    parts.push(part);
  }
  return parts.sort((one, other) => other.size - one.size);
}

/**
 * Distributes the nodes of a component to columns. Each node is one column to the right of its rightmost cause. Edges that close a cycle
 * are ignored.
 */
function columnsOf(part: ReadonlySet<string>, edges: readonly Edge[]): string[][] {
  const depths = new Map<string, number>();
  const onTheWay = new Set<string>();
  const depthOf = (name: string): number => {
    const known = depths.get(name);
    if (known !== undefined) return known;
    onTheWay.add(name);
    const before = edges.filter(({ from, to }) => to === name && !onTheWay.has(from)).map(({ from }) => depthOf(from));
    onTheWay.delete(name);
    const depth = before.length === 0 ? 0 : Math.max(...before) + 1;
    depths.set(name, depth);
    return depth;
  };
  const columns: string[][] = [];
  for (const name of part) {
    const depth = depthOf(name);
    columns[depth] ??= [];
    columns[depth]?.push(name);
  }
  return Array.from(columns, (column = []) => column);
}
