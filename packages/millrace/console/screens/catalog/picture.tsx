import { useMemo } from "preact/hooks";
import type { Answer } from "../../data/api.ts";
import { go, hrefOf } from "../../frame/router.tsx";
import { Wide } from "../../parts/text.tsx";

export type Catalog = Answer<"/v1/catalog">;

/** An edge of the catalog's graph. `seen` is true for an edge that the engine observed, but that the catalog does not declare. */
interface Edge {
  from: string;
  to: string;
  isSeen: boolean;
}

export function graphOf({ messages, workflows }: Pick<Catalog, "messages" | "workflows">) {
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
  return { names, edges };
}

const NODE = { width: 168, height: 28, gapX: 48, gapY: 12, apart: 28 } as const;

/** Splits the name of a node, such as `workflow publish-article`, into its kind and its title. */
export function partsOfName(name: string): [kind: string, title: string] {
  const at = name.indexOf(" ");
  return [name.slice(0, at), name.slice(at + 1)];
}

interface Placed {
  name: string;
  x: number;
  y: number;
}

/** Lays out the graph. Causes are to the left of their effects, and unconnected parts of the graph are below each other. */
function drawn({ names, edges }: ReturnType<typeof graphOf>) {
  const placed: Placed[] = [];
  let top = 0;
  for (const part of partsOf(names, edges)) {
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
    for (const [index, column] of columns.entries())
      for (const name of column) placed.push({ name, x: index * (NODE.width + NODE.gapX), y: ys.get(name) ?? top });
    top = bottom + NODE.apart - NODE.gapY;
  }
  const width = Math.max(0, ...placed.map(({ x }) => x)) + NODE.width;
  return { nodes: placed, edges, width, height: Math.max(0, top - NODE.apart) };
}

/** Finds the connected components of the graph. The largest component comes first. */
function partsOf(names: Iterable<string>, edges: readonly Edge[]): Set<string>[] {
  const left = new Set(names);
  const parts: Set<string>[] = [];
  for (const name of names) {
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

const ROOM = 24;

/** Draws the graph of causes and effects. The tables on the same screen have the same content. */
export function Picture({ catalog }: { catalog: Catalog }) {
  const { nodes, edges, width, height } = useMemo(() => drawn(graphOf(catalog)), [catalog]);
  const at = new Map(nodes.map((node) => [node.name, node]));
  return (
    <figure class="catalog-picture">
      <Wide label="Graph of commands, workflows and events; the tables below contain the same" width={width + 8}>
        {(scale) => (
          <svg viewBox={`-4 -4 ${width + 8} ${height + 8}`} width={(width + 8) * scale} height={(height + 8) * scale} aria-hidden="true">
            <marker id="catalog-end" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">
              <path d="M0 0 6 3 0 6z" />
            </marker>
            {edges.map(({ from, to, isSeen }) => {
              const [one, other] = [at.get(from), at.get(to)];
              return (
                one &&
                other && (
                  <path
                    key={`${from} ${to}`}
                    class={isSeen ? "catalog-seen" : undefined}
                    d={way(one, other)}
                    marker-end="url(#catalog-end)"
                  />
                )
              );
            })}
            {nodes.map(({ name, x, y }) => {
              const [kind, title] = partsOfName(name);
              const isEvent = kind === "event";
              return (
                // biome-ignore lint/a11y/noStaticElementInteractions: the tables have the same links for keyboards
                <g key={name} data-kind={kind} onClick={() => go(hrefOf("catalog", name))}>
                  <title>{name}</title>
                  <rect x={x} y={y} width={NODE.width} height={NODE.height} rx={isEvent ? NODE.height / 2 : 4} />
                  <text x={x + (isEvent ? 14 : 10)} y={y + 18}>
                    {title.length > ROOM ? `${title.slice(0, ROOM - 1)}…` : title}
                  </text>
                </g>
              );
            })}
          </svg>
        )}
      </Wide>
      <figcaption class="quiet">
        {["command", "workflow", "event"].map((kind) => (
          <span key={kind}>
            <svg viewBox="0 0 28 16" width="28" height="16" aria-hidden="true">
              <g data-kind={kind}>
                <rect x="1" y="1" width="26" height="14" rx={kind === "event" ? 7 : 3} />
              </g>
            </svg>
            {kind}
          </span>
        ))}
        <span>
          Dashed line: observed in the newest {catalog.seen_instances} instances. The messages that code emits are known only after a run.
        </span>
      </figcaption>
    </figure>
  );
}

/** Draws an edge from the right side of one node to the left side of another node. An edge to the left passes below both nodes. */
function way({ x, y }: Placed, to: Placed): string {
  const [x1, y1, x2, y2] = [x + NODE.width, y + NODE.height / 2, to.x, to.y + NODE.height / 2];
  if (x2 > x1) {
    // The edge bends near its end, so that it does not cross nodes.
    const bend = NODE.gapX / 2;
    const from = x2 - 2 * bend;
    return `M${x1} ${y1}H${from}C${from + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  const under = Math.max(y1, y2) + NODE.height / 2 + NODE.gapY / 2;
  return `M${x1} ${y1}C${x1 + 24} ${y1} ${x1 + 24} ${under} ${x1} ${under}H${x2}C${x2 - 24} ${under} ${x2 - 24} ${y2} ${x2} ${y2}`;
}
