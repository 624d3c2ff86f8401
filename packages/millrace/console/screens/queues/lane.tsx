import { useState } from "preact/hooks";
import { get } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData, useRegularly } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Button, Facts, Pairs, Reading } from "../../parts/page.tsx";
import { Status, toneOf } from "../../parts/status.tsx";
import { Ago, Id, shortId, Text, withoutIds } from "../../parts/text.tsx";
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
          {may("operate") && (
            <p class="acts">
              {steeringsFor(data).map((one, index) => (
                <Button
                  key={one.word}
                  class={index === 0 && FORWARD.has(one.verb) ? "main" : one.isDanger ? "danger" : undefined}
                  press={() => ask(one)}
                >
                  <bdi>{one.word}</bdi>
                </Button>
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
              <Ago label="started" at={since} />
              {failed !== null && <br />}
              <Text of={failed} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A link to the instance with the payload of a message, if the message has started one. */
function Payload({ name }: { name: string }) {
  const { data } = useData(() => get("/v1/keys/:key", { param: { key: name } }), [name]);
  const holder = data?.holders.find(({ kind }) => kind === "instance");
  return holder ? <Link to={hrefOf("instances", holder.id)}>the instance of {holder.name} that it started</Link> : <>not stored yet</>;
}

function Head({ of: { head, depth } }: { of: Standing }) {
  const key = head?.idempotency_key ?? null;
  return (
    <section aria-label="Next message">
      <h2>Next message</h2>
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
            Payload: key !== null && <Payload name={key} />,
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
    </section>
  );
}
