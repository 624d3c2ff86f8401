import type { ComponentChildren } from "preact";
import "./graph.css";

/** A node of a graph. The type of the nodes extends this one. */
export interface Knot<Node> {
  id: string;
  depth: number;
  children: Node[];
}

/** Makes trees of nodes: each node becomes a child of its deepest cause. A cause that closes a cycle is ignored. */
export function treesOf<Node extends Knot<Node>>(nodes: Iterable<Node>, causesOf: (node: Node) => readonly Node[]): Node[] {
  const roots: Node[] = [];
  const [open, placed] = [new Set<Node>(), new Set<Node>()];
  const place = (node: Node) => {
    if (placed.has(node)) return;
    open.add(node);
    const causes = causesOf(node).filter((cause) => !open.has(cause));
    for (const cause of causes) place(cause);
    open.delete(node);
    placed.add(node);
    const [deepest] = causes.toSorted((one, other) => other.depth - one.depth);
    node.depth = deepest ? deepest.depth + 1 : 0;
    (deepest?.children ?? roots).push(node);
  };
  for (const node of nodes) place(node);
  return roots;
}

export function inOrder<Node extends Knot<Node>>(roots: readonly Node[]): Node[] {
  const found: Node[] = [];
  const stack = roots.toReversed();
  for (let node = stack.pop(); node; node = stack.pop()) {
    found.push(node);
    for (const child of node.children.toReversed()) stack.push(child);
  }
  return found;
}

interface Size {
  width: number;
  height: number;
  gapX: number;
  gapY: number;
}

interface GraphProps<Node> {
  label: string;
  roots: readonly Node[];
  size: Size;
  /** The pairs of nodes that are joined by a line. Default: each node and its children. */
  edges?: readonly (readonly [from: Node, to: Node])[];
  /** Draws a line. The line ends at the point `x`, `y`. */
  edge: (path: string, from: Node, to: Node, x: number, y: number) => ComponentChildren;
  /** Draws a node from the point 0, 0. */
  children: (node: Node) => ComponentChildren;
}

/** The minimum scale of a graph. A graph that is too wide at this scale can be scrolled. */
const SMALLEST = 0.85;
/** The space around a graph. The fraction aligns lines of 1 px with the pixels of the screen. */
const MARGIN = 4.5;

/**
 * Draws trees from left to right, scaled to the available width. A node has the column of its depth, and its first child has the same row.
 * A screen with a graph also shows its content as a table.
 */
export function Graph<Node extends Knot<Node>>({ label, roots, size, edge, children, edges: given }: GraphProps<Node>) {
  const nodes = inOrder(roots);
  const edges = given ?? nodes.flatMap((node) => node.children.map((child) => [node, child] as const));
  const at = new Map<Node, { x: number; y: number }>();
  let row = -1;
  for (const [nth, node] of nodes.entries()) {
    if (nodes[nth - 1]?.children[0] !== node) row++;
    at.set(node, { x: node.depth * (size.width + size.gapX), y: row * (size.height + size.gapY) });
  }
  const width = Math.max(...[...at.values()].map(({ x }) => x)) + size.width + 2 * MARGIN;
  const height = row * (size.height + size.gapY) + size.height + 2 * MARGIN;

  const place = (node: Node) => at.get(node) ?? { x: 0, y: 0 };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content needs keyboard access
    <section class="graph" tabIndex={0} aria-label={label}>
      <svg
        viewBox={`${-MARGIN} ${-MARGIN} ${width} ${height}`}
        style={{ maxWidth: `${width}px`, minWidth: `${width * SMALLEST}px` }}
        aria-hidden="true"
      >
        {edges.map(([from, to]) => {
          const end = { x: place(to).x, y: place(to).y + size.height / 2 };
          return edge(way(place(from), end, size), from, to, end.x, end.y);
        })}
        {nodes.map((node) => (
          <g key={node.id} transform={`translate(${place(node).x} ${place(node).y})`}>
            {children(node)}
          </g>
        ))}
      </svg>
    </section>
  );
}

/** A line from the right side of a node to the left side of another node. A line to the left passes below the node. */
function way(from: { x: number; y: number }, { x: x2, y: y2 }: { x: number; y: number }, { width, height, gapX, gapY }: Size): string {
  const [x1, y1] = [from.x + width, from.y + height / 2];
  const bend = gapX / 2;
  // The line bends near its end, so that it does not cross nodes.
  if (x2 > x1) return `M${x1} ${y1}H${x2 - gapX}C${x2 - bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  const under = Math.max(y1, y2) + height / 2 + gapY / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x1 + bend} ${under} ${x1} ${under}H${x2}C${x2 - bend} ${under} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

/** Shortens a text to a number of characters. */
export function cut(text: string, most: number): string {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}
