import { get, type Result } from "../../data/api.ts";
import { usePages } from "../../data/use-pages.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link, usePlace } from "../../frame/router.tsx";
import { Empty } from "../../parts/empty.tsx";
import { List } from "../../parts/list.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { Views } from "../../parts/views.tsx";
import { VIEWS } from "./actions.tsx";
import { AuditRow } from "./audit-row.tsx";
import { type Action, shortened, textOf } from "./words.ts";

const FILTERS = {
  actor: { label: "Who" },
  verb: { label: "Verb" },
  target: { label: "Target" },
  result: { label: "Result", options: { applied: "applied", no_change: "no change", failed: "failed", refused: "refused" } },
} as const;

/** By who and verb the API has no filter: so many actions are looked through for one page. */
const LOOKED_THROUGH = 1000;
const PAGE = 50;

interface Page {
  items: Action[];
  next_cursor: string | null;
}

interface Wanted {
  actor?: string;
  verb?: string;
  target?: string;
  result?: string;
}

/** A page of the audit. It may be short, or empty, and still have a next one: what is wanted is looked for here. */
async function pageOf({ actor, verb, ...query }: Wanted, from: string | undefined): Promise<Result<Page>> {
  const isWanted = (one: Action) => (!actor || one.actor === actor) && (!verb || one.verb === verb);
  const limit = actor || verb ? 200 : PAGE;
  const items: Action[] = [];
  let cursor = from;
  for (let looked = 0; looked < LOOKED_THROUGH; looked += limit) {
    const page = await get("/v1/audit", { query: { ...query, cursor, limit: String(limit) } as object });
    if (!page.ok) return page;
    items.push(...page.data.items.filter(isWanted));
    cursor = page.data.next_cursor ?? undefined;
    if (cursor === undefined || items.length >= PAGE || limit === PAGE) break;
  }
  return { ok: true, data: { items, next_cursor: cursor ?? null } };
}

/** What a row is called in the address: its place in the audit. */
const rowOf = ({ at, id }: Action) => `${Date.parse(at)}.${id}`;

const COLUMNS: readonly Column<Action>[] = [
  { head: "When", width: "80px", narrow: "64px", cell: ({ at }) => <Ago at={at} /> },
  {
    head: "Who",
    width: "112px",
    isMinor: true,
    cell: ({ actor }) => (
      <Link to={hrefOf("audit", { actor })}>
        <bdi>{actor}</bdi>
      </Link>
    ),
  },
  {
    head: "Verb",
    width: "120px",
    narrow: "88px",
    cell: ({ verb }) => <Link to={hrefOf("audit", { verb })}>{verb.replaceAll("_", " ")}</Link>,
  },
  {
    head: "Target",
    width: "1fr",
    cell: ({ target }) => (
      <Link to={hrefOf("audit", { target })} title={target}>
        <bdi>{shortened(target)}</bdi>
      </Link>
    ),
  },
  { head: "Result", width: "104px", narrow: "96px", cell: ({ result }) => <Status word={result} /> },
  { head: "Changed", width: "1.2fr", isMinor: true, cell: (one) => <bdi>{changeOf(one)}</bdi> },
  { head: "Why", width: "1.6fr", isMinor: true, cell: ({ reason }) => <bdi title={reason}>{reason}</bdi> },
];

/** What it changed, in a few words: `status errored → running`; of what was refused the code. */
function changeOf({ before, after, detail, result }: Action): string {
  if (result === "refused") return String(detail?.code ?? "");
  const names = Object.keys({ ...before, ...after }).filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  return names
    .map((name) => `${name.replaceAll("_", " ")} ${before && name in before ? `${textOf(before[name])} → ` : ""}${textOf(after?.[name])}`)
    .join(", ");
}

/** What people did, newest first, and what they were not let do. */
export function Audit() {
  const filters: Wanted = useFilters(FILTERS);
  const row = usePlace().query.get("row");
  const { actor, verb, target, result } = filters;
  const isWanted = ({ kind, data }: { kind: string; data: Record<string, unknown> }) =>
    kind === "skipped" ||
    (kind === "action" &&
      (!actor || data.actor === actor) &&
      (!verb || data.verb === verb) &&
      (!target || data.target === target) &&
      (!result || data.result === result));
  const pages = usePages((cursor) => pageOf(filters, cursor), [JSON.stringify(filters)], { nameOf: ({ id }) => id, isAbout: isWanted });
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <>
      <h1>Audit</h1>
      <Views label="Actions" views={VIEWS} current="All actions: the audit" />
      <FilterBar filters={FILTERS} />
      <List pages={pages} noun={["action", "actions"]} empty={isFiltered ? <Filtered isShort={pages.more !== undefined} /> : <None />}>
        {(rows) => (
          <Table
            label="Audit"
            rows={rows}
            columns={COLUMNS}
            nameOf={({ id }) => id}
            hrefOf={(one) => hrefOf("audit", { ...filters, row: rowOf(one) })}
          />
        )}
      </List>
      {row && <AuditRow key={row} row={row} close={hrefOf("audit", { ...filters })} />}
    </>
  );
}

function Filtered({ isShort }: { isShort: boolean }) {
  return (
    <Empty>
      {isShort
        ? `None of the newest ${LOOKED_THROUGH.toLocaleString("en")} that were looked through has these filters: there are older ones.`
        : "No action has these filters: names are taken whole. Clear shows all."}
    </Empty>
  );
}

function None() {
  return (
    <Empty>Nobody has acted yet. Each retry, answer, replay or skip is a row here, with who and why, and so is what was refused.</Empty>
  );
}
