import { Link } from "../../frame/router.tsx";
import { Shape } from "../../parts/status.tsx";
import { duration } from "../../parts/text.tsx";
import { Wide } from "../../parts/wide.tsx";
import { inOrder, type Knot, latencyOf, worstOf } from "./tree.ts";

const COLUMN = 248;
const ROW = 48;
const SHARP = 0.5;
const WIDE = 184;
const HIGH = 40;
const LETTERS = 24;

function cut(text: string, most = LETTERS): string {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

function saying({ kind, count, statuses, subject }: Knot): string {
  if (kind === "counted") return "only counted";
  const words = statuses.map(([word, of]) => (count > 1 ? `${of} ${word.replaceAll("_", " ")}` : word.replaceAll("_", " ")));
  return [...words, ...(count === 1 && kind === "instance" && subject ? [subject] : [])].join(" · ");
}

const nameOf = ({ label, count }: Knot) => (count > 1 ? `${count.toLocaleString()} × ${label}` : label);

export function Graph({ roots }: { roots: readonly Knot[] }) {
  const knots = inOrder(roots);
  const rows = new Map<Knot, number>();
  let row = -1;
  let before: Knot | undefined;
  for (const knot of knots) {
    if (before?.children[0] !== knot) row++;
    rows.set(knot, row);
    before = knot;
  }
  const deepest = Math.max(...knots.map(({ depth }) => depth));
  const [width, height] = [deepest * COLUMN + WIDE + 8, (row + 1) * ROW];
  const at = (knot: Knot) => ({ x: knot.depth * COLUMN + 4, y: (rows.get(knot) ?? 0) * ROW + 4 });
  return (
    <Wide class="graph" label="Graph; the list below contains the same" width={width}>
      {(scale) => (
        <svg width={width * scale} height={height * scale} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
          {knots.flatMap((knot) => knot.children.map((child) => <Edge key={child.id} from={at(knot)} to={at(child)} child={child} />))}
          {knots.map((knot) => (
            <Thing key={knot.id} knot={knot} {...at(knot)} />
          ))}
        </svg>
      )}
    </Wide>
  );
}

interface Place {
  x: number;
  y: number;
}

function Edge({ from, to, child }: { from: Place; to: Place; child: Knot }) {
  const [x, y] = [from.x + WIDE, from.y + HIGH / 2 + SHARP];
  const end = to.y + HIGH / 2 + SHARP;
  const turn = x + 12 + SHARP;
  const latency = latencyOf(child);
  const isOnItsWay = child.statuses.some(([word]) => word === "on_its_way");
  return (
    <g class="edge" data-tone={worstOf(child)} data-open={isOnItsWay || undefined}>
      <path d={end === y ? `M${x} ${y}H${to.x}` : `M${x} ${y}H${turn}V${end - 6}q0 6 6 6H${to.x}`} />
      {latency !== undefined && (
        <text x={to.x - 4} y={end - 5}>
          {duration(latency)}
        </text>
      )}
    </g>
  );
}

function Thing({ knot, x, y }: { knot: Knot } & Place) {
  const [name, said] = [nameOf(knot), saying(knot)];
  const tone = worstOf(knot);
  const isBox = knot.kind === "instance" || knot.kind === "dead_letter";
  const [left, below] = isBox ? [x + 26, y + 32] : [x + 8, y + 36];
  return (
    <Link to={knot.href} tabindex={-1} class={isBox ? "thing box" : "thing"} data-tone={tone}>
      <title>{[knot.kind === "dead_letter" ? `dead letter of ${name}` : name, said].join("\n")}</title>
      <rect x={x} y={y} width={WIDE} height={HIGH} rx={6} />
      {!isBox && <path class="way" d={`M${x} ${y + HIGH / 2 + SHARP}h${WIDE}`} />}
      <Shape tone={tone} shape={knot.kind === "dead_letter" ? "letter" : undefined} x={x + 8} y={isBox ? y + 6 : y + 26} />
      {/* A nested svg clips text that is wider than estimated. */}
      <svg x={x} y={y} width={WIDE - 4} height={HIGH} aria-hidden="true">
        <text class="name" x={left - x} y={isBox ? 16 : 14}>
          {cut(name, isBox ? LETTERS - 2 : LETTERS)}
        </text>
        <text x={26} y={below - y}>
          {cut(said, LETTERS - 1)}
        </text>
      </svg>
    </Link>
  );
}
