import { may } from "../../data/session.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { NeedsObserve } from "../../parts/page.tsx";
import { Health } from "./health.tsx";
import { Lane } from "./lane.tsx";
import { LANE_FILTERS, Lanes } from "./lanes.tsx";
import "./queues.css";

const RATES = {
  minutes: { label: "Rates over the last", options: { 1: "minute", 15: "15 minutes", 60: "hour" }, unset: "5 minutes" },
} as const;
const FILTERS = { ...RATES, ...LANE_FILTERS, key: { label: "Key" } } as const;

export function Queues() {
  const { minutes, key, ...lanes } = useFilters(FILTERS);
  if (lanes.lane !== undefined && key !== undefined) return <Lane key={`${lanes.lane}/${key}`} lane={lanes.lane} name={key} />;
  if (Object.keys(lanes).length > 0)
    return (
      <>
        <h1>Lanes</h1>
        <FilterBar filters={{ ...LANE_FILTERS, cause: { ...LANE_FILTERS.cause, options: { [lanes.cause ?? ""]: "see below" } } }} />
        <Lanes filters={lanes} />
      </>
    );
  return (
    <>
      <h1>Queues and lanes</h1>
      {may("observe") ? (
        <>
          <FilterBar filters={RATES} />
          <Health minutes={minutes} />
        </>
      ) : (
        <NeedsObserve what="Queue health is measured" />
      )}
      <Lanes />
    </>
  );
}
