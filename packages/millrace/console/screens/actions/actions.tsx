import { hrefOf } from "../../frame/router.tsx";
import { List } from "../../parts/list.tsx";
import { LinkTo, type View, Views } from "../../parts/page.tsx";
import type { Column } from "../../parts/table.tsx";
import { ABOUT } from "./bulk-action.tsx";
import "./actions.css";
import { Bar, type Bulk, counted, scopeOf, titleOf } from "./words.tsx";

export const VIEWS: readonly View[] = [
  ["Bulk actions", hrefOf("actions")],
  ["Audit: all actions", hrefOf("audit")],
];

const COLUMNS: readonly Column<Bulk>[] = [
  { of: "state", width: "112px", narrow: "104px" },
  {
    ...{ head: "Action", width: "200px", narrow: "1fr" },
    cell: ({ id, verb, matched }) => <LinkTo to={hrefOf("actions", id)} of={titleOf(verb, counted(verb, matched))} />,
  },
  {
    ...{ head: "Progress", width: "176px", isMinor: true },
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
    ...{ of: "failed", width: "64px", isMinor: true },
    cell: ({ failed }) => <span class={failed > 0 ? "actions-failed" : "quiet"}>{failed}</span>,
  },
  { head: "Filter", width: "1.4fr", isMinor: true, cell: ({ filter }) => <bdi title={scopeOf(filter)}>{scopeOf(filter)}</bdi> },
  { of: "reason", width: "1.6fr", isMinor: true },
  { of: "actor", width: "96px", isMinor: true },
  { of: "created_at", head: "Started" },
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
  return (
    <>
      <h1>Actions</h1>
      <Views label="Actions" of={VIEWS} current="Bulk actions" />
      <List
        at="/v1/bulk-actions"
        about={ABOUT}
        noun="bulk action"
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
