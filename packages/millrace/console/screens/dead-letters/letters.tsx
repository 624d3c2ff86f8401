import { useState } from "preact/hooks";
import { get } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useCause, usePages } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty } from "../../parts/page.tsx";
import { Ago } from "../../parts/text.tsx";
import { BulkAct, type Meant } from "../actions/bulk-act.tsx";
import { isAboutLetters, LETTER_COLUMNS, OfNoTenant } from "./columns.tsx";
import "./dead-letters.css";
import { TableList } from "../../parts/table.tsx";

interface Filters {
  state?: string;
  queue?: string;
  reason?: string;
  type?: string;
  escalated?: string;
  cause?: string;
}

export function Letters({ filters }: { filters: Filters }) {
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const [asked, ask] = useState<{ verb: string; meant: Meant } | undefined>();
  const pages = usePages(
    (cursor) => get("/v1/dead-letters", { query: { ...(filters as object), cursor, limit: "50" } }),
    [JSON.stringify(filters)],
    { nameOf: ({ id }) => id, isAbout: isAboutLetters },
  );
  const isOpen = filters.state === undefined && may("operate");
  const { queue, reason, type, cause, escalated } = filters;
  // Dead letters that have been settled since their selection are ignored.
  const ids = (pages.rows ?? []).map(({ id }) => id).filter((id) => selected.has(id));
  const given = Object.entries({ queue, reason, message_type: type, cause }).filter(([, value]) => value);
  const meant: Meant = ids.length > 0 ? { ids } : { filter: Object.fromEntries(given) as Record<string, string> };
  // A bulk action cannot filter by `escalated`. With this filter, the operator must select single dead letters instead.
  const canAct = isOpen && pages.rows && pages.rows.length > 0 && (ids.length > 0 || escalated === undefined);
  return (
    <>
      {cause && <Cause id={cause} />}
      {canAct && (
        <p class="acts">
          {["replay", "skip"].map((verb) => (
            <button key={verb} type="button" onClick={() => ask({ verb, meant })}>
              {verb === "replay" ? "Replay" : "Skip"}{" "}
              {ids.length > 0 ? `the ${ids.length} selected` : cause ? "all with this cause" : "all of these"} …
            </button>
          ))}
          <span class="quiet">
            <kbd>x</kbd>selects a row
          </span>
        </p>
      )}
      <TableList
        label="Dead letters"
        pages={pages}
        noun={["dead letter", "dead letters"]}
        empty={<None filters={filters} isShort={pages.more !== undefined} />}
        columns={LETTER_COLUMNS}
        hrefOf={({ id }) => hrefOf("dead-letters", id)}
        {...(isOpen && { selected, select })}
      />
      {asked && <BulkAct verbs={[asked.verb]} meant={asked.meant} close={() => ask(undefined)} />}
    </>
  );
}

function Cause({ id }: { id: string }) {
  const cause = useCause("/v1/dead-letters/causes", id);
  if (!cause) return null;
  const { count, message, message_type: type, step, reason, queue, first_at: first, last_at: last } = cause;
  return (
    <section class="letters-cause" aria-label="The cause">
      <p>
        <bdi>{[step, message].filter(Boolean).join(": ")}</bdi>
      </p>
      <p class="quiet">
        {count} open · {reason.replaceAll("_", " ")} · <bdi>{type ?? "no type"}</bdi> from {queue} · first <Ago at={first} />, last{" "}
        <Ago at={last} />
      </p>
    </section>
  );
}

function None({ filters, isShort }: { filters: Filters; isShort: boolean }) {
  const { cause, ...others } = filters;
  if (isShort) return <Empty>None of the newest 5,000 dead letters matches these filters. Older ones exist.</Empty>;
  if (cause && Object.keys(others).length === 0)
    return (
      <Empty>
        No dead letter with this cause is open: each was replayed or skipped. See <Link to={hrefOf("audit")}>the audit</Link>.{" "}
        <OfNoTenant />
      </Empty>
    );
  if (Object.keys(filters).length > 0)
    return (
      <Empty>
        No dead letter matches these filters. Clear shows all open ones. <OfNoTenant />
      </Empty>
    );
  return (
    <Empty command={`curl "${location.origin}/v1/dead-letters?state=replayed" -H "Authorization: Bearer $TOKEN"`}>
      No dead letter of your tenant is open. <OfNoTenant /> Choose a state above to see settled ones, or from a terminal:
    </Empty>
  );
}
