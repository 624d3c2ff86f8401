import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, get, type Item, type Result } from "../../data/api.ts";
import { needed } from "../../data/notices.ts";
import { may } from "../../data/session.ts";
import { useCatalog, useData, useRegularly } from "../../data/use-data.ts";
import { sinceOf } from "../../frame/filters.tsx";
import { useWalk } from "../../frame/keys.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { ruleOf } from "../../parts/alert-words.ts";
import { AnswerQuestion, type Question, TO_QUESTIONS } from "../../parts/answer.tsx";
import { ProblemNote, Reading } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Text, withoutIds } from "../../parts/text.tsx";
import { counted, titleOf } from "../actions/words.tsx";
import { LastHour, readHour } from "./hour.tsx";
import "./now.css";

export function Now() {
  const { data, problem, again } = useData(readNeeds, [], () => true);
  // The data is also reloaded regularly, because a change of an alert causes no event.
  useRegularly(again);
  const { data: hour, problem: unread } = useData(() => readHour(sinceOf("1h") ?? ""), [], ["instance", "skipped"]);
  return (
    <>
      <h1>Now</h1>
      {hour?.isFirst && <FirstMinute />}
      <div class="now">
        <section aria-labelledby="needs">
          <h2 id="needs">Needs attention</h2>
          {(problem || !data) && <Reading problem={problem} />}
          {data && <NeedsList needs={data} again={again} />}
        </section>
        <section aria-labelledby="hour">
          <h2 id="hour">Last hour</h2>
          {hour ? <LastHour instances={hour.instances} /> : <Reading problem={unread} />}
        </section>
      </div>
    </>
  );
}

function NeedsList({ needs, again }: { needs: Needs; again: () => void }) {
  const [asked, ask] = useState<(Question & { verb: keyof typeof TO_QUESTIONS }) | undefined>();
  const [said, say] = useState("");
  const list = useRef<HTMLDivElement>(null);
  const { causes, doubts, questions, letters, lanes, bulk, alerts } = needs;
  const parts = Object.values(needs) as Result<{ items: unknown[] }>[];
  const refused = parts.flatMap((one) => (one.ok ? [] : [one.problem]));
  const count = parts.reduce(
    (sum, one) => sum + (one.ok ? (one === alerts ? Math.min(1, one.data.items.length) : one.data.items.length) : 0),
    0,
  );
  const hasPlaceholders = [...of(causes), ...of(letters)].some(({ message }) => /#|"…"/.test(message));
  useWalk(list);
  useEffect(() => {
    needed.set(count);
    return () => needed.set(0);
  }, [count]);
  return (
    <>
      {refused.map((one) => (
        <ProblemNote key={one.detail} problem={one} />
      ))}
      {count === 0 && refused.length === 0 && <p class="quiet">Nothing needs an operator.</p>}
      <div class="needs" ref={list}>
        {alerts?.ok && (
          <Kind word="firing" title="Alerts" to={hrefOf("to-do", "alerts", { state: "firing" })} rows={alertGroups(alerts.data.items)}>
            {({ severity, rule, says, count, since }) => (
              <Need
                key={rule + severity}
                mark={severity}
                count={count}
                to={hrefOf("to-do", "alerts", { state: "firing", rule })}
                last={since}
                note={count === 1 ? "started" : "the first started"}
              >
                {says}
              </Need>
            )}
          </Kind>
        )}
        <Kind word="in_doubt" title="Unknown outcomes" to={hrefOf("to-do", "unknown-outcomes")} rows={of(doubts)}>
          {({ key, instance_id, workflow, subject, step, item, answered, updated_at }) => (
            <Need key={key} count={1} to={hrefOf("instances", instance_id)} last={updated_at} note="recorded">
              {workflow} · {subject} · {step}
              {item && ` [${item}]`}: {answered ? "it happened, but the rows recorded with it were refused" : "unknown whether it happened"}
            </Need>
          )}
        </Kind>
        <Kind word="errored" title="Failed instances" to={hrefOf("instances", { status: "errored" })} rows={of(causes)}>
          {({ id, count, workflow, step, code, message, first_at, last_at }) => (
            <Need key={id} count={count} to={hrefOf("instances", { cause: id })} first={first_at} last={last_at}>
              {workflow} · {step ?? code}: {message}
            </Need>
          )}
        </Kind>
        <Kind word="dead letter" title="Dead letters" to={hrefOf("dead-letters")} rows={of(letters)}>
          {({ id, count, queue, reason, message, first_at, last_at }) => (
            <Need key={id} count={count} to={hrefOf("dead-letters", { cause: id })} first={first_at} last={last_at}>
              {queue} · {reason}: {message}
            </Need>
          )}
        </Kind>
        <Kind word="held" title="Stalled lanes" to={hrefOf("queues")} rows={of(lanes)}>
          {(group) => <LaneNeed key={`${group.lane} ${group.state} ${group.cause}`} group={group} />}
        </Kind>
        <Kind word="stopped" title="Stopped bulk actions" to={hrefOf("actions")} rows={of(bulk)}>
          {({ id, verb, matched, left, why, ended_at, created_at }) => (
            <Need key={id} count={left} to={hrefOf("actions", id)} last={ended_at ?? created_at}>
              {titleOf(verb, counted(verb, matched))}, {left} of them left. {why}
            </Need>
          )}
        </Kind>
        <Kind word="waiting" title="Questions" to={hrefOf("to-do", "questions")} rows={of(questions)}>
          {({ instance_id, asked_at, ...asking }) => (
            <Need
              key={asking.id}
              count={1}
              to={hrefOf("instances", instance_id)}
              last={asked_at}
              note="asked"
              acts={
                may("operate") &&
                (["approve", "reject"] as const).map((verb) => (
                  <button key={verb} type="button" onClick={() => ask({ ...asking, verb })}>
                    {TO_QUESTIONS[verb]}
                  </button>
                ))
              }
            >
              {asking.question} <span class="quiet">due</span> <Ago at={asking.due_at} />
            </Need>
          )}
        </Kind>
      </div>
      <p class="quiet" role="status">
        {parts.some((one) => one.ok && one.data.items.length === MOST) && `The first ${MOST} of each kind. `}
        {lanes.ok && lanes.data.more && "Only the first 10,000 lanes are counted. "}
        {hasPlaceholders && 'In error messages, # replaces a number or an id, and "…" replaces a text that differs. '}
        {said}
      </p>
      {asked && (
        <AnswerQuestion
          {...asked}
          close={() => ask(undefined)}
          done={() => {
            say("Answered. The instance continues.");
            again();
          }}
        />
      )}
    </>
  );
}

const of = <Row,>(one: Result<{ items: Row[] }>) => (one.ok ? one.data.items : []);

function LaneNeed({ group: { lane, state, cause, keys, waiting, since, key, why, failed } }: { group: Item<"/v1/lanes/causes"> }) {
  const to = hrefOf("queues", keys === 1 ? { lane, key } : { lane, state, cause: cause ?? undefined });
  const reason = failed === null ? `: ${withoutIds(why ?? "")}` : ` ${keys === 1 ? "is" : "are"} blocked by one failure: ${failed}`;
  const behind = waiting === 1 ? "1 message waits" : `${waiting.toLocaleString()} messages wait`;
  const note = waiting === 0 ? "no message waits, recorded" : `${behind}, the oldest sent`;
  return (
    <Need mark={state} count={keys} to={to} last={since} note={note}>
      {keys === 1 ? <Text before={`Lane ${lane}, `} of={key} /> : `${keys.toLocaleString()} keys of lane ${lane}`}
      <bdi>{reason}</bdi>
    </Need>
  );
}

interface KindProps<Row> {
  /** The word that determines the shape and the color of the items' mark. */
  word: string;
  title: string;
  to: string;
  rows: readonly Row[];
  children: (row: Row) => ComponentChildren;
}

function Kind<Row>({ word, title, to, rows, children }: KindProps<Row>) {
  if (rows.length === 0) return null;
  return (
    <section data-kind={word}>
      <h3>
        <Link to={to}>
          <Status word={word} says={title} />
        </Link>
      </h3>
      <ul>{rows.map(children)}</ul>
    </section>
  );
}

type Alert = Item<"/v1/alerts">;

/** Shows the alerts of one rule and one severity as one row. Rows of critical alerts come first. */
function alertGroups(alerts: readonly Alert[]) {
  const groups = Map.groupBy(alerts, ({ severity, rule }) => `${severity} ${rule}`);
  return [...groups.values()]
    .flatMap((all) => {
      const [first] = all.toSorted((one, other) => (one.since < other.since ? -1 : 1));
      return first ? [{ ...first, says: ruleOf(first.rule).says, count: all.length }] : [];
    })
    .toSorted((one, other) => Number(other.severity === "critical") - Number(one.severity === "critical"));
}

interface NeedProps {
  /** The status of the items, if the kind has several statuses. */
  mark?: string;
  count: number;
  to: string;
  first?: string;
  last: string;
  /** The word that is shown before the time of `last`. Default "last". */
  note?: string;
  acts?: ComponentChildren;
  children: ComponentChildren;
}

function Need({ mark, count, to, first, last, note = "last", acts, children }: NeedProps) {
  return (
    <li>
      <strong class="number">{count.toLocaleString()}</strong>
      <div>
        <p>
          {mark && <Status word={mark} />}{" "}
          <Link to={to}>
            <bdi>{children}</bdi>
          </Link>
        </p>
        <p class="quiet">
          {first && first !== last && [<Ago key="first" label="first" at={first} />, ", "]}
          <Ago label={note} at={last} />
        </p>
      </div>
      {acts && <div class="acts">{acts}</div>}
    </li>
  );
}

function FirstMinute() {
  const { data } = useCatalog();
  const first = data?.first_command;
  if (!first) return null;
  const to = hrefOf("send", { message: `command ${first.type}`, example: "first" });
  return (
    <section class="first-minute" aria-labelledby="first-minute">
      <h2 id="first-minute">Your first minute: send a command, see it fail, retry it</h2>
      <ol class="clicks">
        <li>
          <Link class="main" to={to}>
            Open a command that fails once
          </Link>
          <p>The form is filled in, and the idempotency key is shown.</p>
        </li>
        <li>
          <strong>Press Send</strong>
          <p>The instance opens and shows why it failed.</p>
        </li>
        <li>
          <strong>Press Retry</strong>
          <p>A preview shows the steps that run again. Enter a reason, confirm, and see the instance complete.</p>
        </li>
      </ol>
      <p class="quiet">
        All commands and events are in the <Link to={hrefOf("catalog")}>Catalog</Link>.
      </p>
    </section>
  );
}

/** Items that need an operator. If the API refuses to return one kind of item, the other kinds are still shown. */
export interface Needs {
  causes: Result<Answer<"/v1/instances/causes">>;
  doubts: Result<Answer<"/v1/effects">>;
  questions: Result<Answer<"/v1/approvals">>;
  letters: Result<Answer<"/v1/dead-letters/causes">>;
  lanes: Result<Answer<"/v1/lanes/causes">>;
  bulk: Result<Answer<"/v1/bulk-actions">>;
  /** The alerts. Undefined if the token lacks the scope for alerts. */
  alerts?: Result<Answer<"/v1/alerts">>;
}

const MOST = 20;

/** How long a bulk action remains in the list after it has stopped itself. */
const STOPPED_FOR_MS = 24 * 3_600_000;
/** States of a lane that need an operator. A lane that waits for a running instance needs no operator. */
const STANDS = new Set(["held", "blocked", "paused", "retrying", "unknown"]);

async function readNeeds(): Promise<Result<Needs>> {
  const limit = String(MOST);
  const [causes, doubts, questions, letters, lanes, bulk, alerts] = await Promise.all([
    get("/v1/instances/causes", { query: { limit } }),
    get("/v1/effects", { query: { limit } }),
    get("/v1/approvals", { query: { state: "pending", limit } }),
    get("/v1/dead-letters/causes", { query: { limit } }),
    get("/v1/lanes/causes"),
    get("/v1/bulk-actions", { query: { state: "stopped", limit } }),
    may("observe") ? get("/v1/alerts", { query: { state: "firing", limit } }) : undefined,
  ]);
  // If a request for one kind of item has no response, the screen keeps its data.
  const refused = [causes, doubts, questions, letters, lanes, bulk].find((one) => !one.ok && one.problem.status === 0);
  if (refused && !refused.ok) return refused;
  const since = Date.now() - STOPPED_FOR_MS;
  return {
    ok: true,
    data: {
      ...{ causes, doubts, questions, letters },
      lanes: those(lanes, ({ state }) => STANDS.has(state)),
      bulk: those(bulk, ({ ended_at, left }) => left > 0 && Date.parse(ended_at ?? "") > since),
      ...(alerts && { alerts: those(alerts, ({ muted }) => muted === null) }),
    },
  };
}

function those<Row, Page extends { items: Row[] }>(found: Result<Page & { items: Row[] }>, isMeant: (row: Row) => boolean): Result<Page> {
  return found.ok ? { ok: true, data: { ...found.data, items: found.data.items.filter(isMeant) } } : found;
}
