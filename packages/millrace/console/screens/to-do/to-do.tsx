import type { ComponentType } from "preact";
import { get, type Item as ItemOf, type Result } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { filtersOf, RARE } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Acts } from "../../parts/act.tsx";
import { answersOf, DoubtAnswers } from "../../parts/answer.tsx";
import { Folded } from "../../parts/json.tsx";
import { Item, List } from "../../parts/list.tsx";
import { Pages } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, InstanceName, Name, Text } from "../../parts/text.tsx";
import { bulkOf } from "../actions/bulk-act.tsx";
import type { ScreenProps } from "../screen.ts";
import { Alerts } from "./alerts.tsx";

const PAGES: Readonly<Record<string, readonly [title: string, page: ComponentType]>> = {
  questions: ["Questions", Questions],
  "unknown-outcomes": ["Unknown outcomes", UnknownOutcomes],
  alerts: ["Alerts", Alerts],
};

const MOST = 100;

/** Reads the number of open items for each page. A page that the token may not read has no number. */
async function readOpen(): Promise<Result<Record<string, string>>> {
  const limit = String(MOST);
  const [questions, outcomes, alerts] = await Promise.all([
    get("/v1/approvals", { query: { state: "pending", limit } }),
    get("/v1/effects", { query: { limit } }),
    may("observe") ? get("/v1/alerts", { query: { state: "firing", limit } }) : undefined,
  ]);
  const said = (found: Result<{ items: unknown[] }> | undefined) => {
    const count = found?.ok ? found.data.items.length : 0;
    return count === 0 ? "" : `${count}${count === MOST ? "+" : ""}`;
  };
  return { ok: true, data: { questions: said(questions), "unknown-outcomes": said(outcomes), alerts: said(alerts) } };
}

export function ToDo({ param }: ScreenProps) {
  const { data } = useData(readOpen, [], ["approval", "doubt", "action", "tick"]);
  return <Pages screen="to-do" title="To do" pages={PAGES} at={param} {...(data && { open: data })} />;
}

type Question = ItemOf<"/v1/approvals">;

const QUESTIONS = filtersOf("/v1/approvals", { instance: RARE });

function Questions() {
  return (
    <List
      // If an instance is cancelled or undone, its open questions end.
      {...{ at: "/v1/approvals", filters: QUESTIONS, about: ["approval", "action", "skipped"] }}
      noun="question"
      command={'await step.approve("ask whether …", { question, timeout: "1 day", otherwise: "reject" })'}
      empty="No questions. A workflow asks one with:"
      row={(question) => <QuestionRow question={question} />}
    />
  );
}

function QuestionRow({ question: one }: { question: Question }) {
  const { state, ended_as, question, workflow, instance_id, details, asked_at, due_at, decided_at, decided_by, reason, otherwise } = one;
  const isOpen = state === "pending" && ended_as === null;
  const answered = decided_at && <Ago label={`${state} by ${decided_by ?? "timeout"}`} at={decided_at} />;
  const unanswered = <Ago label={`without an answer, ${otherwise === "approve" ? "approved" : "rejected"}`} at={due_at} />;
  return (
    <Item
      mark={<Status word={ended_as === null ? state : "closed"} />}
      title={<Name of={question} />}
      notes={[
        <>
          <Link to={hrefOf("instances", instance_id)}>{workflow}</Link> <Ago label="asked" at={asked_at} /> ·{" "}
          {answered ?? (ended_as === null ? unanswered : `no answer needed: its instance is ${ended_as}`)}
          {decided_at && <Text before=": " of={reason} />}
        </>,
      ]}
      acts={isOpen ? answersOf(one) : []}
    >
      {details && <Folded title="Details of the question" value={details} label="Details" />}
    </Item>
  );
}

type Doubt = ItemOf<"/v1/effects">;

const DOUBTS = filtersOf("/v1/effects", { state: false });

function UnknownOutcomes() {
  return (
    <>
      <p class="quiet">
        An attempt was cut off after its request, and the effect class forbids an automatic repeat. Check the upstream, then choose: it
        happened, it did not happen, or unknown. If an effect happened but its rows were refused, deploy code with valid rows first.
      </p>
      <List
        {...{ at: "/v1/effects", filters: DOUBTS, query: { limit: String(MOST) }, nameOf: ({ key }) => key, about: ["doubt", "action"] }}
        head={({ pages }) => <Together doubts={pages.rows ?? []} />}
        noun="unknown outcome"
        empty="No effect has an unknown outcome."
        row={(doubt) => <DoubtRow doubt={doubt} />}
      />
    </>
  );
}

/** Shows the unknown outcomes of each step as a group with a bulk resolution, because one outage often causes many of them. */
function Together({ doubts }: { doubts: readonly Doubt[] }) {
  const steps = Map.groupBy(doubts, ({ workflow, step }) => JSON.stringify({ workflow, step }));
  const many = [...steps].filter(([, of]) => of.length > 1);
  const acts = many.map(([name, [one]]) =>
    bulkOf(`Decide all of ${one?.workflow} · ${one?.step} together …`, ["reject", "retry_anyway"], { filter: JSON.parse(name) }),
  );
  return <Acts class="acts together" of={acts} />;
}

function DoubtRow({ doubt }: { doubt: Doubt }) {
  const { step, item, instance_id, workflow, subject, error, input, updated_at: at } = doubt;
  return (
    <Item
      mark={<Status word="in_doubt" />}
      title={
        <>
          <Name of={item ? `${step} [${item}]` : step} /> of{" "}
          <Link to={hrefOf("instances", instance_id)}>
            <InstanceName workflow={workflow} subject={subject} />
          </Link>
        </>
      }
      notes={[
        <>
          {doubt.class} · <Ago label="recorded" at={at} />
          <Text before=" · " of={error?.message} />
        </>,
      ]}
    >
      {input !== null && <Folded title="Input" value={input} label={`Input of ${step}`} />}
      {may("operate") && <DoubtAnswers doubt={doubt} consequences={doubt.consequences} />}
    </Item>
  );
}
