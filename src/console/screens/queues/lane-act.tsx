import { type Answer, get, type Result, send } from "../../data/api.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act } from "../../parts/act.tsx";
import { Status } from "../../parts/status.tsx";
import { wordFor } from "./lanes.tsx";

export type Standing = Answer<"/v1/lanes/:lane/:key">;

/** An act on a lane that somebody has begun to ask for. */
export interface Steering {
  verb: "pause" | "resume" | "retry-head" | "skip-head";
  /** What its button says. */
  word: string;
  /** What would follow. */
  follows: string;
  /** The head, or the instance, that is meant: the lane refuses it where another stands there by then. */
  id?: string;
}

const PAUSE: Steering = { verb: "pause", word: "Pause", follows: "It hands nothing more out. What is under way goes on." };

/** What can be asked of a lane as it stands, what helps most first. The API decides; this only leaves out what it would refuse. */
export function steeringsFor({ state, head, ahead }: Standing): Steering[] {
  const failed = ahead.find((one) => one.failed !== null);
  const found: Steering[] = [];
  const stands = state === "paused" || state === "held";
  if (stands) {
    const past = failed && state === "held" ? " It goes on past the instance that failed, which can be retried out of turn." : "";
    const again = head?.error && state === "held" && !failed ? " Its head has all its tries again." : "";
    found.push({ verb: "resume", word: "Resume", follows: `The lane goes on.${past}${again}`, ...(failed && { id: failed.instance_id }) });
  }
  if (failed)
    found.push({
      verb: "skip-head",
      word: "Let the instance go",
      follows: "The instance that failed keeps nobody waiting any more, and the next begins. A retry of it runs beside the others.",
      id: failed.instance_id,
    });
  if (head && !failed && state !== "waiting" && state !== "moving")
    found.push({ verb: "retry-head", word: "Try the head now", follows: "Its head is tried at once, whatever it waits for.", id: head.id });
  if (head)
    found.push({
      verb: "skip-head",
      word: "Skip the head",
      follows: "Its head becomes a dead letter, which can be corrected and replayed to the end of the lane. What is behind it moves up.",
      id: head.id,
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

/** The dialog of one act. The API has no dry run for it: the lane is asked how it stands now, and what would follow is said of that. */
export function LaneAct({ lane, name, steering: { verb, word, follows, id }, done, close }: LaneActProps) {
  const param = { lane, key: name };
  const isThere = ({ head, ahead }: Standing) => id === undefined || head?.id === id || ahead.some((one) => one.instance_id === id);
  return (
    <Act<Standing, Done>
      title={word}
      verb={word}
      dryRun={() => get("/v1/lanes/:lane/:key", { param })}
      refusal={(now) => (isThere(now) ? null : "What it was meant for does not stand there any more: close this, and look again.")}
      show={(now) => (
        <>
          <p>{follows}</p>
          <p class="now-so">
            <span class="quiet">It stands now:</span> <Status word={wordFor(now)} />, {now.depth.toLocaleString()}{" "}
            {now.depth === 1 ? "message waits" : "messages wait"}.
          </p>
          <Meant id={id} now={now} />
        </>
      )}
      act={(reason) =>
        send("POST", `/v1/lanes/:lane/:key/${verb}`, { param, body: { reason, ...(id !== undefined && { id }) } }) as Promise<Result<Done>>
      }
      done={({ action_id }) => done(`${word}: done, as action ${action_id}.`)}
      close={close}
    />
  );
}

/** What the act is about: an instance in front, or the head. */
function Meant({ id, now: { head, ahead } }: { id: string | undefined; now: Standing }) {
  const instance = ahead.find((one) => one.instance_id === id);
  if (instance)
    return (
      <p>
        <span class="quiet">The instance</span> <Link to={hrefOf("instances", instance.instance_id)}>{instance.instance_id}</Link>
        {instance.failed !== null && (
          <>
            <span class="quiet">:</span> <bdi>{instance.failed}</bdi>
          </>
        )}
      </p>
    );
  if (!head || head.id !== id) return null;
  return (
    <p>
      <span class="quiet">The head</span> {head.type} <bdi>{head.idempotency_key}</bdi>
      {head.error !== null && (
        <>
          <span class="quiet">:</span> <bdi>{head.error}</bdi>
        </>
      )}
    </p>
  );
}
