import type { Resolution } from "../../packages/millrace/src/operate/instances/resolve.ts";
import type { Leaf } from "./program.ts";
import type { Requests } from "./requests.ts";
import { codeOf, type Stage, type Subject } from "./stage.ts";
import { doneTo } from "./upstream.ts";
import type { World } from "./world.ts";

/** A row's status when the run waits for no operator. */
const UNDER_WAY: ReadonlySet<string> = new Set(["accepted", "queued", "running", "waiting"]);

/** The upstream's response about an effect that it has not executed. */
const REFUSALS: ReadonlySet<number> = new Set([400, 422, 429]);

/** The interval before an operator answers the same question again. */
const AGAIN_MS = 1000;

/** The operators on call: they answer questions, resolve unknown outcomes by the upstream's ledger, and skip dead letters. */
export class People {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #world: World;
  readonly #leaves: ReadonlyMap<string, Leaf>;
  /** The number of an effect's executions when an operator repeated it. */
  readonly #again = new Map<string, number>();
  readonly #answeredAt = new Map<string, number>();
  /** Unknown outcomes that were answered without a check. */
  readonly #mistaken = new Set<string>();
  /** Dead letters to discard. */
  readonly #skipped = new Set<string>();
  /** The violations. */
  readonly problems: string[] = [];
  readonly #requests: Requests;

  constructor(stage: Stage, run: Subject, world: World, leaves: ReadonlyMap<string, Leaf>, requests: Requests) {
    this.#stage = stage;
    this.#run = run;
    this.#world = world;
    this.#leaves = leaves;
    this.#requests = requests;
  }

  /** Answers the questions that the run asks. */
  async answer(): Promise<void> {
    const { id, name } = this.#run;
    for (const { id: question, state, details } of await this.#stage.questions(id)) {
      const leaf = this.#leaves.get(`${name}/${details?.at}`);
      if (state !== "pending" || leaf?.do !== "ask" || leaf.answer === "never") continue;
      if (Date.now() - (this.#answeredAt.get(question) ?? 0) < AGAIN_MS) continue;
      this.#answeredAt.set(question, Date.now());
      const decide = (decision: "approve" | "reject") =>
        this.#requests.ask(decision === "approve" ? "approve" : "reject_approval", () => this.#stage.decide(question, decision, "asked"));
      const [answer, other] = leaf.answer === "yes" ? (["approve", "reject"] as const) : (["reject", "approve"] as const);
      const isHeard = await decide(answer).catch(() => undefined);
      // Another operator sends the opposite answer, too late.
      if (isHeard && (await decide(other).catch(() => undefined))) this.problems.push(`the question of ${details?.at} was answered twice`);
    }
  }

  /** Settles the unknown outcomes. An effect has happened if the upstream has executed it more often than it was undone. */
  async resolve(): Promise<void> {
    const doubts = await this.#stage.rows<{ step: string; status: string; answered: number | null }>(
      "SELECT e.step, i.status, e.error->>'upstream_status' AS answered FROM millrace_inbox e JOIN millrace_instances i ON i.id = e.instance_id WHERE e.instance_id = ?1 AND e.state = 'in_doubt'",
      this.#run.id,
    );
    if (doubts.length === 0) return;
    // Operators do not check an instance that looks running. A restarted instance looks running until its replay reaches the unknown
    // outcome.
    const isRestarted = this.#world.orders?.some(({ verb }) => verb === "restart");
    const hidden = doubts.filter(({ status }) => !isRestarted && UNDER_WAY.has(status));
    this.problems.push(...hidden.map(({ step, status }) => `${step} has an unknown outcome, but its row has the status ${status}`));
    const needless = doubts.filter(({ answered }) => answered !== null && REFUSALS.has(answered));
    this.problems.push(
      ...needless.map(({ step, answered }) => `${step} has an unknown outcome, although the upstream refused it: ${answered}`),
    );
    for (const effect of await this.#stage.effects(this.#run.id)) {
      if (effect.state !== "in_doubt") continue;
      const { subject } = JSON.parse(effect.input ?? "{}") as { subject: string };
      const of = (about: string) => doneTo(this.#stage.upstreamUrl, about);
      const [done, back] = await Promise.all([of(subject), of(`${subject}/back`)]);
      const before = this.#again.get(subject);
      const isAgain = this.#world.again === true && before === undefined && back.length === 0;
      const resolve = (answer: Resolution) =>
        this.#requests
          .ask(answer.verb, () => this.#stage.resolve(effect.key, answer, "the upstream's ledger shows the outcome"))
          .catch(() => undefined);
      const truth: Resolution =
        done.length > back.length + (before ?? 0) ? { verb: "confirm", output: done.at(-1)?.id } : { verb: "reject" };
      if (isAgain && (await resolve({ verb: "retry_anyway" }))) this.#again.set(subject, done.length);
      else if (truth.verb === "confirm" && this.#world.mistakes && !this.#mistaken.has(subject)) {
        this.#mistaken.add(subject);
        await resolve({ verb: "confirm", output: null });
      } else await resolve(truth);
    }
  }

  /** Skips all dead letters about the run. */
  async skip(): Promise<void> {
    const open = await this.#stage.rows<{ id: string }>(
      "SELECT id FROM millrace_dead_letters WHERE body LIKE ?1 AND state = 'open' AND tenant_id IS NOT 'globex'",
      `%${this.#run.name}%`,
    );
    for (const { id } of open) {
      await patiently(() => this.#stage.skip(id, "not wanted"));
      this.#skipped.add(id);
    }
  }

  /** I16: the problems of settled items. They remain settled, for any sender of the message. */
  async wrongWithSkipped(): Promise<string[]> {
    const ids = JSON.stringify([...this.#skipped]);
    const found = await this.#stage.rows<{ reason: string; state: string }>(
      "SELECT reason, state FROM millrace_dead_letters WHERE state <> 'skipped' AND id IN (SELECT value FROM json_each(?1))",
      ids,
    );
    return found.map(({ reason, state }) => `invented: a dead letter (${reason}) was skipped, but is ${state}`);
  }
}

/** The number of a client's retries: more than the consecutive faults. */
export const TRIES = 12;

/** Repeats a request until it is answered, as a client does. The refusal that it has been done already counts as an answer. */
export async function patiently<T>(ask: () => Promise<T>): Promise<T | undefined> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (codeOf(error) === "invalid_transition") return undefined;
      if (tries === TRIES) throw error;
    }
  }
}
