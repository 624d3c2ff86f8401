import { get } from "../../data/api.ts";
import { usePages } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, usePlace } from "../../frame/router.tsx";
import { Empty, Views } from "../../parts/page.tsx";
import { TableList } from "../../parts/table.tsx";
import { CAUSE_COLUMNS, isAboutLetters, OfNoTenant } from "./columns.tsx";
import { Letters } from "./letters.tsx";

const SHARED = { queue: { label: "Queue" }, reason: { label: "Reason" }, type: { label: "Type" } } as const;

const FILTERS = {
  state: { label: "State", options: { replayed: "replayed", skipped: "skipped" }, unset: "open" },
  ...SHARED,
  escalated: { label: "Escalated", options: { true: "yes", false: "no" } },
  cause: { label: "Cause", isRare: true },
} as const;

export function DeadLetters() {
  const { query } = usePlace();
  const filters = useFilters(FILTERS);
  const { queue, reason, type, state, cause, escalated } = filters;
  const shared = { queue, reason, type };
  const isEach = query.has("each") || Boolean(state || cause || escalated);
  const views = { "By cause": hrefOf("dead-letters", shared), "One by one": hrefOf("dead-letters", { ...shared, each: "true" }) };
  return (
    <>
      <h1>Dead letters</h1>
      <Views label="Dead letters" views={views} current={isEach && !cause ? "One by one" : "By cause"} />
      <FilterBar filters={isEach ? FILTERS : SHARED} />
      {isEach ? <Letters filters={filters} /> : <Causes filters={shared} />}
    </>
  );
}

function Causes({ filters }: { filters: { queue: string | undefined; reason: string | undefined; type: string | undefined } }) {
  const pages = usePages(
    (cursor) => get("/v1/dead-letters/causes", { query: { ...(filters as object), cursor, limit: "50" } }),
    [JSON.stringify(filters)],
    { nameOf: ({ id }) => id, isAbout: isAboutLetters },
  );
  const isFiltered = Object.values(filters).some(Boolean);
  return (
    <TableList
      label="Causes"
      pages={pages}
      noun={["cause", "causes"]}
      empty={
        isFiltered ? (
          <Empty>
            No open dead letter matches these filters. Clear shows all. <OfNoTenant />
          </Empty>
        ) : (
          <Empty command={`curl "${location.origin}/v1/dead-letters?state=replayed" -H "Authorization: Bearer $TOKEN"`}>
            No dead letter of your tenant is open. <OfNoTenant /> See settled ones under One by one, or from a terminal:
          </Empty>
        )
      }
      columns={CAUSE_COLUMNS}
      hrefOf={({ id }) => hrefOf("dead-letters", { cause: id })}
    />
  );
}
