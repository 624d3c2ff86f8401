import type { Effect } from "../../packages/millrace/src/inspect/effects.ts";
import type { Counts } from "../proof/fault.ts";
import { codeOf, pause, type Question, type Stage, type Standing, type Taken } from "../proof/stage.ts";
import type { Database } from "./database.ts";
import type { Answer, Refused } from "./worker.ts";

/** The timeout of a request that hangs in a dying process; it is then sent again. */
const REQUEST_MS = 8000;
const AGAIN_MS = 150;
/** The time after the last disturbance within which a request must be answered. */
const PATIENCE_MS = 60_000;
/** The maximum time from a restart until it reaches the workflow's code. */
const RESTART_MS = 4000;

/** The remote interface of an engine under test in another process. */
export interface Remote {
  /** The engine's current address. */
  url(): string;
  upstreamUrl: string;
  database: Database;
  disturbedUntil(): number;
  /** Called for each sent request. */
  asked(): void;
}

/** An error in the form in which the engine threw it. */
const errorOf = ({ code, message }: Refused): Error =>
  Object.assign(new Error(message), code === undefined ? {} : { name: "MillraceError", code });

const given = (answer: Answer): Taken | Error => ("gave" in answer ? (answer.gave as Taken) : errorOf(answer.refused));

/** Thrown for a request with an unknown outcome. */
class Unanswered extends Error {}

/**
 * An engine in a separate process, which may die at any moment: requests are sent over HTTP and repeated until it responds. Its database
 * is read as a file.
 */
export function remoteStage(remote: Remote): Stage {
  const { database, upstreamUrl } = remote;

  async function once<T>(door: string, args: unknown[]): Promise<T> {
    remote.asked();
    const answer = await fetch(`${remote.url()}/door/${door}`, {
      method: "POST",
      body: JSON.stringify(args),
      signal: AbortSignal.timeout(REQUEST_MS),
    })
      .then(async (response) => (response.ok ? ((await response.json()) as Answer) : undefined))
      // Also when the response breaks off in the middle.
      .catch(() => undefined);
    if (answer === undefined) throw new Unanswered(`Nobody answered ${door}.`);
    if ("gave" in answer) return answer.gave as T;
    throw errorOf(answer.refused);
  }

  /** Repeats the same request until it is answered, as a client with a key does; a temporary error of the engine is not an answer. */
  async function call<T>(door: string, ...args: unknown[]): Promise<T> {
    for (const begunAt = Date.now(); ; await pause(AGAIN_MS)) {
      try {
        return await once<T>(door, args);
      } catch (error) {
        const code = codeOf(error);
        const isAnswer = code !== undefined && code !== "unavailable";
        if (isAnswer || Date.now() > Math.max(begunAt, remote.disturbedUntil()) + PATIENCE_MS) throw error;
      }
    }
  }

  const passes = async (id: string): Promise<number> =>
    ((await (await fetch(`${upstreamUrl}/passes/${id}`)).json()) as { count: number }).count;

  /**
   * A decision about an unknown outcome whose response may have been lost is not repeated: a later unknown outcome would be a different
   * one.
   */
  async function resolve(key: string, ...rest: unknown[]): Promise<unknown> {
    const applied = async () =>
      (await database.rows("SELECT id FROM millrace_actions WHERE target = ?1 AND result = 'applied'", key)).length;
    const before = await applied();
    return once("resolve", [key, ...rest]).catch(async (error) => {
      if (!(error instanceof Unanswered)) throw error;
      await call("idOf", "anybody");
      if ((await applied()) === before) throw error;
    });
  }

  return {
    repeats: true,
    upstreamUrl,
    disturbedUntil: () => remote.disturbedUntil(),
    watch: () => ({ counts: {} as Counts, struck: () => 0, struckUntil: () => 0, end: () => undefined }),
    cast: () => undefined,
    idOf: (name) => call("idOf", name),
    enqueue: async (requests) => (await call<Answer[]>("enqueue", requests)).map(given),
    skip: (letter, reason) => call("skip", letter, reason),
    async deliver(queue, bodies) {
      for (let tries = 1; ; tries++) {
        const settled = await call<{ acked: number }>("deliver", queue, bodies, Math.min(tries, 2));
        if (settled.acked === bodies.length || tries === 20) return settled;
        await pause(AGAIN_MS);
      }
    },
    rows: (sql, ...params) => database.rows(sql, ...params),
    everywhere: (sql, ...params) => database.rows(sql, ...params),
    // A call of another process is known once it has arrived.
    async commitsBegun(name) {
      const landed = "SELECT name FROM probe_rows WHERE name LIKE ?1 AND kind = 'commit' ORDER BY name";
      return (await database.rows<{ name: string }>(landed, `${name}/%`)).map((row) => row.name);
    },
    heard: (name) => call("heard", name),
    platform: (id) => call<Standing>("platform", id),
    beginAgain: (id) => once("restart", [id]),
    async restart(id) {
      const before = await passes(id);
      for (const begunAt = Date.now(); Date.now() < Math.max(begunAt, remote.disturbedUntil()) + PATIENCE_MS; ) {
        await call("restart", id);
        for (const until = Date.now() + RESTART_MS; Date.now() < until; await pause(50)) if ((await passes(id)) > before) return;
      }
    },
    retry: (id, options) => call("retry", id, options),
    undo: (id, reason) => call("undo", id, reason),
    release: (id, reason) => call("release", id, reason),
    cancel: (id, options) => call("cancel", id, options),
    pause: (id, reason) => call("pause", id, reason),
    resume: (id, reason) => call("resume", id, reason),
    passAnew: (id, reason) => call("passAnew", id, reason),
    skipStep: (id, step) => call("skipStep", id, step),
    close: (id, reason) => call("close", id, reason),
    signal: (id, signal) => call("signal", id, signal),
    effects: (id) => call<Effect[]>("effects", id),
    resolve,
    questions: (id) => call<Question[]>("questions", id),
    meddle: (tenantId, theirs) => call("meddle", tenantId, theirs),
    decide: (question, decision, reason) => call("decide", question, decision, reason),
    round: async () => undefined,
  };
}
