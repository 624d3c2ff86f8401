import { useMemo } from "preact/hooks";
import { go, hrefOf } from "../../frame/router.tsx";
import { Wide } from "../../parts/wide.tsx";
import { type Catalog, drawn, graphOf, NODE, type Placed } from "./graph.ts";

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
            {nodes.map((node) => (
              // biome-ignore lint/a11y/noStaticElementInteractions: the tables have the same links for keyboards
              <g key={node.name} data-kind={node.kind} onClick={() => go(hrefOf("catalog", node.name))}>
                <title>{node.name}</title>
                <rect x={node.x} y={node.y} width={NODE.width} height={NODE.height} rx={node.kind === "event" ? NODE.height / 2 : 4} />
                <text x={node.x + (node.kind === "event" ? 14 : 10)} y={node.y + 18}>
                  {node.title.length > ROOM ? `${node.title.slice(0, ROOM - 1)}…` : node.title}
                </text>
              </g>
            ))}
          </svg>
        )}
      </Wide>
      <figcaption class="quiet">
        {(["command", "workflow", "event"] as const).map((kind) => (
          <Sample key={kind} kind={kind} />
        ))}
        <span>
          Dashed line: observed in the newest {catalog.seen_instances} instances. The messages that code emits are known only after a run.
        </span>
      </figcaption>
    </figure>
  );
}

function Sample({ kind }: Pick<Placed, "kind">) {
  return (
    <span>
      <svg viewBox="0 0 28 16" width="28" height="16" aria-hidden="true">
        <g data-kind={kind}>
          <rect x="1" y="1" width="26" height="14" rx={kind === "event" ? 7 : 3} />
        </g>
      </svg>
      {kind}
    </span>
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
