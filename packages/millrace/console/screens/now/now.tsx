import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get, type Item as ItemOf, type Result } from "../../data/api.ts";
import { needed } from "../../data/notices.ts";
import { may } from "../../data/session.ts";
import { useCatalog, useData } from "../../data/use-data.ts";
import { hrefOf, Link, useWalk } from "../../frame/router.tsx";
import { Asking, useActs } from "../../parts/act.tsx";
import { ruleOf } from "../../parts/alert-words.ts";
import { answersOf, type Question } from "../../parts/answer.tsx";
import { Item } from "../../parts/list.tsx";
import { LinkTo, Loaded, ProblemNote, Section } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, GAPS, hasGaps, Text, withoutIds } from "../../parts/text.tsx";
import { counted, titleOf } from "../actions/words.tsx";
import { LastHour, readHour } from "./hour.tsx";
import "./now.css";

export function Now() {
  const needs = useData(readNeeds, [], () => true);
  const hour = useData(readHour, [], ["instance", "skipped"]);
  return (
    <>
      <h1>Now</h1>
      {hour.data?.isFirst && <FirstMinute />}
      <div class="now">
        <Section title="Needs attention">
          <Loaded of={needs}>{(kinds) => <NeedsList kinds={kinds} again={needs.again} />}</Loaded>
        </Section>
        <Section title="Last hour">
          <Loaded of={hour}>{({ instances }) => <LastHour instances={instances} />}</Loaded>
        </Section>
      </div>
    </>
  );
}

function NeedsList({ kinds, again }: { kinds: readonly ReadKind[]; again: () => void }) {
  const { ask, line } = useActs(again);
  const list = useRef<HTMLDivElement>(null);
  const refused = kinds.flatMap(({ found }) => (found.ok ? [] : [found.problem]));
  const found = kinds.flatMap((kind) => (kind.found.ok && kind.found.data.needs.length > 0 ? [{ ...kind, ...kind.found.data }] : []));
  const count = found.reduce((sum, { word, needs }) => sum + (word === "firing" ? 1 : needs.length), 0);
  useWalk(list);
  useEffect(() => {
    needed.set(count);
    return () => needed.set(0);
  }, [count]);
  return (
    <Asking.Provider value={ask}>
      {refused.map((one) => (
        <ProblemNote key={one.detail} problem={one} />
      ))}
      {count === 0 && refused.length === 0 && <p class="quiet">Nothing needs an operator.</p>}
      <div class="needs" ref={list}>
        {found.map(({ word, title, to, needs }) => (
          <section key={word} data-kind={word}>
            <h3>
              <Link to={to}>
                <Status word={word} says={title} />
              </Link>
            </h3>
            <ul class="items">
              {needs.map(({ key, mark, count, to, says, message, first, last, note = "last", question }) => (
                <Item
                  key={key}
                  mark={<strong class="number">{count.toLocaleString()}</strong>}
                  title={
                    <>
                      {mark && <Status word={mark} />} <LinkTo to={to} of={[says, message]} />
                    </>
                  }
                  notes={[
                    <>
                      {first && first !== last && [<Ago key="first" label="first" at={first} />, ", "]}
                      <Ago label={note} at={last} />
                    </>,
                  ]}
                  acts={question && answersOf(question)}
                />
              ))}
            </ul>
          </section>
        ))}
      </div>
      <p class="quiet">
        {[...new Set(found.map(({ foot }) => foot))]}
        {found.some(({ needs }) => needs.some(({ message }) => hasGaps(message))) && GAPS}
      </p>
      {line}
    </Asking.Provider>
  );
}

/** Items that need an operator, as one row. */
interface Need {
  key: string;
  /** The status of the items, if the kind has several statuses. */
  mark?: string;
  count: number;
  to: string;
  says: ComponentChildren;
  /** The message of a cause, in which placeholders replace the parts that differ. */
  message?: string;
  first?: string;
  last: string;
  /** The word that is shown before the time of `last`. Default "last". */
  note?: string;
  question?: Question;
}

const MOST = 20;
const limit = String(MOST);

interface Kind<Page> {
  /** The word that determines the shape and the color of the kind's mark. */
  word: string;
  title: string;
  to: string;
  read: () => Promise<Result<Page>>;
  needs: (page: Page) => Need[];
  foot?: (page: Page) => string;
}

function kindOf<Page extends { items: unknown[] }>({ read, needs, foot, ...kind }: Kind<Page>) {
  const footOf = foot ?? (({ items }) => (items.length === MOST ? `The first ${MOST} of each kind. ` : ""));
  const look = async () => {
    const found = await read();
    return found.ok ? { ok: true as const, data: { needs: needs(found.data), foot: footOf(found.data) } } : found;
  };
  return { ...kind, look };
}

/** How long a bulk action remains in the list after it has stopped itself. */
const STOPPED_FOR_MS = 24 * 3_600_000;
/** States of a lane that need an operator. A lane that waits for a running instance needs no operator. */
const STANDS = new Set(["held", "blocked", "paused", "retrying", "unknown"]);

const KINDS = [
  kindOf({
    ...{ word: "firing", title: "Alerts", to: hrefOf("to-do", "alerts", { state: "firing" }) },
    read: async () =>
      may("observe") ? get("/v1/alerts", { query: { state: "firing", limit } }) : { ok: true, data: { items: [], next_cursor: null } },
    needs: ({ items }) =>
      alertGroups(items.filter(({ muted }) => muted === null)).map(({ severity, rule, says, count, since }) => ({
        ...{ key: rule + severity, mark: severity, count, says, last: since },
        to: hrefOf("to-do", "alerts", { state: "firing", rule }),
        note: count === 1 ? "started" : "the first started",
      })),
  }),
  kindOf({
    ...{ word: "in_doubt", title: "Unknown outcomes", to: hrefOf("to-do", "unknown-outcomes") },
    read: () => get("/v1/effects", { query: { limit } }),
    needs: ({ items }) =>
      items.map(({ key, instance_id, workflow, subject, step, item, answered, updated_at: last }) => ({
        ...{ key, count: 1, to: hrefOf("instances", instance_id), last, note: "recorded" },
        says: `${subject === workflow ? workflow : `${workflow} · ${subject}`} · ${step}${item && ` [${item}]`}: ${answered ? "it happened, but the rows recorded with it were refused" : "unknown whether it happened"}`,
      })),
  }),
  kindOf({
    ...{ word: "errored", title: "Failed instances", to: hrefOf("instances", { status: "errored" }) },
    read: () => get("/v1/instances/causes", { query: { limit } }),
    needs: ({ items }) =>
      items.map(({ id, count, workflow, step, code, message, first_at: first, last_at: last }) => ({
        ...{ key: id, count, to: hrefOf("instances", { cause: id }), says: `${workflow} · ${step ?? code}: `, message, first, last },
      })),
  }),
  kindOf({
    ...{ word: "dead letter", title: "Dead letters", to: hrefOf("dead-letters") },
    read: () => get("/v1/dead-letters/causes", { query: { limit } }),
    needs: ({ items }) =>
      items.map(({ id: key, count, queue, reason, message, first_at: first, last_at: last }) => ({
        ...{ key, count, to: hrefOf("dead-letters", { cause: key }), message, first, last },
        says: `${queue} · ${reason.replaceAll("_", " ")}: `,
      })),
  }),
  kindOf({
    ...{ word: "held", title: "Stalled lanes", to: hrefOf("queues") },
    read: () => get("/v1/lanes/causes"),
    needs: ({ items }) => items.filter(({ state }) => STANDS.has(state)).map(laneNeed),
    foot: ({ more }) => (more ? "Only the first 10,000 lanes are counted. " : ""),
  }),
  kindOf({
    ...{ word: "stopped", title: "Stopped bulk actions", to: hrefOf("actions") },
    read: () => get("/v1/bulk-actions", { query: { state: "stopped", limit } }),
    needs: ({ items }) =>
      items
        .filter(({ ended_at, remaining }) => remaining > 0 && Date.parse(ended_at ?? "") > Date.now() - STOPPED_FOR_MS)
        .map(({ id, verb, matched, remaining, why, ended_at, created_at }) => ({
          ...{ key: id, count: remaining, to: hrefOf("actions", id), last: ended_at ?? created_at },
          says: `${titleOf(verb, counted(verb, matched))}, ${remaining} of them remain. ${why}`,
        })),
  }),
  kindOf({
    ...{ word: "waiting", title: "Questions", to: hrefOf("to-do", "questions") },
    read: () => get("/v1/approvals", { query: { state: "pending", limit } }),
    needs: ({ items }) =>
      items.map(({ instance_id, asked_at, ...question }) => ({
        ...{ key: question.id, count: 1, to: hrefOf("instances", instance_id), last: asked_at, note: "asked", question },
        says: [`${question.question} `, <span class="quiet">due</span>, " ", <Ago at={question.due_at} />],
      })),
  }),
];

type ReadKind = Pick<Kind<never>, "word" | "title" | "to"> & { found: Result<{ needs: Need[]; foot: string }> };

/** Reads the items of each kind. If the API refuses to return one kind, the other kinds are still shown. */
async function readNeeds(): Promise<Result<ReadKind[]>> {
  const kinds = await Promise.all(KINDS.map(async ({ look, ...kind }) => ({ ...kind, found: await look() })));
  // If a request for one kind of item has no response, the screen keeps its data.
  const unanswered = kinds.find(({ found }) => !found.ok && found.problem.status === 0)?.found;
  return unanswered?.ok === false ? unanswered : { ok: true, data: kinds };
}

function laneNeed({ lane, state, cause, keys, waiting, since, key, why, failed }: ItemOf<"/v1/lanes/causes">): Need {
  const reason = failed === null ? `: ${withoutIds(why ?? "")}` : ` ${keys === 1 ? "is" : "are"} blocked by one failure: ${failed}`;
  const behind = waiting === 1 ? "1 message waits" : `${waiting.toLocaleString()} messages wait`;
  return {
    ...{ key: `${lane} ${state} ${cause}`, mark: state, count: keys, last: since },
    to: hrefOf("queues", keys === 1 ? { lane, key } : { lane, state, cause: cause ?? undefined }),
    note: waiting === 0 ? "no message waits, recorded" : `${behind}, the oldest sent`,
    says: [keys === 1 ? <Text before={`Lane ${lane}, `} of={key} /> : `${keys.toLocaleString()} keys of lane ${lane}`, <bdi>{reason}</bdi>],
  };
}

type Alert = ItemOf<"/v1/alerts">;

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
