import { useState } from "preact/hooks";
import { get } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { useRegularly } from "../../data/use-regularly.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Id, shortId, withoutIds } from "../../parts/id.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Status, toneOf } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { LaneAct, type Standing, type Steering, steeringsFor } from "./lane-act.tsx";
import { wordFor } from "./lanes.tsx";

/** Actions after which the lane continues. Only these actions are highlighted. */
const FORWARD: ReadonlySet<Steering["verb"]> = new Set(["retry", "resume", "retry-head"]);

export function Lane({ lane, name }: { lane: string; name: string }) {
  const [asked, ask] = useState<Steering | undefined>();
  const [said, say] = useState("");
  const { data, problem, again } = useData(
    () => get("/v1/lanes/:lane/:key", { param: { lane, key: name } }),
    [lane, name],
    () => true,
  );
  useRegularly(again);
  return (
    <>
      <h1>
        <span class="quiet">Lane</span> {lane} <span class="quiet">·</span> <bdi>{name}</bdi>
      </h1>
      {problem && <ProblemNote problem={problem} />}
      {!data && !problem && <p class="quiet">Reading …</p>}
      {data && (
        <>
          <p class="facts">
            <Status word={wordFor(data)} />
            <span>{data.depth === 1 ? "1 message waits" : `${data.depth.toLocaleString()} messages wait`}</span>
            {data.oldest_at && (
              <span>
                the oldest was sent <Ago at={data.oldest_at} />
              </span>
            )}
          </p>
          {data.why && (
            <p class="cause" data-tone={toneOf(wordFor(data))}>
              <Why of={data} />
            </p>
          )}
          {may("operate") && (
            <p class="acts">
              {steeringsFor(data).map((one, index) => (
                <button
                  key={one.word}
                  type="button"
                  class={index === 0 && FORWARD.has(one.verb) ? "main" : one.isDanger ? "danger" : undefined}
                  onClick={() => ask(one)}
                >
                  <bdi>{one.word}</bdi>
                </button>
              ))}
            </p>
          )}
          <p class="told" role="status">
            {said}
          </p>
          <Ahead of={data} />
          <Head of={data} />
        </>
      )}
      <p>
        <Link to={hrefOf("queues")}>All queues and lanes</Link>
      </p>
      {asked && (
        <LaneAct
          lane={lane}
          name={name}
          steering={asked}
          close={() => ask(undefined)}
          done={(sentence) => {
            say(sentence);
            again();
          }}
        />
      )}
    </>
  );
}

/** Shows the reason why a lane stopped, with the key of the lane. */
function Why({ of: { state, why, ahead, key } }: { of: Standing }) {
  const failed = ahead.find((one) => one.failed !== null);
  if (!failed || state === "paused") return <bdi>{withoutIds(why ?? "")}</bdi>;
  return (
    <>
      <bdi>{key}</bdi> {state === "held" ? "is held and needs an operator" : "waits"}. Its instance failed: <bdi>{failed.failed}</bdi>
    </>
  );
}

/** Shows the instances of a lane that have started and have not ended. */
function Ahead({ of: { ahead } }: { of: Standing }) {
  return (
    <section aria-label="Current instance">
      <h2>Current instance</h2>
      {ahead.length === 0 && <p class="quiet">No instance: the next message starts as soon as the lane allows it.</p>}
      <ul class="ahead">
        {ahead.map(({ instance_id: id, since, failed }) => (
          <li key={id}>
            <Status word={failed === null ? "running" : "errored"} />
            <span>
              <Link to={hrefOf("instances", id)} title={id}>
                {shortId(id)}
              </Link>{" "}
              <span class="quiet">started</span> <Ago at={since} />
              {failed !== null && (
                <>
                  <br />
                  <bdi>{failed}</bdi>
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Payload({ name }: { name: string }) {
  const { data } = useData(
    () => get("/v1/keys/:key", { param: { key: name } }),
    [name],
    () => false,
  );
  const holder = data?.holders.find(({ kind }) => kind === "instance");
  if (!holder) return null;
  return (
    <>
      <dt>Payload</dt>
      <dd>
        with <Link to={hrefOf("instances", holder.id)}>the instance of {holder.name} that it started</Link>
      </dd>
    </>
  );
}

function Head({ of: { head, depth } }: { of: Standing }) {
  return (
    <section aria-label="Next message">
      <h2>Next message</h2>
      {head === null ? (
        <p class="quiet">The lane is empty.</p>
      ) : (
        <dl class="pairs">
          <dt>Message</dt>
          <dd>
            {head.type ?? "a type that this deployment does not know"} <Id id={head.id} />
          </dd>
          {head.idempotency_key !== null && (
            <>
              <dt>Key</dt>
              <dd>
                <Link to={hrefOf("messages", { q: head.idempotency_key })}>
                  <bdi>{head.idempotency_key}</bdi>
                </Link>
              </dd>
              <Payload name={head.idempotency_key} />
            </>
          )}
          <dt>Sent</dt>
          <dd>
            <Ago at={head.sent_at} />
          </dd>
          <dt>Attempts</dt>
          <dd>
            {head.attempts === 0 ? "none" : head.attempts === 1 ? "once" : `${head.attempts} times`}
            {head.next_at && (
              <>
                , next <Ago at={head.next_at} />
              </>
            )}
          </dd>
          {head.error !== null && (
            <>
              <dt>Error</dt>
              <dd>
                <bdi>{head.error}</bdi>
              </dd>
            </>
          )}
          <dt>Queued after</dt>
          <dd>{Math.max(0, depth - 1).toLocaleString()}</dd>
        </dl>
      )}
    </section>
  );
}
