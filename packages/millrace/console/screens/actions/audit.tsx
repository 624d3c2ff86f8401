import { get } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { filtersOf, RARE, useFilters } from "../../frame/filters.tsx";
import { go, hrefOf, Link, usePlace } from "../../frame/router.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { List } from "../../parts/list.tsx";
import { Lines, LinkTo, Pairs, ProblemNote, Views } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, begun, exact, Id, inWords, Moment, Quiet } from "../../parts/text.tsx";
import { VIEWS } from "./actions.tsx";
import { type Action, scopeOf, shortened, textOf } from "./words.tsx";

const FILTERS = filtersOf("/v1/audit", {
  ...{ actor: {}, verb: {}, target: {}, instance: RARE, result: {}, since: {}, until: { unset: "now" } },
  bulk: { label: "Bulk actions", options: { each: "with each item" }, unset: "one row each" },
});

const rowOf = ({ at, id }: Action) => `${Date.parse(at)}.${id}`;

const COLUMNS: readonly Column<Action>[] = [
  { head: "When", width: "232px", isMinor: true, cell: ({ at }) => [exact(at), " ", <Ago key="ago" at={at} />] },
  { of: "actor", width: "104px", isMinor: true, cell: ({ actor }) => <LinkTo to={hrefOf("audit", { actor })} of={actor} /> },
  { of: "verb", width: "120px", narrow: "112px", cell: ({ verb }) => <Link to={hrefOf("audit", { verb })}>{inWords(verb)}</Link> },
  { of: "target", width: "1.4fr", cell: (one) => <Target of={one} /> },
  { of: "result", width: "104px", narrow: "96px" },
  { head: "Changed", width: "1.1fr", isMinor: true, cell: (one) => <bdi title={changeOf(one)}>{changeOf(one)}</bdi> },
  { of: "reason", width: "1.4fr", isMinor: true },
];

function Below({ of: { at, actor, reason } }: { of: Action }) {
  return (
    <>
      <Ago at={at} /> · <bdi>{actor}</bdi>
      {reason && ": "}
      <bdi title={reason}>{reason}</bdi>
    </>
  );
}

/** The title of an action's target, with its id as a tooltip. A bulk action has a link to its page. */
function Target({ of: { verb, target, about, detail } }: { of: Action }) {
  if (verb === "bulk")
    return (
      <Link to={hrefOf("actions", target)} title={target}>
        {begun(String(detail?.verb ?? "act"))}: <bdi>{scopeOf((detail?.filter ?? null) as Record<string, unknown> | null)}</bdi>
      </Link>
    );
  const title = [about, target].filter(Boolean).join(", ");
  return <LinkTo to={hrefOf("audit", { target })} of={about ?? shortened(target)} title={title} />;
}

/** The change of an action, such as `status errored → running`. For a refused action, the error code. */
function changeOf({ before, after, detail, result }: Action): string {
  if (result === "refused") return String(detail?.code ?? "");
  const names = Object.keys({ ...before, ...after }).filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  return names
    .map((name) => `${inWords(name)} ${before && name in before ? `${textOf(before[name])} → ` : ""}${textOf(after?.[name])}`)
    .join(", ");
}

export function Audit() {
  const filters = useFilters(FILTERS);
  const row = usePlace().query.get("row");
  const { target, instance, bulk } = filters;
  // Only an audit that is filtered by a target includes the actions that bulk actions performed on single items.
  const eachOrOne = bulk === "each" || target !== undefined || instance !== undefined ? undefined : (bulk ?? "false");
  return (
    <>
      <h1>Audit</h1>
      <Views label="Actions" of={VIEWS} current="Audit: all actions" />
      <List
        {...{ at: "/v1/audit", filters: FILTERS, query: { bulk: eachOrOne }, about: ["action", "skipped"], columns: COLUMNS }}
        label="Audit"
        noun="action"
        empty="No actions yet. Each retry, answer, replay or skip adds a row with its actor and reason, also when it was refused."
        below={(one) => <Below of={one} />}
        hrefOf={(one) => hrefOf("audit", { ...filters, row: rowOf(one) })}
      />
      {row && <AuditRow key={row} row={row} close={hrefOf("audit", { ...filters })} />}
    </>
  );
}

export function Acted({ actions, instance }: { actions: readonly Action[]; instance: string }) {
  return (
    <Table
      label="Actions on this instance"
      rows={actions}
      columns={COLUMNS}
      nameOf={({ id }) => id}
      below={(one) => <Below of={one} />}
      hrefOf={(one) => hrefOf("audit", { instance, row: rowOf(one) })}
    />
  );
}

/** Shows one row of the audit, which the URL identifies by its position. The link works until the audit deletes the row. */
function AuditRow({ row, close }: { row: string; close: string }) {
  const { data, problem } = useData(() => get("/v1/audit", { query: { cursor: `${row}_`, limit: "1" } }), [row]);
  const action = data?.items.find(({ id }) => row.endsWith(`.${id}`));
  return (
    <Dialog title={action ? `${begun(action.verb)}, by ${action.actor}` : "An action"} close={() => go(close)}>
      {problem && <ProblemNote problem={problem} />}
      {data && !action && <p class="quiet">No such row in the audit. Rows are kept for 400 days.</p>}
      {action && <Whole action={action} />}
    </Dialog>
  );
}

const OF_LETTERS = new Set(["replay", "skip", "escalate", "repair"]);
const OF_BULK = new Set(["bulk", "abort", "resume"]);

function aboutOf({ verb, target, instance_id: instance, result }: Action): string | undefined {
  if (instance === target) return hrefOf("instances", target);
  if (result === "refused") return undefined;
  return OF_LETTERS.has(verb) ? hrefOf("dead-letters", target) : OF_BULK.has(verb) ? hrefOf("actions", target) : undefined;
}

function Whole({ action }: { action: Action }) {
  const { id, token_id: token, scope, target, instance_id: instance, reason, detail, before, after, at } = action;
  const about = aboutOf(action);
  const bulk = detail?.bulk;
  return (
    <>
      <Pairs
        of={{
          Result: <Status word={action.result} />,
          Reason: <bdi>{reason}</bdi>,
          When: <Moment at={at} />,
          Target: (
            <>
              {about ? <Link to={about}>{target}</Link> : <bdi>{target}</bdi>} ·{" "}
              <Link to={hrefOf("audit", { target })}>all actions on it</Link>
            </>
          ),
          Instance: instance && instance !== target && <Link to={hrefOf("instances", instance)}>{instance}</Link>,
          "Part of": typeof bulk === "string" && <Link to={hrefOf("actions", bulk)}>a bulk action</Link>,
          By: (
            <>
              <bdi>{action.actor}</bdi>
              {token ? ", with the token " : bulk ? "" : ", without a token"}
              {token && <Id id={token} />}
              {scope && <Quiet of={` by the scope ${scope}`} />}
            </>
          ),
          Error: action.error && <bdi>{action.error}</bdi>,
          Action: <Id id={id} />,
        }}
      />
      {before || after ? <Change before={before ?? {}} after={after ?? {}} /> : <p class="quiet">No change is recorded.</p>}
      {detail && <pre>{JSON.stringify(detail, null, 2)}</pre>}
    </>
  );
}

type Fields = Readonly<Record<string, unknown>>;

function Change({ before, after }: { before: Fields; after: Fields }) {
  const said = (of: Fields, name: string) => (name in of ? <code>{textOf(of[name])}</code> : <Quiet of="–" />);
  return (
    <section aria-label="Before and after">
      <Lines
        columns="1fr 1fr 1fr"
        of={[
          ["Field", "Before", "After"].map((head) => <Quiet key={head} of={head} />),
          ...Object.keys({ ...before, ...after }).map((name) => [inWords(name), said(before, name), said(after, name)]),
        ]}
      />
    </section>
  );
}
