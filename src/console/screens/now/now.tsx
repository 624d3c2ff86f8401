import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Result } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { AnswerQuestion } from "../../parts/answer.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Status, type Tone } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { LastHour } from "./hour.tsx";
import { MOST, type Needs, readNeeds } from "./needs.ts";
import "./now.css";

/** What needs a person, first; and how the last hour was. */
export function Now() {
  const { data, problem, again } = useData(readNeeds, [], () => true);
  return (
    <>
      <h1>Now</h1>
      <div class="now">
        <section aria-labelledby="needs">
          <h2 id="needs">Needs you</h2>
          {problem && <ProblemNote problem={problem} />}
          {data && <NeedsList needs={data} again={again} />}
        </section>
        <section aria-labelledby="hour">
          <h2 id="hour">Last hour</h2>
          <LastHour />
        </section>
      </div>
    </>
  );
}

function NeedsList({ needs, again }: { needs: Needs; again: () => void }) {
  const [asked, ask] = useState<{ id: string; question: string; verb: "approve" | "reject" } | undefined>();
  const [said, say] = useState("");
  const { causes, doubts, questions, letters, lanes } = needs;
  const refused = Object.values(needs).flatMap((one: Result<unknown>) => (one.ok ? [] : [one.problem]));
  const count = Object.values(needs).reduce((sum, one: Result<{ items: unknown[] }>) => sum + (one.ok ? one.data.items.length : 0), 0);
  const of = <Row,>(one: Result<{ items: Row[] }>) => (one.ok ? one.data.items : []);
  return (
    <>
      {refused.map((one) => (
        <ProblemNote key={one.detail} problem={one} />
      ))}
      {count === 0 && refused.length === 0 && <p class="quiet">Nothing waits for a person.</p>}
      <ul class="needs">
        {of(causes).map(({ id, count, workflow, step, code, message, first_at, last_at }) => (
          <Need key={id} word="errored" tone="red" count={count} to={hrefOf("instances", { cause: id })} first={first_at} last={last_at}>
            {workflow} · {step ?? code}: {message}
          </Need>
        ))}
        {of(doubts).map(({ key, instance_id, step, updated_at }) => (
          <Need key={key} word="in_doubt" tone="orange" count={1} to={hrefOf("instances", instance_id)} last={updated_at}>
            {step}: nobody knows whether it happened
          </Need>
        ))}
        {of(letters).map(({ id, count, queue, reason, message, first_at, last_at }) => (
          <Need
            key={id}
            word="dead letter"
            tone="red"
            count={count}
            to={hrefOf("dead-letters", { cause: id })}
            first={first_at}
            last={last_at}
          >
            {queue} · {reason}: {message}
          </Need>
        ))}
        {of(questions).map(({ id, question, instance_id, asked_at, due_at }) => (
          <Need
            key={id}
            word="asks"
            tone="violet"
            count={1}
            to={hrefOf("instances", instance_id)}
            last={asked_at}
            acts={
              may("operate") && (
                <>
                  <button type="button" onClick={() => ask({ id, question, verb: "approve" })}>
                    Say yes
                  </button>
                  <button type="button" onClick={() => ask({ id, question, verb: "reject" })}>
                    Say no
                  </button>
                </>
              )
            }
          >
            {question} <span class="quiet">due</span> <Ago at={due_at} />
          </Need>
        ))}
        {of(lanes).map(({ lane, key, state, why, depth, oldest_at, noted_at }) => (
          <Need
            key={`${lane} ${key}`}
            word={state}
            tone="grey"
            count={depth}
            to={hrefOf("queues", { lane, key })}
            last={oldest_at ?? noted_at}
          >
            lane {lane}, {key}: {why ?? "it stands still"}
          </Need>
        ))}
      </ul>
      <p class="quiet" role="status">
        {Object.values(needs).some((one: Result<{ items: unknown[] }>) => one.ok && one.data.items.length === MOST) &&
          `The first ${MOST} of each kind. `}
        {said}
      </p>
      {asked && (
        <AnswerQuestion
          {...asked}
          close={() => ask(undefined)}
          done={(action) => {
            say(`Answered, as action ${action}.`);
            again();
          }}
        />
      )}
    </>
  );
}

interface NeedProps {
  word: string;
  tone: Tone;
  count: number;
  to: string;
  first?: string;
  last: string;
  acts?: ComponentChildren;
  children: ComponentChildren;
}

function Need({ word, tone, count, to, first, last, acts, children }: NeedProps) {
  return (
    <li>
      <Status word={word} tone={tone} />
      <strong class="number">{count}</strong>
      <div>
        <p>
          <Link to={to}>
            <bdi>{children}</bdi>
          </Link>
        </p>
        <p class="quiet">
          {first && first !== last && (
            <>
              first <Ago at={first} />,{" "}
            </>
          )}
          last <Ago at={last} />
        </p>
      </div>
      {acts && <div class="acts">{acts}</div>}
    </li>
  );
}
