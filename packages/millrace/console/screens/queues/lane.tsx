import { type Answer, get, type Item } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData, useRegularly } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act } from "../../parts/act.tsx";
import { type Asker, useActs } from "../../parts/dialog.tsx";
import { Button, Facts, Lines, LinkTo, Pairs, Reading } from "../../parts/page.tsx";
import { EffectPlan, type Plan } from "../../parts/plan.tsx";
import { Status, toneOf } from "../../parts/status.tsx";
import { Ago, Id, Quiet, shortId, Text, withoutIds } from "../../parts/text.tsx";

type Standing = Answer<"/v1/lanes/:lane/:key">;

interface Steering {
  verb: "pause" | "resume" | "retry-head" | "skip-head" | "retry";
  word: string;
  follows: string;
  said: string;
  /**
   * The id of the message or instance that the action is meant for. The lane refuses the action if a different message or instance now has
   * this position.
   */
  id?: string;
  isDanger?: boolean;
}

const MOST_LETTERS = 20;

const PAUSE: Steering = {
  ...{ verb: "pause", word: "Pause", said: "The lane is paused." },
  follows: "The lane starts no further message. Running instances continue.",
};

function shortKey(key: string): string {
  const letters = [...key];
  return letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("")}…` : key;
}

/**
 * The actions for a lane's state. Actions that keep the order of the messages come first. This list only hides actions that the API would
 * refuse; the API itself checks each action.
 */
function steeringsFor({ state, head, ahead }: Standing): Steering[] {
  const failed = ahead.find((one) => one.failed !== null);
  const found: Steering[] = [];
  const stays = state === "held" ? " The lane remains held until it is resumed, even if the retry succeeds." : "";
  if (failed)
    found.push({
      ...{ verb: "retry", word: "Retry the instance", said: "The instance is retried.", id: failed.instance_id },
      follows: `The instance keeps its place in the lane, and the order is kept.${stays}`,
    });
  if (failed)
    found.push({
      verb: state === "held" ? "resume" : "skip-head",
      word: "Skip this instance",
      follows:
        "The order is no longer kept: the next message starts although this instance failed. A later retry of the instance runs in parallel.",
      ...{ said: "The lane continues without it.", id: failed.instance_id },
    });
  if (state === "paused" || (state === "held" && !failed))
    found.push({
      verb: "resume",
      word: "Resume the lane",
      follows: `The lane continues.${state === "held" && head?.error ? " The next message has its full number of attempts again." : ""}`,
      said: "The lane continues.",
    });
  if (head && !failed && state !== "waiting" && state !== "moving")
    found.push({
      ...{ verb: "retry-head", word: "Retry the next message now", said: "The next message is being tried.", id: head.id },
      follows: "The next message is tried immediately, without its delay.",
    });
  if (head)
    found.push({
      verb: "skip-head",
      word: `Drop the next message (${shortKey(head.idempotency_key ?? shortId(head.id))})`,
      follows: "The message leaves the lane and becomes a dead letter. It can be corrected and replayed to the end of the lane.",
      ...{ said: "The message is a dead letter.", id: head.id, isDanger: true },
    });
  return state === "paused" ? found : [...found, PAUSE];
}

export function wordFor({ state, ahead }: Pick<Item<"/v1/lanes">, "state" | "ahead">): string {
  return state === "waiting" && ahead.some(({ failed }) => failed !== null) ? "blocked" : state;
}

/** Actions after which the lane continues. Only these actions are highlighted. */
const FORWARD: ReadonlySet<Steering["verb"]> = new Set(["retry", "resume", "retry-head"]);

export function Lane({ lane, name }: { lane: string; name: string }) {
  const { data, problem, again } = useData(
    () => get("/v1/lanes/:lane/:key", { param: { lane, key: name } }),
    [lane, name],
    () => true,
  );
  useRegularly(again);
  const { ask, line } = useActs(again);
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
                  press={() => ask(LaneAct, { lane, name, steering: one })}
                >
                  <bdi>{one.word}</bdi>
                </Button>
              ))}
            </p>
          )}
          {line}
          <Ahead of={data} />
          <Head of={data} />
        </>
      )}
      <p>
        <Link to={hrefOf("queues")}>All queues and lanes</Link>
      </p>
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

/** The dialog for an action on a lane. Actions on a lane have no dry run, so the dialog reads and shows the lane's current state. */
function LaneAct({
  lane,
  name,
  steering: { verb, word, follows, said, id = "" },
  ...asker
}: Asker & { lane: string; name: string; steering: Steering }) {
  const shared = { ...asker, title: word, said };
  const param = { lane, key: name };
  if (verb === "retry")
    return (
      <Act<Plan, unknown>
        {...shared}
        at="/v1/instances/:id/retry"
        param={{ id }}
        dryRun
        show={(plan) => [<p key="follows">{follows}</p>, <EffectPlan key="plan" plan={plan} />]}
      />
    );
  return (
    <Act
      {...shared}
      at={`/v1/lanes/:lane/:key/${verb}`}
      param={param}
      body={id ? { id } : {}}
      dryRun={() => get("/v1/lanes/:lane/:key", { param })}
      refusal={({ head, ahead }) =>
        id && head?.id !== id && !ahead.some((one) => one.instance_id === id)
          ? "The lane changed meanwhile. Close this dialog and open it again."
          : null
      }
      show={(now) => (
        <>
          <p>{follows}</p>
          <p class="now-so">
            <Quiet of="Status of the lane:" /> <Status word={wordFor(now)} />, {now.depth.toLocaleString()}{" "}
            {now.depth === 1 ? "message waits" : "messages wait"}.
          </p>
          <Meant id={id} now={now} />
        </>
      )}
    />
  );
}

function Meant({ id, now: { head, ahead } }: { id: string; now: Standing }) {
  const instance = ahead.find((one) => one.instance_id === id);
  if (instance)
    return (
      <p>
        <Quiet of="The instance" /> <Link to={hrefOf("instances", instance.instance_id)}>{shortId(instance.instance_id)}</Link>
        <Text before=": " of={instance.failed} />
      </p>
    );
  if (!head || head.id !== id) return null;
  return (
    <p>
      <Quiet of="The next message" /> {head.type} <bdi>{head.idempotency_key}</bdi>
      <Text before=": " of={head.error} />
    </p>
  );
}
