import { useState } from "preact/hooks";
import { get, type Item } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { usePages } from "../../data/use-pages.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { AnswerQuestion, TO_QUESTIONS } from "../../parts/answer.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Json } from "../../parts/json.tsx";
import { List } from "../../parts/list.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { useTold } from "../../parts/told.tsx";

type Question = Item<"/v1/approvals">;

const FILTERS = {
  state: { label: "State", options: { pending: "pending", approved: "approved", rejected: "rejected" } },
  workflow: { label: "Workflow" },
} as const;

export function Questions() {
  const [asked, ask] = useState<(Question & { verb: keyof typeof TO_QUESTIONS }) | undefined>();
  const filters = useFilters(FILTERS);
  const pages = usePages((cursor) => get("/v1/approvals", { query: { ...(filters as object), cursor } }), [JSON.stringify(filters)], {
    nameOf: ({ id }) => id,
    // If an instance is cancelled or undone, its open questions end.
    isAbout: ({ kind }) => kind === "approval" || kind === "action" || kind === "skipped",
  });
  const { told, line } = useTold(pages.again);
  return (
    <>
      <FilterBar filters={FILTERS} />
      {line}
      <List
        pages={pages}
        noun={["question", "questions"]}
        empty={
          <Empty command={'await step.approve("ask whether …", { question, timeout: "1 day", otherwise: "reject" })'}>
            {Object.keys(filters).length > 0
              ? "No question matches these filters. Clear shows all."
              : "No questions. A workflow asks one with:"}
          </Empty>
        }
      >
        {(rows) => (
          <ul class="items">
            {rows.map((one) => (
              <Row key={one.id} question={one} ask={(verb) => ask({ ...one, verb })} />
            ))}
          </ul>
        )}
      </List>
      {asked && <AnswerQuestion {...asked} done={() => told("Answered. The instance continues.")} close={() => ask(undefined)} />}
    </>
  );
}

function Row({ question: one, ask }: { question: Question; ask: (verb: "approve" | "reject") => void }) {
  const { state, over, question, workflow, instance_id, details, asked_at, due_at, decided_at, decided_by, reason, otherwise } = one;
  return (
    <li>
      <Status word={over === null ? state : "closed"} />
      <div>
        <p>
          <strong>
            <bdi>{question}</bdi>
          </strong>
        </p>
        <p class="quiet">
          <Link to={hrefOf("instances", instance_id)}>{workflow}</Link> asked <Ago at={asked_at} /> ·{" "}
          {decided_at ? (
            <>
              {state} by {decided_by ? <bdi>{decided_by}</bdi> : "timeout"} <Ago at={decided_at} />
              {reason && (
                <>
                  : <bdi>{reason}</bdi>
                </>
              )}
            </>
          ) : over !== null ? (
            <>no answer needed: its instance is {over}</>
          ) : (
            <>
              without an answer, {otherwise === "approve" ? "approved" : "rejected"} <Ago at={due_at} />
            </>
          )}
        </p>
        {details && (
          <details>
            <summary>Details of the question</summary>
            <Json value={details} label="Details" />
          </details>
        )}
      </div>
      {state === "pending" && over === null && may("operate") && (
        <div class="acts">
          <button type="button" class="main" onClick={() => ask("approve")}>
            {TO_QUESTIONS.approve}
          </button>
          <button type="button" onClick={() => ask("reject")}>
            {TO_QUESTIONS.reject}
          </button>
        </div>
      )}
    </li>
  );
}
