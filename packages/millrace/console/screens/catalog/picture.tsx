import { useMemo } from "preact/hooks";
import type { Answer } from "../../data/api.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { cut, Graph, inOrder, type Knot, treesOf } from "../../parts/graph.tsx";

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
    ...messages.flatMap(({ kind, type, targets }) =>
      targets.flatMap((one) => (one.type === null ? [] : [{ from: `${kind} ${type}`, to: `command ${one.type}`, isSeen: false }])),
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
  return { names, edges: [...new Map(edges.map((one) => [`${one.from} ${one.to} ${one.isSeen}`, one])).values()] };
}

/** Splits the name of a node, such as `workflow publish-article`, into its kind and its title. */
export function partsOfName(name: string): [kind: string, title: string] {
  const at = name.indexOf(" ");
  return [name.slice(0, at), name.slice(at + 1)];
}

interface Node extends Knot<Node> {}

const SIZE = { width: 168, height: 28, gapX: 48, gapY: 12 } as const;
const LETTERS = 24;

/** Draws the graph of causes and effects. The tables on the same screen have the same content. */
export function Picture({ catalog }: { catalog: Catalog }) {
  const { names, edges } = useMemo(() => graphOf(catalog), [catalog]);
  const nodes = new Map([...names].map((id) => [id, { id, depth: 0, children: [] } as Node]));
  const of = (name: string) => nodes.get(name) as Node;
  const seen = new Set(edges.flatMap(({ from, to, isSeen }) => (isSeen ? [`${from} ${to}`] : [])));
  const roots = treesOf(nodes.values(), ({ id }) => edges.filter(({ to }) => to === id).map(({ from }) => of(from)));
  return (
    <figure class="catalog-picture">
      <Graph
        label="Graph of commands, workflows and events; the tables below contain the same"
        roots={roots.toSorted((one, other) => inOrder([other]).length - inOrder([one]).length)}
        size={SIZE}
        edges={edges.map(({ from, to }) => [of(from), of(to)])}
        edge={(path, { id: from }, { id: to }) => (
          <g key={`${from} ${to}`} class="edge" data-open={seen.has(`${from} ${to}`) || undefined}>
            <path d={path} marker-end="url(#catalog-end)" />
          </g>
        )}
      >
        {({ id }) => {
          const [kind, title] = partsOfName(id);
          return (
            <Link to={hrefOf("catalog", id)} tabindex={-1} data-kind={kind}>
              <title>{id}</title>
              <rect width={SIZE.width} height={SIZE.height} rx={kind === "event" ? SIZE.height / 2 : 4} />
              <text class="name" x={12} y={18}>
                {cut(title, LETTERS)}
              </text>
            </Link>
          );
        }}
      </Graph>
      <figcaption class="quiet">
        <svg width="0" height="0" aria-hidden="true">
          <marker id="catalog-end" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">
            <path d="M0 0 6 3 0 6z" />
          </marker>
        </svg>
        {["command", "workflow", "event"].map((kind) => (
          <span key={kind} class="node" data-kind={kind}>
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
