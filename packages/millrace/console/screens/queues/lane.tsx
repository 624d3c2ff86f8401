import { type Answer, get, type Item } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Acts, Asking, useActs } from "../../parts/act.tsx";
import { Facts, Lines, LinkTo, Pairs, Reading, Section } from "../../parts/page.tsx";
import { Status, toneOf } from "../../parts/status.tsx";
import { Ago, Id, shortId, Text, withoutIds } from "../../parts/text.tsx";

type Standing = Answer<"/v1/lanes/:lane/:key">;

const MOST_LETTERS = 20;

function shortKey(key: string): string {
  const letters = [...key];
  return letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("")}…` : key;
}

/** The possible actions. Actions that keep the order come first. This list only hides actions that the API would refuse. */
function actsFor({ lane, key, state, head, ahead }: Standing) {
  const failed = ahead.find((one) => one.failed !== null);
  const next = head ?? undefined;
  // The lane refuses an action with an id if a different message or instance now has this position.
  const act = (verb: string, path: "pause" | "resume" | "retry-head" | "skip-head", id?: string, kind?: "main" | "danger") => ({
    ...{ verb, at: `/v1/lanes/:lane/:key/${path}` as const, param: { lane, key }, given: { id }, class: kind },
  });
  const name = next && shortKey(next.idempotency_key ?? shortId(next.id));
  return [
    failed && { verb: "Retry the instance", at: "/v1/instances/:id/retry" as const, param: { id: failed.instance_id }, class: "main" },
    failed && act("Skip this instance", state === "held" ? "resume" : "skip-head", failed.instance_id),
    (state === "paused" || (state === "held" && !failed)) && act("Resume the lane", "resume", undefined, failed ? undefined : "main"),
    next && !failed && state !== "waiting" && state !== "moving" && act("Retry the next message now", "retry-head", next.id),
    next && act(`Drop the next message (${name})`, "skip-head", next.id, "danger"),
    state !== "paused" && act("Pause", "pause"),
  ];
}

export function wordFor({ state, ahead }: Pick<Item<"/v1/lanes">, "state" | "ahead">): string {
  return state === "waiting" && ahead.some(({ failed }) => failed !== null) ? "blocked" : state;
}

export function Lane({ lane, name }: { lane: string; name: string }) {
  const { data, problem, again } = useData(
    () => get("/v1/lanes/:lane/:key", { param: { lane, key: name } }),
    [lane, name],
    () => true,
  );
  const { ask, line } = useActs(again);
  return (
    <Asking.Provider value={ask}>
      <h1>
        <span class="quiet">Lane</span> {lane} <span class="quiet">·</span> <bdi>{name}</bdi>
      </h1>
      {(problem || !data) && <Reading problem={problem} />}
      {data && (
        <>
          <Facts
            of={[
              <Status word={wordFor(data)} />,
              data.depth === 1 ? "1 message waits" : `${data.depth.toLocaleString()} messages wait`,
              data.oldest_at && <Ago label="the oldest was sent" at={data.oldest_at} />,
            ]}
          />
          {data.why && (
            <p class="cause" data-tone={toneOf(wordFor(data))}>
              <Why of={data} />
            </p>
          )}
          <Acts of={actsFor(data)} />
          {line}
          <Ahead of={data} />
          <Head of={data} />
        </>
      )}
      <p>
        <Link to={hrefOf("queues")}>All queues and lanes</Link>
      </p>
    </Asking.Provider>
  );
}

function Why({ of: { state, why, ahead, key } }: { of: Standing }) {
  const failed = ahead.find((one) => one.failed !== null);
  if (!failed || state === "paused") return <bdi>{withoutIds(why ?? "")}</bdi>;
  return (
    <>
      <bdi>{key}</bdi> {state === "held" ? "is held and needs an operator" : "waits"}. Its instance failed: <bdi>{failed.failed}</bdi>
    </>
  );
}

function Ahead({ of: { ahead } }: { of: Standing }) {
  return (
    <Section title="Current instance">
      {ahead.length === 0 && <p class="quiet">No instance: the next message starts as soon as the lane allows it.</p>}
      <Lines
        columns="96px 1fr"
        of={ahead.map(({ instance_id: id, since, failed }) => [
          <Status key="is" word={failed === null ? "running" : "errored"} />,
          <>
            <LinkTo to={hrefOf("instances", id)} title={id} of={shortId(id)} /> <Ago label="started" at={since} />
            {failed !== null && <br />}
            <Text of={failed} />
          </>,
        ])}
      />
    </Section>
  );
}

function Head({ of: { head, depth } }: { of: Standing }) {
  const key = head?.idempotency_key ?? null;
  return (
    <Section title="Next message">
      {head === null ? (
        <p class="quiet">The lane is empty.</p>
      ) : (
        <Pairs
          of={{
            Message: [head.type ?? "a type that this deployment does not know", " ", <Id key="id" id={head.id} />],
            Key: key !== null && (
              <Link to={hrefOf("messages", { q: key })}>
                <bdi>{key}</bdi>
              </Link>
            ),
            Sent: <Ago at={head.sent_at} />,
            Attempts: (
              <>
                {head.attempts === 0 ? "none" : head.attempts === 1 ? "once" : `${head.attempts} times`}
                {head.next_at && <Ago label=", next" at={head.next_at} />}
              </>
            ),
            Error: head.error !== null && <bdi>{head.error}</bdi>,
            "Queued after": Math.max(0, depth - 1).toLocaleString(),
          }}
        />
      )}
    </Section>
  );
}
