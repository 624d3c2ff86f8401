import { useList } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf } from "../../frame/router.tsx";
import { LinkTo, Views } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, TableList } from "../../parts/table.tsx";
import { Ago } from "../../parts/text.tsx";
import { ABOUT } from "./bulk-action.tsx";
import "./actions.css";
import { Bar, type Bulk, counted, scopeOf, titleOf } from "./words.tsx";

export const VIEWS = { "Bulk actions": hrefOf("actions"), "Audit: all actions": hrefOf("audit") };

const FILTERS = {
  state: { label: "State", options: { running: "running", stopped: "stopped", aborted: "aborted", complete: "complete" } },
} as const;

const COLUMNS: readonly Column<Bulk>[] = [
  { head: "State", width: "112px", narrow: "104px", cell: ({ state }) => <Status word={state} /> },
  {
    head: "Action",
    width: "200px",
    narrow: "1fr",
    cell: ({ id, verb, matched }) => <LinkTo to={hrefOf("actions", id)} of={titleOf(verb, counted(verb, matched))} />,
  },
  {
    head: "Progress",
    width: "176px",
    isMinor: true,
    cell: (bulk) => (
      <span class="actions-progress">
        <Bar bulk={bulk} />
        <span>
          {bulk.matched - bulk.remaining} of {bulk.matched}
        </span>
      </span>
    ),
  },
  {
    head: "Failed",
    width: "64px",
    isMinor: true,
    cell: ({ failed }) => <span class={failed > 0 ? "actions-failed" : "quiet"}>{failed}</span>,
  },
  { head: "Filter", width: "1.4fr", isMinor: true, cell: ({ filter }) => <bdi title={scopeOf(filter)}>{scopeOf(filter)}</bdi> },
  { head: "Reason", width: "1.6fr", isMinor: true, cell: ({ reason }) => <bdi title={reason}>{reason}</bdi> },
  { head: "Actor", width: "96px", isMinor: true, cell: ({ actor }) => <bdi>{actor}</bdi> },
  { head: "Started", width: "96px", narrow: "88px", isNumber: true, cell: ({ created_at: at }) => <Ago at={at} /> },
];

function Below({ of: { actor, reason, matched, remaining, failed } }: { of: Bulk }) {
  return (
    <>
      {matched - remaining} of {matched}
      {failed > 0 && <span class="actions-failed">, {failed} failed</span>} · <bdi>{actor}</bdi>: <bdi title={reason}>{reason}</bdi>
    </>
  );
}

export function Actions() {
  const { state } = useFilters(FILTERS);
  const pages = useList("/v1/bulk-actions", { state }, { about: ABOUT });
  return (
    <>
      <h1>Actions</h1>
      <Views label="Actions" views={VIEWS} current="Bulk actions" />
      <FilterBar filters={FILTERS} />
      <TableList
        label="Bulk actions"
        pages={pages}
        noun={["bulk action", "bulk actions"]}
        filters={{ state }}
        empty="No bulk action yet. Instances and dead letters have a button for all rows that match the filters. From a terminal:"
        command={`curl ${location.origin}/v1/bulk-actions -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d '{"verb":"retry","filter":{"workflow":"…"},"reason":"…","dry_run":true}'`}
        columns={COLUMNS}
        below={(bulk) => <Below of={bulk} />}
        hrefOf={({ id }) => hrefOf("actions", id)}
      />
    </>
  );
}
