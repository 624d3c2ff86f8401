import { get } from "../../data/api.ts";
import { usePages } from "../../data/use-data.ts";
import { FilterBar, SINCE, sinceOf, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link, usePlace } from "../../frame/router.tsx";
import { Empty, LinkTo, Views } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, TableList } from "../../parts/table.tsx";
import { Ago, exact } from "../../parts/text.tsx";
import { VIEWS } from "./actions.tsx";
import { AuditRow } from "./audit-row.tsx";
import { type Action, begun, briefScope, shortened, textOf } from "./words.tsx";

const FILTERS = {
  actor: { label: "Actor" },
  verb: { label: "Verb" },
  target: { label: "Target" },
  instance: { label: "Instance", isRare: true },
  result: { label: "Result", options: { applied: "applied", no_change: "no change", failed: "failed", refused: "refused" } },
  since: { label: "Since", options: SINCE },
  until: { label: "Until", options: Object.fromEntries(Object.entries(SINCE).map(([age, said]) => [age, `${said} ago`])), unset: "now" },
  bulk: { label: "Bulk actions", options: { each: "with each item" }, unset: "one row each" },
} as const;

const rowOf = ({ at, id }: Action) => `${Date.parse(at)}.${id}`;

const COLUMNS: readonly Column<Action>[] = [
  { head: "When", width: "232px", cell: ({ at }) => [exact(at), " ", <Ago key="ago" at={at} />], isMinor: true },
  { head: "Actor", width: "104px", isMinor: true, cell: ({ actor }) => <LinkTo to={hrefOf("audit", { actor })} of={actor} /> },
  {
    head: "Verb",
    width: "120px",
    narrow: "112px",
    cell: ({ verb }) => <Link to={hrefOf("audit", { verb })}>{verb.replaceAll("_", " ")}</Link>,
  },
  { head: "Target", width: "1.4fr", cell: (one) => <Target of={one} /> },
  { head: "Result", width: "104px", narrow: "96px", cell: ({ result }) => <Status word={result} /> },
  { head: "Changed", width: "1.1fr", isMinor: true, cell: (one) => <bdi title={changeOf(one)}>{changeOf(one)}</bdi> },
  { head: "Reason", width: "1.4fr", isMinor: true, cell: ({ reason }) => <bdi title={reason}>{reason}</bdi> },
];

function Below({ of: { at, actor, reason } }: { of: Action }) {
  return (
    <>
      <Ago at={at} /> · <bdi>{actor}</bdi>: <bdi title={reason}>{reason}</bdi>
    </>
  );
}

/**
 * Shows the title of an action's target, with the target's id as a tooltip. For a bulk action, shows the verb and a link to the bulk
 * action's page.
 */
function Target({ of: { verb, target, about, detail } }: { of: Action }) {
  if (verb === "bulk")
    return (
      <Link to={hrefOf("actions", target)} title={target}>
        {begun(String(detail?.verb ?? "act"))}: <bdi>{briefScope((detail?.filter ?? null) as Record<string, unknown> | null)}</bdi>
      </Link>
    );
  const title = [about, target].filter(Boolean).join(", ");
  return <LinkTo to={hrefOf("audit", { target })} of={about ?? shortened(target)} title={title} />;
}

/**
 * A short description of the change that an audited action made, such as `status errored → running`. For a refused action, the error code.
 */
function changeOf({ before, after, detail, result }: Action): string {
  if (result === "refused") return String(detail?.code ?? "");
  const names = Object.keys({ ...before, ...after }).filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  return names
    .map((name) => `${name.replaceAll("_", " ")} ${before && name in before ? `${textOf(before[name])} → ` : ""}${textOf(after?.[name])}`)
    .join(", ");
}

export function Audit() {
  const filters = useFilters(FILTERS);
  const row = usePlace().query.get("row");
  const { since, until, bulk, ...said } = filters;
  const { actor, verb, target, instance, result } = said;
  // Only an audit that is filtered by a target includes the actions that bulk actions performed on single items.
  const eachOrOne = bulk === undefined && target === undefined && instance === undefined ? "false" : undefined;
  const isWanted = ({ kind, data }: { kind: string; data: Record<string, unknown> }) =>
    kind === "skipped" ||
    (kind === "action" &&
      (!actor || data.actor === actor) &&
      (!verb || data.verb === verb) &&
      (!target || data.target === target) &&
      (!instance || data.instance_id === instance) &&
      (!result || data.result === result));
  const pages = usePages(
    (cursor) =>
      get("/v1/audit", {
        query: { ...(said as object), bulk: eachOrOne, since: sinceOf(since), until: sinceOf(until), cursor, limit: "50" } as object,
      }),
    [JSON.stringify(filters)],
    { nameOf: ({ id }) => id, isAbout: isWanted },
  );
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <>
      <h1>Audit</h1>
      <Views label="Actions" views={VIEWS} current="Audit: all actions" />
      <FilterBar filters={FILTERS} />
      <TableList
        label="Audit"
        pages={pages}
        noun={["action", "actions"]}
        empty={
          <Empty>
            {isFiltered
              ? "No action matches these filters. Names must match exactly. Clear shows all."
              : "No actions yet. Each retry, answer, replay or skip adds a row with its actor and reason, also when it was refused."}
          </Empty>
        }
        columns={COLUMNS}
        below={(one) => <Below of={one} />}
        hrefOf={(one) => hrefOf("audit", { ...filters, row: rowOf(one) })}
      />
      {row && <AuditRow key={row} row={row} close={hrefOf("audit", { ...filters })} />}
    </>
  );
}
