import { setTimeout as sleep } from "node:timers/promises";
import type { Program } from "../../proof/program.ts";
import { SECRET } from "../../proof/senders.ts";
import { behave, behaviour, doneTo } from "../../proof/upstream.ts";
import { remoteStage } from "../stage.ts";
import type { Answer } from "../worker.ts";
import { type Workshop, withEngine } from "../workshop.ts";

interface KillOptions {
  /** The number of failed instances to retry; also the number of waiting instances to cancel. */
  instances: number;
  /** The number of kills of the engine's runtime during each bulk action. */
  kills: number;
  say?: (line: string) => void;
}

/** A bulk action in the API's form. */
interface Bulk {
  id: string;
  state: string;
  why: string | null;
  matched: number;
  done: number;
  skipped: number;
  failed: number;
  remaining: number;
}

/** The result of a bulk action under kills. */
export interface Killed {
  bulk: Omit<Bulk, "id">;
  /** Process deaths while the bulk action was running. */
  kills: number;
  seconds: number;
  /** Histogram of actions per item: by the audit, and by the upstream's effects. */
  audited: Record<number, number>;
  happened: Record<number, number>;
  /** The number of instances by status and number of runs. */
  stand: Record<string, number>;
}

/**
 * The poll interval shortly before a kill, which must not be late; and at other times, since a poll costs a few milliseconds of processor
 * time.
 */
const LOOK_MS = 50;
const LATER_MS = 250;
const REQUEST_MS = 3000;
/** The timeout without progress. */
const PATIENCE_MS = 60_000;
/** The number of instances per request. */
const TOGETHER = 50;
const CLASSES = ["keyed", "lookup"] as const;

/** Runs a bulk retry and a bulk cancel while their process is killed. The upstream's own ledger counts each effect. */
export function killBulk(options: KillOptions): Promise<{ retried: Killed; cancelled: Killed }> {
  return withEngine(async (workshop) => {
    const run = new Run(workshop, options);
    return { retried: await run.retry(), cancelled: await run.cancel() };
  });
}

class Run {
  readonly #workshop: Workshop;
  readonly #options: KillOptions;
  #token = "";
  #disturbedAt = 0;

  constructor(workshop: Workshop, options: KillOptions) {
    this.#workshop = workshop;
    this.#options = options;
  }

  /** Each instance fails permanently at first; the upstream is fixed, and all are retried. */
  async retry(): Promise<Killed> {
    const names = this.#names("retry");
    const refused = names.map((name) => behaviour(`${name}/r`, { is: "never", times: 1 }));
    await behave(this.#workshop.upstreamUrl, refused);
    await this.#ask(names, (nth) => ({ do: CLASSES[nth % CLASSES.length] ?? "keyed" }));
    await this.#all("retry", "errored");
    return this.#killed("retry", { status: "errored" }, (subject) => subject);
  }

  /** Each instance waits after its effect; all are cancelled, which undoes the effect. */
  async cancel(): Promise<Killed> {
    const act = (nth: number): Program => ({ do: CLASSES[nth % CLASSES.length] ?? "keyed" });
    await this.#ask(this.#names("cancel"), (nth) => ({
      do: "seq",
      parts: [act(nth), { do: "wait", comes: "asked", brief: false }],
    }));
    await this.#all("cancel", "waiting");
    return this.#killed("cancel", { status: "waiting" }, (subject) => `${subject}.0/back`);
  }

  #names(verb: string): string[] {
    return Array.from({ length: this.#options.instances }, (_, nth) => `${verb}-${nth}`);
  }

  async #ask(names: readonly string[], program: (nth: number) => Program): Promise<void> {
    const stage = this.#stage();
    const requests = names.map((name, nth) => ({ payload: { name, note: SECRET, program: program(nth) } }));
    for (let at = 0; at < requests.length; at += TOGETHER) await stage.enqueue(requests.slice(at, at + TOGETHER));
  }

  #stage() {
    const { engine, upstreamUrl, database } = this.#workshop;
    return remoteStage({ url: () => engine.url, upstreamUrl, database, disturbedUntil: () => this.#disturbedAt, asked: () => undefined });
  }

  /** Waits until all instances have this status. */
  async #all(verb: string, status: string): Promise<void> {
    const { instances } = this.#options;
    const stand = async () => (await this.#stand(verb))[`${status}, run 1`] ?? 0;
    for (const begunAt = Date.now(); (await stand()) < instances; await sleep(LATER_MS))
      if (Date.now() - begunAt > PATIENCE_MS) throw new Error(`Not all are ${status}: ${JSON.stringify(await this.#stand(verb))}`);
  }

  async #killed(verb: "retry" | "cancel", filter: object, subject: (name: string) => string): Promise<Killed> {
    const { instances, kills } = this.#options;
    const begunAt = Date.now();
    const asked = { verb, filter, reason: "the cause is mended", ramp: [], rate_per_second: 50, stop_at_error_rate: 1 };
    const { id } = await this.#api<Bulk>("/v1/bulk-actions", asked, { "idempotency-key": `all of ${verb}` });
    let died = 0;
    let bulk = await this.#api<Bulk>(`/v1/bulk-actions/${id}`);
    for (let movedAt = Date.now(), last = -1; bulk.state === "running"; bulk = await this.#api<Bulk>(`/v1/bulk-actions/${id}`)) {
      const acted = (await this.#audited(verb, id)).filter((times) => times > 0).length;
      if (acted > last) [movedAt, last] = [Date.now(), acted];
      if (Date.now() - movedAt > PATIENCE_MS) throw new Error(`No progress: ${JSON.stringify(bulk)}`);
      // The kill happens in the middle of the items, each at its own place in the list.
      if (died < kills && acted > (bulk.matched * died) / kills) died += await this.#kill();
      else await sleep(died < kills ? LOOK_MS : LATER_MS);
    }
    const { id: _, state, why, matched, done, skipped, failed, remaining } = bulk;
    const seconds = Math.round((Date.now() - begunAt) / 100) / 10;
    this.#options.say?.(`${verb}: ${done} of ${instances} done, ${died} kills, ${seconds} s`);
    await this.#settled(verb);
    const ledger = await Promise.all(
      this.#names(verb).map(async (name) => (await doneTo(this.#workshop.upstreamUrl, subject(`${name}/r`))).length),
    );
    return {
      bulk: { state, why, matched, done, skipped, failed, remaining },
      ...{ kills: died, seconds },
      audited: counted(await this.#audited(verb, id)),
      happened: counted(ledger),
      stand: await this.#stand(verb),
    };
  }

  /** Kills the runtime and restarts it. Its claims are released at once, instead of 30 s later. */
  async #kill(): Promise<1> {
    const { engine, database } = this.#workshop;
    await engine.kill("runtime");
    await database.write("UPDATE millrace_actions SET lease_until = 0, due_at = 0 WHERE applied_at IS NULL");
    await engine.revive("runtime");
    this.#disturbedAt = Date.now();
    return 1;
  }

  /** Waits until no run is active: a slow item counts as done by then. */
  async #settled(verb: string): Promise<void> {
    const open = () =>
      this.#workshop.database.rows(
        "SELECT id FROM millrace_instances WHERE subject LIKE ?1 AND status NOT IN ('complete', 'terminated', 'errored')",
        `${verb}-%`,
      );
    for (const begunAt = Date.now(); (await open()).length > 0 && Date.now() - begunAt < PATIENCE_MS; ) await sleep(LATER_MS);
  }

  /** The number of actions per item that the bulk action caused. */
  async #audited(verb: string, bulkId: string): Promise<number[]> {
    const found = await this.#workshop.database.rows<{ n: number }>(
      `SELECT (SELECT count(*) FROM millrace_actions a WHERE a.tenant_id = i.tenant_id AND a.instance_id = i.id AND a.verb = ?2
         AND a.result = 'applied' AND a.detail->>'bulk' = ?3) AS n
       FROM millrace_instances i WHERE i.subject LIKE ?1`,
      `${verb}-%`,
      verb,
      bulkId,
    );
    return found.map(({ n }) => n);
  }

  async #stand(verb: string): Promise<Record<string, number>> {
    const found = await this.#workshop.database.rows<{ status: string; run: number; n: number }>(
      "SELECT status, run, count(*) AS n FROM millrace_instances WHERE subject LIKE ?1 GROUP BY status, run",
      `${verb}-%`,
    );
    return Object.fromEntries(found.map(({ status, run, n }) => [`${status}, run ${run}`, n]));
  }

  /** Calls the API and repeats until it responds, as a client does. */
  async #api<T>(path: string, body?: object, headers: Record<string, string> = {}): Promise<T> {
    for (const begunAt = Date.now(); ; await sleep(LOOK_MS)) {
      try {
        if (this.#token === "") this.#token = await this.#minted();
        const answer = await fetch(this.#workshop.engine.url + path, {
          method: body ? "POST" : "GET",
          headers: { ...headers, authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
          body: body ? JSON.stringify(body) : null,
          signal: AbortSignal.timeout(REQUEST_MS),
        });
        if (answer.ok) return (await answer.json()) as T;
        if (answer.status < 500) throw new Refused(`${path}: ${answer.status} ${await answer.text()}`);
      } catch (error) {
        if (error instanceof Refused || Date.now() - begunAt > PATIENCE_MS) throw error;
      }
    }
  }

  async #minted(): Promise<string> {
    const answer = await fetch(`${this.#workshop.engine.url}/door/token`, { method: "POST", body: "[]" });
    const said = (await answer.json()) as Answer;
    if (!("gave" in said)) throw new Refused(said.refused.message);
    return String(said.gave);
  }
}

class Refused extends Error {}

/** The number of items by number of actions. */
function counted(numbers: readonly number[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const one of numbers) counts[one] = (counts[one] ?? 0) + 1;
  return counts;
}
