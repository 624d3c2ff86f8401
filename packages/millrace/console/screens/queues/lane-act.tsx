import { type Answer, get, type Result, send } from "../../data/api.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act } from "../../parts/act.tsx";
import { EffectPlan, type Plan } from "../../parts/plan.tsx";
import { Status } from "../../parts/status.tsx";
import { Quiet, shortId, Text } from "../../parts/text.tsx";
import { wordFor } from "./lanes.tsx";

export type Standing = Answer<"/v1/lanes/:lane/:key">;

export interface Steering {
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
export function steeringsFor({ state, head, ahead }: Standing): Steering[] {
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

interface LaneActProps {
  lane: string;
  name: string;
  steering: Steering;
  done: (sentence: string) => void;
  close: () => void;
}

type Done = { action_id: string };

/** The dialog for an action on a lane. Actions on a lane have no dry run, so the dialog reads and shows the lane's current state. */
export function LaneAct({ lane, name, steering, done, close }: LaneActProps) {
  const { verb, word, follows, said, id } = steering;
  const param = { lane, key: name };
  const isThere = ({ head, ahead }: Standing) => id === undefined || head?.id === id || ahead.some((one) => one.instance_id === id);
  if (verb === "retry") return <RetryAhead steering={steering} done={done} close={close} />;
  return (
    <Act<Standing, Done>
      title={word}
      verb={word}
      dryRun={() => get("/v1/lanes/:lane/:key", { param })}
      refusal={(now) => (isThere(now) ? null : "The lane changed meanwhile. Close this dialog and open it again.")}
      show={(now) => (
        <>
          <p>{follows}</p>
          <p class="now-so">
            <span class="quiet">Status of the lane:</span> <Status word={wordFor(now)} />, {now.depth.toLocaleString()}{" "}
            {now.depth === 1 ? "message waits" : "messages wait"}.
          </p>
          <Meant id={id} now={now} />
        </>
      )}
      act={(reason) =>
        send("POST", `/v1/lanes/:lane/:key/${verb}`, { param, body: { reason, ...(id !== undefined && { id }) } }) as Promise<Result<Done>>
      }
      done={() => done(said)}
      close={close}
    />
  );
}

/** The dialog that retries the instance for which the lane waits; a retry keeps the order. The dialog shows the dry run of the retry. */
function RetryAhead({ steering: { word, follows, said, id = "" }, done, close }: Omit<LaneActProps, "lane" | "name">) {
  const ask = (body: object) => send("POST", "/v1/instances/:id/retry", { param: { id }, body });
  return (
    <Act<Plan, Done>
      title={word}
      verb={word}
      dryRun={() => ask({ reason: "Dry run", dry_run: true }) as Promise<Result<Plan>>}
      refusal={({ refused }) => refused}
      show={(plan) => (
        <>
          <p>{follows}</p>
          <EffectPlan plan={plan} />
        </>
      )}
      act={(reason) => ask({ reason }) as Promise<Result<Done>>}
      done={() => done(said)}
      close={close}
    />
  );
}

function Meant({ id, now: { head, ahead } }: { id: string | undefined; now: Standing }) {
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
