import { useState } from "preact/hooks";
import { get, type Item as ItemOf } from "../../data/api.ts";
import { usePages } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { AnswerQuestion, TO_QUESTIONS } from "../../parts/answer.tsx";
import { Json } from "../../parts/json.tsx";
import { Button, Empty, Item, Items, useTold } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Name, Text } from "../../parts/text.tsx";

type Question = ItemOf<"/v1/approvals">;

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
      <Items
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
        {(one) => <Row key={one.id} question={one} ask={(verb) => ask({ ...one, verb })} />}
      </Items>
      {asked && <AnswerQuestion {...asked} done={() => told("Answered. The instance continues.")} close={() => ask(undefined)} />}
    </>
  );
}

function Row({ question: one, ask }: { question: Question; ask: (verb: "approve" | "reject") => void }) {
  const { state, over, question, workflow, instance_id, details, asked_at, due_at, decided_at, decided_by, reason, otherwise } = one;
  const isOpen = state === "pending" && over === null;
  const answered = decided_at && <Ago label={`${state} by ${decided_by ?? "timeout"}`} at={decided_at} />;
  const unanswered = <Ago label={`without an answer, ${otherwise === "approve" ? "approved" : "rejected"}`} at={due_at} />;
  return (
    <Item
      mark={<Status word={over === null ? state : "closed"} />}
      title={<Name of={question} />}
      notes={[
        <>
          <Link to={hrefOf("instances", instance_id)}>{workflow}</Link> <Ago label="asked" at={asked_at} /> ·{" "}
          {answered ?? (over === null ? unanswered : `no answer needed: its instance is ${over}`)}
          {decided_at && <Text before=": " of={reason} />}
        </>,
      ]}
      acts={
        isOpen && (
          <>
            <Button class="main" press={() => ask("approve")}>
              {TO_QUESTIONS.approve}
            </Button>
            <Button press={() => ask("reject")}>{TO_QUESTIONS.reject}</Button>
          </>
        )
      }
    >
      {details && (
        <details>
          <summary>Details of the question</summary>
          <Json value={details} label="Details" />
        </details>
      )}
    </Item>
  );
}
