import { useState } from "preact/hooks";
import { get, type Item, post } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { usePages } from "../../data/use-pages.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { useKeys } from "../../frame/keys.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act } from "../../parts/act.tsx";
import { Empty } from "../../parts/empty.tsx";
import { copied, Id, shortId } from "../../parts/id.tsx";
import { List } from "../../parts/list.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import type { ScreenProps } from "../screen.ts";
import "./actions.css";
import { BulkFacts } from "./bulk-facts.tsx";
import { Bar } from "./progress.tsx";
import { type Bulk, begun, counted, meaningOf, nounOf, resultOf, targetOf, titleOf } from "./words.ts";

type BulkItem = Item<"/v1/bulk-actions/:id/items">;

const RESULTS = ["done", "skipped", "failed"] as const;
const filtersOf = (verb: string) => ({
  result: { label: "Result", options: Object.fromEntries(RESULTS.map((one) => [one, resultOf(verb, one)])) },
});

const moves = ({ kind }: { kind: string }) => kind === "action" || kind === "instance" || kind === "skipped";

const columnsOf = (verb: string): readonly Column<BulkItem>[] => [
  { head: "No.", width: "56px", narrow: "40px", cell: ({ n }) => n + 1 },
  { head: "Result", width: "104px", cell: ({ result }) => <ResultOf verb={verb} word={result} /> },
  { head: begun(nounOf(verb)[0]), width: "1.6fr", narrow: "1.4fr", cell: (one) => <Target verb={verb} of={one} /> },
  { head: "Code", width: "1fr", isMinor: true, cell: ({ code }) => code && <a href={`/problems#${code}`}>{code}</a> },
  { head: "Detail", width: "2fr", narrow: "1fr", cell: ({ why }) => <bdi title={why ?? undefined}>{why}</bdi> },
  { head: "Audit", width: "72px", isMinor: true, cell: ({ target }) => <Link to={hrefOf("audit", { target })}>rows</Link> },
  { head: "When", width: "96px", isNumber: true, isMinor: true, cell: ({ at }) => <Ago at={at} /> },
];

/** A bulk action does not retry a failed item. If no item failed, the count of failed items has a neutral tone. */
function ResultOf({ verb, word, count = 1 }: { verb: string; word: string; count?: number }) {
  return (
    <Status word={resultOf(verb, word)} tone={count === 0 ? "quiet" : word === "failed" ? "red" : word === "done" ? "green" : "quiet"} />
  );
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
  const [verb, steer] = useState<"abort" | "resume" | undefined>();
  const [said, say] = useState("");
  const { data: bulk, problem, again } = useData(() => get("/v1/bulk-actions/:id", { param: { id } }), [id], moves);
  useKeys({ c: () => void copied(id).then((done) => done && say("Id copied.")) });
  if (!bulk)
    return (
      <>
        <h1>Bulk action</h1>
        {problem ? <ProblemNote problem={problem} /> : <p class="quiet">Reading …</p>}
        <p>
          <Link to={hrefOf("actions")}>All bulk actions</Link>
        </p>
      </>
    );
  const canResume = bulk.state === "stopped" || (bulk.state === "aborted" && bulk.left > 0);
  return (
    <>
      <h1>{titleOf(bulk.verb, counted(bulk.verb, bulk.matched))}</h1>
      <p class="actions-line">
        <Status word={bulk.state} />
        <span>
          started <Ago at={bulk.created_at} /> by <bdi>{bulk.actor}</bdi>
        </span>
        {bulk.ended_at && (
          <span>
            {bulk.state === "stopped" ? "stopped" : "ended"} <Ago at={bulk.ended_at} />
          </span>
        )}
        <Id id={id} />
      </p>
      {problem && <ProblemNote problem={problem} />}
      {bulk.why && (
        <p class="actions-why">
          <bdi>{bulk.why}</bdi>
        </p>
      )}
      <Progress bulk={bulk} />
      {may("operate") && (bulk.state === "running" || canResume) && (
        <p class="actions-line">
          {bulk.state === "running" ? (
            <button type="button" onClick={() => steer("abort")}>
              Abort …
            </button>
          ) : (
            <button type="button" class="main" onClick={() => steer("resume")}>
              Resume …
            </button>
          )}
        </p>
      )}
      <p class="actions-done" role="status">
        {said}
      </p>
      <BulkFacts bulk={bulk} />
      <h2>Results</h2>
      <Results bulk={bulk} />
      {verb && <Steer bulk={bulk} verb={verb} close={() => steer(undefined)} done={again} />}
    </>
  );
}

function Progress({ bulk }: { bulk: Bulk }) {
  return (
    <section class="actions-far" aria-label="Progress">
      <Bar bulk={bulk} />
      <ul class="actions-parts">
        {(["done", "skipped", "failed", "left"] as const).map((part) => (
          <li key={part}>
            <strong>{bulk[part].toLocaleString()}</strong>{" "}
            {part === "left" ? <span class="quiet">to do</span> : <ResultOf verb={bulk.verb} word={part} count={bulk[part]} />}
          </li>
        ))}
      </ul>
      <p class="quiet">{meaningOf(bulk.verb)}</p>
    </section>
  );
}

function Results({ bulk: { id, verb, state } }: { bulk: Bulk }) {
  const { result } = useFilters(filtersOf(verb));
  const pages = usePages(
    (cursor) => get("/v1/bulk-actions/:id/items", { param: { id }, query: { result: result as BulkItem["result"], cursor, limit: "200" } }),
    [id, result, state],
    { nameOf: ({ n }) => String(n), isAbout: moves },
  );
  return (
    <>
      <FilterBar filters={filtersOf(verb)} />
      <List
        pages={pages}
        noun={["item", "items"]}
        empty={
          <Empty>
            {result ? `No item is ${resultOf(verb, result)} so far.` : "No results yet: the first stage starts within seconds."}
          </Empty>
        }
      >
        {(rows) => <Table label="Results" rows={rows} columns={columnsOf(verb)} nameOf={({ n }) => String(n)} {...opens(verb)} />}
      </List>
    </>
  );
}

function opens(verb: string) {
  const [one] = nounOf(verb);
  return ["instance", "dead letter", "unknown outcome"].includes(one) ? { hrefOf: (item: BulkItem) => targetOf(verb, item) ?? "" } : {};
}

function Steer({ bulk, verb, close, done }: { bulk: Bulk; verb: "abort" | "resume"; close: () => void; done: () => void }) {
  const { id } = bulk;
  return (
    <Act
      title={`${verb === "abort" ? "Abort" : "Resume"} this bulk action`}
      verb={verb === "abort" ? "Abort it" : "Resume it"}
      final={verb === "abort" ? "Items already started are not reverted." : null}
      dryRun={() => get("/v1/bulk-actions/:id", { param: { id } })}
      refusal={({ state }) => ((state === "running") === (verb === "abort") ? null : `It is ${state} : there is nothing to ${verb}.`)}
      show={({ left, failed, verb: what }) =>
        verb === "abort" ? (
          <p>
            Within a second, no further item is started: {counted(what, left)} {left === 1 ? "remains" : "remain"} unchanged. Finished items
            remain as they are. The bulk action can be resumed.
          </p>
        ) : (
          <p>
            It continues with the remaining {counted(what, left)}, at the stage where it stopped.
            {failed > 0 && ` Failed items (${failed}) are not retried: start another bulk action for them.`}
          </p>
        )
      }
      act={(reason) => post(`/v1/bulk-actions/:id/${verb}` as "/v1/bulk-actions/:id/abort", { param: { id }, body: { reason } })}
      done={done}
      close={close}
    />
  );
}
