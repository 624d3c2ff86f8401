import { useRef } from "preact/hooks";
import { get, type Result } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import type { LiveEvent } from "../../data/live.ts";
import { useData } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { cut, Graph, inOrder } from "../../parts/graph.tsx";
import { Button, Facts, Lost, ProblemNote } from "../../parts/page.tsx";
import { Shape, Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, duration, Id, Quiet } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import "./job.css";
import { byType, type Knot, latencyOf, type Page, type ReadJob, toneFor, treeOf, worstOf } from "./tree.ts";

const MOST_DRAWN = 500;

const FILTERS = { as: { label: "List", options: { each: "one by one", type: "by type" }, unset: "as in the graph" } } as const;

export function Job({ param: id }: ScreenProps) {
  const { as } = useFilters(FILTERS);
  const { data, problem, more } = useJob(id);
  if (!data) return <Lost title="Job" problem={problem} all={["instances", "All instances"]} />;
  const roots = treeOf(data);
  const size = inOrder(roots).length;
  const isMuch = size > MOST_DRAWN;
  const types = isMuch || as === "type" ? byType(roots, id) : roots;
  const listed = inOrder(as === "each" ? roots : types);
  const title = titleOf(id, roots);
  const members = data.nodes.filter(({ kind }) => kind === "instance" || kind === "dead_letter").length;
  return (
    <>
      <h1>
        {title ? "Job of " : "Job "}
        <bdi>{title ?? id}</bdi>
      </h1>
      {problem && <ProblemNote problem={problem} />}
      <Summary job={id} isNamed={title === undefined} data={data} />
      {size > 1 && <FilterBar filters={FILTERS} />}
      {isMuch && (
        <p class="quiet" role="status">
          {size.toLocaleString()} instances and messages: more than {MOST_DRAWN} are drawn by type.
        </p>
      )}
      {size > 1 && (
        <Graph label="Graph; the list below contains the same" roots={types} size={SIZE} edge={edge}>
          {(knot) => <Thing knot={knot} />}
        </Graph>
      )}
      {(more || data.summary.more) && (
        <p class="quiet foot">
          <span role="status">
            {members.toLocaleString()} of {membersOf(data)} instances and dead letters, oldest first
          </span>
          {more && <Button press={more}>Show more</Button>}
        </p>
      )}
      {size > 1 && <h2>As a list</h2>}
      <Table
        label="The job, from causes to effects"
        rows={listed}
        columns={COLUMNS}
        nameOf={({ id: name }) => name}
        hrefOf={({ href }) => href}
      />
      <Elsewhere lists={data.elsewhere} />
    </>
  );
}

const PAGE = "200";

/**
 * Loads a job page by page. After an event in the job, the first page is reloaded, because it contains the summary. The page with the
 * changed node is also reloaded, or the last page, which contains new nodes.
 */
function useJob(id: string) {
  const held = useRef({ pages: [] as Page[], wanted: 1, stale: new Set<number>() });
  const load = async (): Promise<Result<ReadJob>> => {
    const { pages, wanted, stale } = held.current;
    for (let index = 0; index < wanted; index++) {
      if (index > 0 && pages[index] && !stale.has(index)) continue;
      const cursor = pages[index - 1]?.next_cursor;
      if (index > 0 && !cursor) break;
      const page = await get("/v1/correlations/:id", { param: { id }, query: { limit: PAGE, ...(cursor && { cursor }) } });
      if (!page.ok) return page;
      pages[index] = page.data;
      stale.delete(index);
    }
    return { ok: true, data: joined(pages) };
  };
  const isAbout = ({ kind, data }: LiveEvent) => {
    const { pages, stale } = held.current;
    const name = kind === "action" || kind === "doubt" ? data.instance_id : data.id;
    const at = pages.findIndex(({ items }) => items.some(({ node }) => node === name));
    const isOurs = at >= 0 || data.correlation_id === id || kind === "skipped";
    if (isOurs) stale.add(at >= 0 ? at : pages.length - 1);
    return isOurs;
  };
  const read = useData(load, [id], isAbout);
  const more = () => {
    held.current.wanted = held.current.pages.length + 1;
    read.again();
  };
  return { ...read, more: read.data?.isMore ? more : undefined };
}

function joined(pages: readonly Page[]): ReadJob {
  const [first] = pages as [Page];
  const nodes = new Map(pages.flatMap(({ items }) => items.map((node) => [node.node, node] as const)));
  return {
    summary: first.summary ?? { open: false, first_at: null, last_at: null, instances: [], dead_letters: [], more: false },
    nodes: [...nodes.values()],
    collapsed: pages.flatMap(({ collapsed }) => collapsed),
    elsewhere: first.elsewhere,
    isMore: Boolean(pages.at(-1)?.next_cursor),
  };
}

function membersOf({ summary }: ReadJob): string {
  const count = [...summary.instances, ...summary.dead_letters].reduce((sum, one) => sum + one.count, 0);
  return `${count.toLocaleString()}${summary.more ? " and more" : ""}`;
}

/** The title of a job with a generated id, which is its first message. Undefined if a caller chose the id of the job. */
function titleOf(id: string, [first]: readonly Knot[]): string | undefined {
  if (!first || !/^[0-9a-f-]{20,}$/.test(id)) return undefined;
  return [first.label, first.subject].filter(Boolean).join(" · ");
}

const FAILED = new Set(["errored", "dead"]);

function Summary({ job, isNamed, data: { summary } }: { job: string; isNamed: boolean; data: ReadJob }) {
  const { open, first_at: first, last_at: last, instances, dead_letters: letters, more } = summary;
  const hasFailed = instances.some(({ status }) => FAILED.has(status)) || letters.some(({ state }) => state === "open");
  const byStatus = Object.entries(Object.groupBy(instances, ({ status }) => status));
  return (
    <>
      <Facts
        of={[
          <Status word={open ? "running" : hasFailed ? "ended with failures" : "ended"} />,
          !isNamed && <Id id={job} />,
          first && <Ago label="started" at={first} />,
          first &&
            last &&
            (open
              ? `running for ${duration(timeNow() - Date.parse(first))}`
              : `took ${duration(Date.parse(last) - Date.parse(first))} including waits`),
          more && <Quiet of="only the first 10,000 of each are counted" />,
        ]}
      />
      <ul class="counts">
        {byStatus.map(([status, of = []]) => (
          <li key={status}>
            <Status word={status} />{" "}
            <Link to={hrefOf("instances", { correlation: job, status })}>
              {of.reduce((sum, { count }) => sum + count, 0).toLocaleString()}
            </Link>
          </li>
        ))}
        {letters.map(({ state, count }) => (
          <li key={`letter ${state}`}>
            <Status word="dead letter" says={`dead letter, ${state}`} tone={state === "open" ? "red" : "quiet"} />{" "}
            <strong>{count.toLocaleString()}</strong>
          </li>
        ))}
      </ul>
    </>
  );
}

const SIZE = { width: 184, height: 40, gapX: 64, gapY: 8 } as const;
const LETTERS = 24;

const IN_BOXES: ReadonlySet<Knot["kind"]> = new Set(["instance", "dead_letter"]);

function saying({ kind, count, statuses, subject }: Knot): string {
  if (kind === "counted") return "only counted";
  const words = statuses.map(([word, of]) => (count > 1 ? `${of} ${word.replaceAll("_", " ")}` : word.replaceAll("_", " ")));
  return [...words, ...(count === 1 && IN_BOXES.has(kind) && subject ? [subject] : [])].join(" · ");
}

const nameOf = ({ label, count }: Knot) => (count > 1 ? `${count.toLocaleString()} × ${label}` : label);

function edge(path: string, _: Knot, child: Knot, x: number, y: number) {
  const latency = latencyOf(child);
  const isOnItsWay = child.statuses.some(([word]) => word === "on_its_way");
  return (
    <g key={child.id} class="edge" data-tone={worstOf(child)} data-open={isOnItsWay || undefined}>
      <path d={path} />
      {latency !== undefined && (
        <text x={x - 4} y={y - 5}>
          {duration(latency)}
        </text>
      )}
    </g>
  );
}

function Thing({ knot }: { knot: Knot }) {
  const [name, said] = [nameOf(knot), saying(knot)];
  const tone = worstOf(knot);
  const { width, height } = SIZE;
  const isBox = IN_BOXES.has(knot.kind);
  return (
    <Link to={knot.href} tabindex={-1} class={isBox ? "thing box" : "thing"} data-tone={tone}>
      <title>{[knot.kind === "dead_letter" ? `dead letter of ${name}` : name, said].join("\n")}</title>
      <rect width={width} height={height} rx={6} />
      {!isBox && <path class="way" d={`M0 ${height / 2}h${width}`} />}
      <Shape tone={tone} word={knot.kind === "dead_letter" ? "dead letter" : ""} x={8} y={isBox ? 6 : 26} />
      {/* A nested svg clips text that is wider than estimated. */}
      <svg width={width - 4} height={height} aria-hidden="true">
        <text class="name" x={isBox ? 26 : 8} y={isBox ? 16 : 14}>
          {cut(name, isBox ? LETTERS - 2 : LETTERS)}
        </text>
        <text x={26} y={isBox ? 32 : 36}>
          {cut(said, LETTERS - 1)}
        </text>
      </svg>
    </Link>
  );
}

const KINDS: Readonly<Record<Knot["kind"], string>> = {
  instance: "",
  command: "command",
  event: "event",
  dead_letter: "dead letter of",
  counted: "messages, counted",
};

/** Maximum level to which the list of a job is indented. Each item also shows its level as text. */
const DEEPEST = 12;

const COLUMNS: readonly Column<Knot>[] = [
  {
    head: "Item",
    width: "2.4fr",
    narrow: "2fr",
    cell: ({ depth, kind, label, count, href }) => (
      <span class="twig" style={{ "--depth": Math.min(depth, DEEPEST) }}>
        <span class="unseen">level {depth + 1}: </span>
        {KINDS[kind] && <span class="quiet">{KINDS[kind]} </span>}
        {IN_BOXES.has(kind) ? <Link to={href}>{label}</Link> : label}
        {count > 1 && <span class="quiet"> × {count.toLocaleString()}</span>}
      </span>
    ),
  },
  {
    head: "Status",
    width: "1.1fr",
    narrow: "120px",
    cell: (knot) =>
      knot.statuses.map(([word, of]) => (
        <span key={word} class="state">
          <Status word={word} tone={toneFor(knot, word)} /> {knot.count > 1 && <span class="quiet">{of.toLocaleString()} </span>}
        </span>
      )),
  },
  { of: "subject", width: "1.2fr", isMinor: true },
  { of: "step", head: "From step", isMinor: true, cell: ({ step }) => <Quiet of={step} /> },
  {
    head: "After",
    width: "80px",
    narrow: "64px",
    isNumber: true,
    cell: (knot) => {
      const latency = latencyOf(knot);
      return latency !== undefined && <span title={knot.count > 1 ? "the median" : ""}>{duration(latency)}</span>;
    },
  },
  { of: "at", head: "Time", isMinor: true },
];

function Elsewhere({ lists }: { lists: ReadJob["elsewhere"] }) {
  if (lists.length === 0) return null;
  const said = lists.map(({ kind, url }) => [`${kind.replaceAll("_", " ")} (`, <code key={url}>GET {url}</code>, ") "]);
  return <p class="quiet">Related records, if any: {said}</p>;
}
