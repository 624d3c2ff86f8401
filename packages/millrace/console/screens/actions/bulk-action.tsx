import { get, type Item } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { filtersOf } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Acts, Asking, useActs } from "../../parts/act.tsx";
import { List } from "../../parts/list.tsx";
import { Facts, Lost, Pairs, ProblemNote } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { Ago, begun, Id, Moment, shortId, Text } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import "./actions.css";
import { Bar, type Bulk, counted, nounOf, RESULTS, Scope, targetOf, titleOf } from "./words.tsx";

type BulkItem = Item<"/v1/bulk-actions/:id/items">;

const FILTERS = filtersOf("/v1/bulk-actions/:id/items", { result: { says: RESULTS } });

/** The counts of a bulk action change after an action on one of its items, and after a change of an item's instance. */
export const ABOUT = ["action", "instance", "skipped"];

const columnsOf = (verb: string): readonly Column<BulkItem>[] => [
  { head: "No.", width: "56px", narrow: "40px", cell: ({ n }) => n + 1 },
  { of: "result", width: "104px", cell: ({ result }) => <ResultOf of={result} /> },
  { head: begun(nounOf(verb)[0]), width: "1.6fr", narrow: "1.4fr", cell: (one) => <Target verb={verb} of={one} /> },
  { of: "code", isMinor: true, cell: ({ code }) => code && <a href={`/problems#${code}`}>{code}</a> },
  { of: "why", head: "Detail", width: "2fr", narrow: "1fr" },
  { head: "Audit", width: "72px", isMinor: true, cell: ({ target }) => <Link to={hrefOf("audit", { target })}>rows</Link> },
  { of: "at", head: "When", isMinor: true },
];

/** The result of an item. If no item failed, the count of failed items has a neutral tone. */
function ResultOf({ of, count = 1 }: { of: keyof typeof RESULTS; count?: number }) {
  const tones = { done: "green", skipped: "quiet", failed: "red" } as const;
  return <Status word={RESULTS[of]} tone={count === 0 ? "quiet" : tones[of]} />;
}

function Target({ verb, of }: { verb: string; of: BulkItem }) {
  const { target, about } = of;
  const href = targetOf(verb, of);
  const name = about === null ? <code>{shortId(target)}</code> : <bdi>{about}</bdi>;
  return href ? (
    <Link to={href} title={[about, target].filter(Boolean).join(", ")}>
      {name}
    </Link>
  ) : (
    <Id id={target} />
  );
}

export function BulkAction({ param: id }: ScreenProps) {
  const { data: bulk, problem, again } = useData(() => get("/v1/bulk-actions/:id", { param: { id } }), [id], ABOUT);
  const { ask, line } = useActs(again, { id });
  if (!bulk) return <Lost title="Bulk action" problem={problem} all={["actions", "All bulk actions"]} />;
  const canResume = bulk.state === "stopped" || (bulk.state === "aborted" && bulk.remaining > 0);
  return (
    <Asking.Provider value={ask}>
      <h1>{titleOf(bulk.verb, counted(bulk.verb, bulk.matched))}</h1>
      <Facts
        of={[
          <Status word={bulk.state} />,
          [<Ago key="at" label="started" at={bulk.created_at} />, <Text key="by" before=" by " of={bulk.actor} />],
          bulk.ended_at && <Ago label={bulk.state === "stopped" ? "stopped" : "ended"} at={bulk.ended_at} />,
          <Id id={id} />,
        ]}
      />
      {problem && <ProblemNote problem={problem} />}
      {bulk.why && (
        <p class="actions-why">
          <bdi>{bulk.why}</bdi>
        </p>
      )}
      <Progress bulk={bulk} />
      <Acts
        of={[
          bulk.state === "running" && { verb: "Abort", at: "/v1/bulk-actions/:id/abort", param: { id } },
          canResume && { verb: "Resume", at: "/v1/bulk-actions/:id/resume", param: { id }, class: "main" },
        ]}
      />
      {line}
      <BulkFacts bulk={bulk} />
      <h2>Results</h2>
      <Results key={bulk.state} bulk={bulk} />
    </Asking.Provider>
  );
}

function Progress({ bulk }: { bulk: Bulk }) {
  return (
    <section class="actions-far" aria-label="Progress">
      <Bar bulk={bulk} />
      <ul class="actions-parts">
        {(["done", "skipped", "failed", "remaining"] as const).map((part) => (
          <li key={part}>
            <strong>{bulk[part].toLocaleString()}</strong>{" "}
            {part === "remaining" ? <span class="quiet">to do</span> : <ResultOf of={part} count={bulk[part]} />}
          </li>
        ))}
      </ul>
      <p class="quiet">
        Done: applied, and not failed by the end of its stage. Not needed: nothing was left to do; the row names an earlier action, if any.
        Failed: refused, failed afterwards, or of unknown outcome.
      </p>
    </section>
  );
}

function Results({ bulk: { id, verb } }: { bulk: Bulk }) {
  return (
    <List
      {...{ at: "/v1/bulk-actions/:id/items", filters: FILTERS, query: { limit: "200" }, param: { id }, about: ABOUT }}
      nameOf={({ n }) => String(n)}
      label="Results"
      noun="item"
      empty="No results yet: the first stage starts within seconds."
      columns={columnsOf(verb)}
      {...opens(verb)}
    />
  );
}

function opens(verb: string) {
  const [one] = nounOf(verb);
  return ["instance", "dead letter", "unknown outcome"].includes(one) ? { hrefOf: (item: BulkItem) => targetOf(verb, item) ?? "" } : {};
}

function BulkFacts({ bulk }: { bulk: Bulk }) {
  const { verb, filter, undo, matched, ramp, rate_per_second: rate, stop_at_error_rate: stop, settle_within_seconds: settle } = bulk;
  return (
    <Pairs
      of={{
        Reason: <bdi>{bulk.reason}</bdi>,
        Filter: <Scope verb={verb} filter={filter} />,
        Effects: undo !== null && (undo ? "undone where possible" : "not undone"),
        "Count before": [`${counted(verb, matched)}, counted `, <Moment key="at" at={bulk.created_at} />],
        Stages: stagesOf(ramp, matched).join(", "),
        Rate: `${rate} ${nounOf(verb)[1]} per second; a stage waits at most ${settle} s for its items to end`,
        Stops: stop >= 1 ? "never" : `if more than ${Math.round(stop * 1000) / 10} % of a stage fails`,
        Records: (
          <>
            <Link to={hrefOf("instances", bulk.instance_id)}>instance</Link>,{" "}
            <Link to={hrefOf("audit", { target: bulk.id })}>audit rows</Link>
          </>
        ),
      }}
    />
  );
}

/** The sizes of a bulk action's stages. The sizes of the ramp come first; the last stage has the remaining items. */
function stagesOf(ramp: readonly number[], matched: number): number[] {
  const sizes: number[] = [];
  let left = matched;
  for (const size of [...ramp, left]) {
    if (left <= 0) break;
    sizes.push(Math.min(size, left));
    left -= size;
  }
  return sizes;
}
