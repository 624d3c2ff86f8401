import { useState } from "preact/hooks";
import type { Item } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useCause, useList } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, usePlace } from "../../frame/router.tsx";
import { ActButtons, useActs } from "../../parts/act.tsx";
import { CauseOf, LinkTo, Views } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, TableList } from "../../parts/table.tsx";
import { Ago, shortId } from "../../parts/text.tsx";
import { bulkOf } from "../actions/bulk-act.tsx";
import "./dead-letters.css";

const SHARED = { queue: { label: "Queue" }, reason: { label: "Reason" }, type: { label: "Type" } } as const;

const FILTERS = {
  state: { label: "State", options: { replayed: "replayed", skipped: "skipped" }, unset: "open" },
  ...SHARED,
  escalated: { label: "Escalated", options: { true: "yes", false: "no" } },
  cause: { label: "Cause", isRare: true, options: {}, other: "one cause" },
} as const;

type Filters = { [Name in keyof typeof FILTERS]?: string };

export function DeadLetters() {
  const { query } = usePlace();
  const filters = useFilters(FILTERS);
  const { queue, reason, type, state, cause, escalated } = filters;
  const shared = { queue, reason, type };
  const found = useCause("/v1/dead-letters/causes", cause ?? "");
  const isEach = query.has("each") || Boolean(state || cause || escalated);
  const views = { "By cause": hrefOf("dead-letters", shared), "One by one": hrefOf("dead-letters", { ...shared, each: "true" }) };
  return (
    <>
      <h1>Dead letters</h1>
      <Views label="Dead letters" views={views} current={isEach && !cause ? "One by one" : "By cause"} />
      {found && <CauseOf says={said(found.step, found.message)} facts={factsOf(found)} of={found} />}
      <FilterBar filters={isEach ? FILTERS : SHARED} />
      {isEach ? <Letters filters={filters} /> : <Causes filters={shared as Filters} />}
      {!may("unattributed") && (
        <p class="quiet">
          Dead letters without a tenant are shown only to a token with the scope <code>unattributed</code>.
        </p>
      )}
    </>
  );
}

type Cause = Item<"/v1/dead-letters/causes">;
type Letter = Item<"/v1/dead-letters">;

/** The events after which a list of dead letters is reloaded. */
const ABOUT = { about: ["dead_letter", "skipped", "action"] };

const said = (...parts: (string | null)[]) => parts.filter(Boolean).join(": ");

const factsOf = ({ count, reason, message_type: type, queue }: Cause) => [`${count} open`, wordOf(reason), type ?? "no type", queue];

const wordOf = (reason: string) => reason.replaceAll("_", " ");

const ago = { width: "96px", narrow: "88px", isNumber: true } as const;
const typed = { head: "Type", isMinor: true, cell: ({ message_type: type }: Cause | Letter) => <bdi>{type ?? "none"}</bdi> } as const;

const CAUSE_COLUMNS: readonly Column<Cause>[] = [
  { head: "Open", width: "64px", narrow: "56px", cell: ({ count }) => <strong>{count}</strong> },
  {
    head: "Error",
    width: "2.6fr",
    cell: (one) => <LinkTo to={hrefOf("dead-letters", { cause: one.id })} of={said(one.step, one.message)} />,
  },
  { ...typed, width: "1.2fr" },
  { head: "Reason", width: "1fr", isMinor: true, cell: ({ reason }) => wordOf(reason) },
  { head: "Queue", width: "1.2fr", isMinor: true, cell: ({ queue }) => queue },
  { ...ago, head: "First", isMinor: true, cell: ({ first_at: at }) => <Ago at={at} /> },
  { ...ago, head: "Last", cell: ({ last_at: at }) => <Ago at={at} /> },
];

function Causes({ filters }: { filters: Filters }) {
  const pages = useList("/v1/dead-letters/causes", filters, ABOUT);
  return (
    <TableList
      label="Causes"
      pages={pages}
      noun={["cause", "causes"]}
      filters={filters}
      empty="No dead letter of your tenant is open. Settled ones are listed under One by one."
      columns={CAUSE_COLUMNS}
      hrefOf={({ id }) => hrefOf("dead-letters", { cause: id })}
    />
  );
}

/** The title of a dead letter: the idempotency key of its message. Without a key, the id of the dead letter. */
export function nameOf({ id, idempotency_key: key }: Pick<Letter, "id" | "idempotency_key">): string {
  return key ?? shortId(id);
}

function state({ state: word, escalation }: Letter) {
  return escalation && word === "open" ? <Status word="escalated" tone="violet" /> : <Status word={word} />;
}

const LETTER_COLUMNS: readonly Column<Letter>[] = [
  { head: "State", width: "104px", narrow: "80px", cell: state },
  { head: "Key", width: "1.2fr", cell: (one) => <LinkTo to={hrefOf("dead-letters", one.id)} of={nameOf(one)} /> },
  {
    ...{ head: "Last error", width: "2.4fr", narrow: "1.2fr" },
    cell: ({ step, error }) => <bdi title={said(step, error)}>{said(step, error)}</bdi>,
  },
  { ...typed, width: "1fr" },
  { head: "Attempts", width: "72px", isNumber: true, isMinor: true, cell: ({ attempts }) => attempts },
  { ...ago, head: "First", isMinor: true, cell: (one) => <Ago at={one.first_attempt_at ?? one.first_at} /> },
  { ...ago, head: "Last", cell: (one) => <Ago at={one.last_attempt_at ?? one.captured_at} /> },
];

function Letters({ filters }: { filters: Filters }) {
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const pages = useList("/v1/dead-letters", filters, ABOUT);
  const { ask, line } = useActs(pages.again);
  const isOpen = filters.state === undefined && may("operate");
  const { queue, reason, type, cause, escalated } = filters;
  // Dead letters that have been settled since their selection are ignored.
  const ids = (pages.rows ?? []).map(({ id }) => id).filter((id) => selected.has(id));
  const given = Object.entries({ queue, reason, message_type: type, cause }).filter(([, value]) => value);
  const which = ids.length > 0 ? `the ${ids.length} selected` : cause ? "all with this cause" : "all of these";
  const meant = ids.length > 0 ? { ids } : { filter: Object.fromEntries(given) as Record<string, string> };
  // A bulk action cannot filter by `escalated`. With this filter, the operator must select single dead letters instead.
  const canAct = isOpen && pages.rows && pages.rows.length > 0 && (ids.length > 0 || escalated === undefined);
  return (
    <>
      {canAct && (
        <p class="acts">
          <ActButtons ask={ask} of={["Replay", "Skip"].map((word) => bulkOf(`${word} ${which} …`, [word.toLowerCase()], meant))} />
          <span class="quiet">
            <kbd>x</kbd>selects a row
          </span>
        </p>
      )}
      <TableList
        label="Dead letters"
        pages={pages}
        noun={["dead letter", "dead letters"]}
        {...(pages.more
          ? { empty: "None of the newest 5,000 dead letters matches these filters. Older ones exist." }
          : { filters, empty: "No dead letter of your tenant is open. Choose a state above to see settled ones." })}
        columns={LETTER_COLUMNS}
        hrefOf={({ id }) => hrefOf("dead-letters", id)}
        {...(isOpen && { selected, select })}
      />
      {line}
    </>
  );
}
