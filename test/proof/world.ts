import type { Envelope, Resolution } from "../../src/engine/index.ts";
import { event } from "../engine/event.ts";
import type { Behaviour, LedgerEntry } from "../upstream/server.ts";
import { type Leaf, leavesOf, TIMEOUT_MS, type Upstream, type Wait } from "./program.ts";
import { codeOf, pause, type Stage, type Subject } from "./stage.ts";

/** What the outside does meanwhile. */
export interface World {
  /** How often the command's message is delivered again. */
  copies: number;
  /** The same key comes with another payload: over the door, and on the queue. */
  conflicts?: boolean | undefined;
  /** A message that nobody can read comes in the same batch. */
  malformed?: boolean | undefined;
  /** The command's payload is kept by reference. */
  large?: boolean | undefined;
  /** Doubts are resolved by doing it again, whatever happened. */
  again?: boolean | undefined;
  /** What operators ask for at any moment; mostly it is refused. `nth`: the recorded step to start from. */
  clicks: { verb: "retry" | "retry from" | "undo"; afterMs: number; nth: number }[];
  /** How often the run, once complete, is made again from its beginning. */
  restarts: number;
  /** Whether it is undone in the end, and done again. */
  ends: "stays" | "undone" | "undone and retried";
}

const LARGE_NOTE = 40_000;
const REUSED = "idempotency_key_reused";
const OTHER_NOTE = "another payload";
/** How long a person waits for an answer before saying it again. */
const AGAIN_MS = 1000;

/** How long the note is that a run is given. */
export const noteLength = ({ large }: World): number => (large ? LARGE_NOTE : 0);

/**
 * Everybody outside the engine: the upstream, the senders of messages and events, and the people on call. They come back when they are not
 * heard.
 */
export class Outside {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #world: World;
  readonly #leaves: ReadonlyMap<string, Leaf>;
  readonly #saidAt = new Map<string, number>();
  readonly #events = new Map<string, Envelope>();
  /** How often an effect had happened when it was done again by a person's will. */
  readonly #again = new Map<string, number>();
  #runs = 1;

  constructor(stage: Stage, run: Subject, world: World) {
    this.#stage = stage;
    this.#run = run;
    this.#world = world;
    this.#leaves = new Map(leavesOf(run.program).map(({ at, leaf }) => [`${run.name}/${at}`, leaf]));
    stage.cast(run, () => this.#runs);
  }

  /** Asks for the run, until it is answered; what is said early comes right behind that. Answers what is wrong with the answers. */
  async ask(): Promise<string[]> {
    await this.#behave(
      ...[...this.#leaves].flatMap(([subject, leaf]) => ("upstream" in leaf && leaf.upstream ? [behaviour(subject, leaf.upstream)] : [])),
    );
    const { id } = this.#run;
    const accepted = await patiently(() => this.#stage.enqueue(this.#payload("n".repeat(noteLength(this.#world)))));
    if (accepted?.instanceId !== id) return [`was accepted as ${accepted?.instanceId}`];
    const early = [...this.#leaves].filter(([, leaf]) => leaf.do === "wait" && leaf.comes === "early");
    await Promise.all([this.#sendCommands(), ...early.map(([subject, leaf]) => this.#say(subject, leaf as Wait))]);
    return this.#world.conflicts ? this.#askOtherwise() : [];
  }

  /** What operators ask for at any moment. Over when all of them were answered. */
  async click(): Promise<void> {
    const { id } = this.#run;
    const retry = (from?: string) => this.retry("clicked", from);
    await Promise.all(
      this.#world.clicks.map(async ({ verb, afterMs, nth }) => {
        await pause(afterMs);
        const asked = verb === "undo" ? this.#stage.undo(id, "clicked") : retry(verb === "retry" ? undefined : await this.#stepOf(id, nth));
        await asked.catch(() => undefined);
      }),
    );
  }

  /**
   * A look of those who wait for the run: they say what it waits for, answer its questions, resolve its doubts by the upstream's ledger.
   */
  async look(): Promise<void> {
    await Promise.all([this.#speak(), this.#answer(), this.#resolve()]);
  }

  /** An operator retries the run. */
  async retry(reason: string, from?: string): Promise<void> {
    // The run begins before the operator is answered.
    this.#runs++;
    await this.#stage.retry(this.#run.id, { reason, from }).catch((error) => {
      this.#runs--;
      throw error;
    });
  }

  /** Nothing fails by itself any more. */
  calm(): void {
    this.#runs = Number.POSITIVE_INFINITY;
  }

  /** The letters that must be there in the end, by their reasons. */
  letters(): string[] {
    const { conflicts, malformed } = this.#world;
    const twice = [...this.#saidAt.keys()].filter((subject) => (this.#leaves.get(subject) as Wait).comes === "twice");
    return [...(conflicts ? [REUSED] : []), ...twice.map(() => REUSED), ...(malformed ? ["invalid_payload"] : [])];
  }

  async #sendCommands(): Promise<void> {
    const { copies, conflicts, malformed } = this.#world;
    const [row] = await this.#stage.rows<{ envelope: string }>("SELECT envelope FROM instances WHERE id = ?1", this.#run.id);
    const envelope = JSON.parse(row?.envelope ?? "null") as Envelope;
    const { name } = this.#run;
    const saying = (note: unknown) => ({ ...envelope, payload_inline: this.#payload(note), payload_ref: undefined });
    const other = saying(OTHER_NOTE);
    const broken = { ...saying(17), idempotency_key: `${name}/broken` };
    const bodies = [...(malformed ? [broken] : []), ...(conflicts ? [other, other] : []), ...new Array<unknown>(copies).fill(envelope)];
    if (bodies.length > 0) await this.#send("probe-commands", bodies);
  }

  async #askOtherwise(): Promise<string[]> {
    const answer = await this.#stage.enqueue(this.#payload(OTHER_NOTE)).catch((error) => error);
    const isRefused = codeOf(answer) === REUSED || codeOf(answer) === "unavailable";
    return isRefused ? [] : [`its key was taken for another payload: ${JSON.stringify(answer)}`];
  }

  async #speak(): Promise<void> {
    const open = await this.#stage.rows<{ subject: string }>(
      "SELECT subject FROM waits WHERE instance_id = ?1 AND signal_id IS NULL AND over_at IS NULL",
      this.#run.id,
    );
    for (const { subject } of open) {
      const leaf = this.#leaves.get(subject);
      if (leaf?.do !== "wait" || leaf.comes === "never" || Date.now() - (this.#saidAt.get(subject) ?? 0) < AGAIN_MS) continue;
      await this.#say(subject, leaf);
    }
  }

  async #say(subject: string, { comes }: Wait): Promise<void> {
    this.#saidAt.set(subject, Date.now());
    const one = this.#event(subject, "one");
    // A second one, the first again, and another payload under the key of the first.
    const more = [this.#event(subject, "two"), one, this.#event(subject, "other", "one")];
    await this.#send("probe-events", comes === "twice" ? [one, ...more] : [one]);
  }

  /** The same event again is the same message. */
  #event(subject: string, value: string, key = value): Envelope {
    const name = `${subject}/${value}`;
    const made = this.#events.get(name) ?? event("probe.signal", subject, { about: subject, value }, `${subject}/${key}`);
    this.#events.set(name, made);
    return made;
  }

  async #answer(): Promise<void> {
    const { id, name } = this.#run;
    const pending = await this.#stage.rows("SELECT id FROM approvals WHERE instance_id = ?1 AND state = 'pending'", id);
    if (pending.length === 0) return;
    for (const { id: question, state, details } of await this.#stage.questions(id)) {
      const leaf = this.#leaves.get(`${name}/${details?.at}`);
      if (state !== "pending" || leaf?.do !== "ask" || leaf.answer === "never") continue;
      await this.#stage.decide(question, leaf.answer === "yes" ? "approve" : "reject", "asked").catch(() => undefined);
    }
  }

  /** It has happened if the upstream has done it more often than it was taken back. */
  async #resolve(): Promise<void> {
    const doubts = await this.#stage.rows("SELECT step FROM inbox WHERE instance_id = ?1 AND state = 'in_doubt'", this.#run.id);
    if (doubts.length === 0) return;
    for (const effect of await this.#stage.effects(this.#run.id)) {
      if (effect.state !== "in_doubt") continue;
      const { subject } = JSON.parse(effect.input ?? "{}") as { subject: string };
      const [done, back] = await Promise.all([this.#happened(subject), this.#happened(`${subject}/back`)]);
      const before = this.#again.get(subject);
      const isAgain = this.#world.again === true && before === undefined && back.length === 0;
      const resolve = (answer: Resolution) => this.#stage.resolve(effect.key, answer, "the ledger says so").catch(() => undefined);
      const truth: Resolution =
        done.length > back.length + (before ?? 0) ? { verb: "confirm", output: done.at(-1)?.id } : { verb: "reject" };
      if (isAgain && (await resolve({ verb: "retry_anyway" }))) this.#again.set(subject, done.length);
      else await resolve(truth);
    }
  }

  /** The nth step that a run has recorded, as the platform calls it. */
  async #stepOf(id: string, nth: number): Promise<string | undefined> {
    const steps = await this.#stage.rows<{ step: string; item: string }>(
      "SELECT step, item FROM inbox WHERE instance_id = ?1 AND position >= 0 ORDER BY position",
      id,
    );
    const { step, item } = steps[nth % Math.max(1, steps.length)] ?? {};
    return step === undefined ? undefined : `${step}${item ? ` [${item}]` : ""}`;
  }

  /** As a queue does: what was not acknowledged comes again. */
  async #send(queue: string, bodies: unknown[]): Promise<void> {
    for (let attempt = 1; attempt <= 3; attempt++) {
      const { acked } = await this.#stage.deliver(queue, bodies, attempt).catch(() => ({ acked: 0 }));
      if (acked === bodies.length) return;
    }
  }

  #payload(note: unknown): Record<string, unknown> {
    return { name: this.#run.name, program: this.#run.program, note };
  }

  async #behave(...behaviours: Behaviour[]): Promise<void> {
    await fetch(`${this.#stage.upstreamUrl}/behaviours`, { method: "POST", body: JSON.stringify(behaviours) });
  }

  async #happened(subject: string): Promise<LedgerEntry[]> {
    return (await (await fetch(`${this.#stage.upstreamUrl}/ledger/${encodeURIComponent(subject)}`)).json()) as LedgerEntry[];
  }
}

/** As a client does: again, until it is answered. That it has been done already is an answer. */
export async function patiently<T>(ask: () => Promise<T>): Promise<T | undefined> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (codeOf(error) === "invalid_transition") return undefined;
      if (tries === 5) throw error;
    }
  }
}

function behaviour(subject: string, { is, times }: Upstream): Behaviour {
  switch (is) {
    case "refuses":
      return { subject, mode: "refuse", status: 400, times };
    case "never":
      return { subject, mode: "refuse", status: 422, times };
    case "away":
      return { subject, mode: "refuse", status: 503, times };
    case "limits":
      return { subject, mode: "refuse", status: 429, times };
    case "fails":
      return { subject, mode: "fail", status: 500, times };
    case "garbles":
      return { subject, mode: "garble", times };
    case "drops":
      return { subject, mode: "drop", times };
    case "busy":
      return { subject, mode: "busy", times };
    case "hangs":
      return { subject, mode: "late", delayMs: TIMEOUT_MS + 300, times };
  }
}
