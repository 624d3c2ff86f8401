import { useState } from "preact/hooks";
import type { Item } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { filtersOf, ONE_CAUSE, useFilters } from "../../frame/filters.tsx";
import { hrefOf, usePlace } from "../../frame/router.tsx";
import { Acts } from "../../parts/act.tsx";
import { CauseOf, messageOf } from "../../parts/cause.tsx";
import { List } from "../../parts/list.tsx";
import { LinkTo, type View, Views } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { Ago, inWords, shortId } from "../../parts/text.tsx";
import { bulkOf } from "../actions/bulk-act.tsx";
import "./dead-letters.css";

const SHARED = filtersOf("/v1/dead-letters/causes");
const FILTERS = filtersOf("/v1/dead-letters", { state: { unset: "open" }, ...SHARED, escalated: {}, cause: ONE_CAUSE });

type Set = { [Name in keyof typeof FILTERS]?: string };

export function DeadLetters() {
  const { query } = usePlace();
  const filters = useFilters(FILTERS);
  const { queue, reason, type, state, cause, escalated } = filters;
  const shared = { queue, reason, type };
  const isEach = query.has("each") || Boolean(state || cause || escalated);
  const views: View[] = [
    ["By cause", hrefOf("dead-letters", shared)],
    ["One by one", hrefOf("dead-letters", { ...shared, each: "true" })],
  ];
  return (
    <>
      <h1>Dead letters</h1>
      <Views label="Dead letters" of={views} current={isEach && !cause ? "One by one" : "By cause"} />
      <CauseOf at="/v1/dead-letters/causes" id={cause} />
      {isEach ? <Letters filters={filters} /> : <Causes />}
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

const ABOUT = { about: ["dead_letter", "skipped", "action"] };

const said = (...parts: (string | null)[]) => parts.filter(Boolean).join(": ");

const typed = { head: "Type", isMinor: true, cell: ({ message_type: type }: Cause | Letter) => <bdi>{type ?? "none"}</bdi> } as const;

const CAUSE_COLUMNS: readonly Column<Cause>[] = [
  { head: "Open", width: "64px", narrow: "56px", cell: ({ count }) => <strong>{count}</strong> },
  { head: "Error", width: "2.6fr", cell: (one) => <LinkTo to={hrefOf("dead-letters", { cause: one.id })} of={messageOf(one)} /> },
  { ...typed, width: "1.2fr" },
  { of: "reason", isMinor: true, cell: ({ reason }) => inWords(reason) },
  { of: "queue", width: "1.2fr", isMinor: true },
  { of: "first_at", isMinor: true },
  { of: "last_at" },
];

function Causes() {
  return (
    <List
      {...{ at: "/v1/dead-letters/causes", filters: SHARED, ...ABOUT, columns: CAUSE_COLUMNS }}
      noun="cause"
      empty="No dead letter of your tenant is open. Settled ones are listed under One by one."
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
  { of: "state", width: "104px", narrow: "80px", cell: state },
  { head: "Key", width: "1.2fr", cell: (one) => <LinkTo to={hrefOf("dead-letters", one.id)} of={nameOf(one)} /> },
  {
    ...{ head: "Last error", width: "2.4fr", narrow: "1.2fr" },
    cell: ({ step, error }) => <bdi title={said(step, error)}>{said(step, error)}</bdi>,
  },
  typed,
  { of: "attempts", width: "72px", isNumber: true, isMinor: true },
  { of: "first_at", isMinor: true, cell: (one) => <Ago at={one.first_attempt_at ?? one.first_at} /> },
  { of: "captured_at", head: "Last", cell: (one) => <Ago at={one.last_attempt_at ?? one.captured_at} /> },
];

function Letters({ filters }: { filters: Set }) {
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const { queue, reason, type, cause, escalated, state } = filters;
  const isOpen = state === undefined && may("operate");
  const acts = (rows: readonly Letter[]) => {
    // Dead letters that have been settled since their selection are ignored.
    const ids = rows.map(({ id }) => id).filter((id) => selected.has(id));
    const given = Object.entries({ queue, reason, message_type: type, cause }).filter(([, value]) => value);
    const which = ids.length > 0 ? `the ${ids.length} selected` : cause ? "all with this cause" : "all of these";
    const meant = ids.length > 0 ? { ids } : { filter: Object.fromEntries(given) as Record<string, string> };
    // A bulk action cannot filter by `escalated`. With this filter, the operator must select single dead letters instead.
    if (!isOpen || rows.length === 0 || (ids.length === 0 && escalated !== undefined)) return null;
    return (
      <Acts of={["Replay", "Skip"].map((word) => bulkOf(`${word} ${which} …`, [word.toLowerCase()], meant))}>
        <span class="quiet">
          <kbd>x</kbd>selects a row
        </span>
      </Acts>
    );
  };
  return (
    <List
      {...{ at: "/v1/dead-letters", filters: FILTERS, ...ABOUT, columns: LETTER_COLUMNS, ...(isOpen && { selected, select }) }}
      head={({ pages }) => acts(pages.rows ?? [])}
      noun="dead letter"
      empty="No dead letter of your tenant is open. Choose a state above to see settled ones."
      further="None of the newest 5,000 dead letters matches these filters. Older ones exist."
      hrefOf={({ id }) => hrefOf("dead-letters", id)}
    />
  );
}
