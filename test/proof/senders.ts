import type { Envelope } from "millrace";
import { event } from "../engine/event.ts";
import { patiently, TRIES } from "./people.ts";
import { type Leaf, SHARED, sharedValue, type Wait } from "./program.ts";
import type { Requests } from "./requests.ts";
import { type Asking, codeOf, pause, type Stage, type Subject } from "./stage.ts";
import type { World } from "./world.ts";

const LARGE_NOTE = 40_000;
const REUSED = "idempotency_key_reused";
const OTHER_NOTE = "another payload";
/** Another tenant, with messages of the same keys and subjects. */
export const STRANGER = "globex";
/** The maximum time of another tenant's run, and of a dead letter, after the end of the main run. */
const BEHIND_MS = 60_000;
const LOOK_MS = 100;
/** A part of every note: no log line may contain it. */
export const SECRET = "nobody-logs-this ";

/** The length of the note that a run is given. */
export const noteLength = ({ large }: World): number => (large ? LARGE_NOTE : SECRET.length);

type SentTo = "probe-commands" | "probe-events";

/** The senders of commands and events: each message with the repeats, delays and errors of its case. */
export class Senders {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #world: World;
  readonly #leaves: ReadonlyMap<string, Leaf>;
  /** Subjects with all events published and acknowledged. */
  readonly #said = new Set<string>();
  /** Subjects that operators have signalled to the run alone. */
  readonly #signalled = new Set<string>();
  readonly #requests: Requests;
  /** The number of acknowledged events for shared waits. */
  #sharedSaid = 0;
  #accepted: Envelope | undefined;
  /** All sent messages, by queue: the same message is sent again. */
  readonly #sent: Record<SentTo, Set<unknown>> = { "probe-commands": new Set(), "probe-events": new Set() };
  readonly #events = new Map<string, Envelope>();

  constructor(stage: Stage, run: Subject, world: World, leaves: ReadonlyMap<string, Leaf>, requests: Requests) {
    this.#stage = stage;
    this.#run = run;
    this.#world = world;
    this.#leaves = leaves;
    this.#requests = requests;
  }

  /** Requests the run, until the request is answered; early events follow at once. Returns the problems of the responses. */
  async ask(): Promise<string[]> {
    const { id, name } = this.#run;
    const { conflicts, stranger } = this.#world;
    const asked = this.#asked;
    const { note } = asked.payload;
    // The same key with another payload, in one request with the first, and again after that is known.
    const other = conflicts ? [{ payload: this.#payload(OTHER_NOTE) }] : [];
    const foreign = { tenantId: STRANGER, key: name, payload: { name: `${name}~`, note, program: { do: "commit" } } };
    if (stranger) await patiently(() => this.#stage.enqueue([foreign]));
    const problems: string[] = [];
    const once = async () => {
      for (let tries = 1; ; tries++) {
        const [own, ...more] = await this.#stage.enqueue([asked, ...other]).catch((error: Error) => [error]);
        problems.push(...more.flatMap(taken));
        if (own && "instanceId" in own) return own;
        if (tries === TRIES) throw own;
      }
    };
    // A06: of concurrent callers, at most one is told that the command is new. A02: no later caller is.
    const answers = await Promise.all(Array.from({ length: this.#world.copies + 1 }, once));
    if (answers.some(({ instanceId }) => instanceId !== id))
      return [`the command was accepted under other instance ids: ${answers.map(({ instanceId }) => instanceId)}`];
    const fresh = answers.filter(({ replayed }) => !replayed).length;
    if (fresh > 1 || !(await once()).replayed) problems.push("duplicate: the command was accepted as new more than once");
    const early = [...this.#leaves].filter(([, leaf]) => leaf.do === "wait" && leaf.comes === "early");
    await Promise.all([this.#sendCommands(), ...early.map(([subject, leaf]) => this.#say(subject, leaf as Wait))]);
    const again = conflicts ? await this.#stage.enqueue(other).catch((error: Error) => [error]) : [];
    return [...problems, ...again.flatMap(taken)];
  }

  /** Publishes the events that the run waits for. */
  async speak(): Promise<void> {
    const open = await this.#stage.rows<{ subject: string; waits: number }>(
      `SELECT subject, (SELECT count(*) FROM millrace_waits o WHERE o.instance_id = w.instance_id AND o.subject = w.subject) AS waits
       FROM millrace_waits w WHERE instance_id = ?1 AND signal_id IS NULL AND over_at IS NULL GROUP BY subject`,
      this.#run.id,
    );
    if (open.some(({ subject }) => subject === this.#shared)) await this.#sayShared();
    for (const { subject, waits } of open) {
      const leaf = this.#leaves.get(subject);
      if (leaf?.do !== "wait" || leaf.comes === "never") continue;
      // No event is sent before the second wait.
      if (waits < 2 && (leaf.comes === "reminded" || leaf.comes === "pair")) continue;
      // An acknowledged event is not published again: the engine has it.
      if (this.#signalled.has(subject)) continue;
      if (this.#world.direct && leaf.comes === "asked") await this.#signal(subject);
      else if (!this.#said.has(subject)) await this.#say(subject, leaf);
    }
  }

  get #shared(): string {
    return `${this.#run.name}/${SHARED}`;
  }

  /** As many events as there were waits for them. */
  async #sayShared(): Promise<void> {
    const [waits] = await this.#stage.rows<{ n: number }>(
      "SELECT count(*) AS n FROM millrace_waits WHERE instance_id = ?1 AND subject = ?2",
      this.#run.id,
      this.#shared,
    );
    const all = Array.from({ length: waits?.n ?? 0 }, (_, index) => this.#event(this.#shared, sharedValue(index + 1)));
    if (await this.#send("probe-events", all.slice(this.#sharedSaid))) this.#sharedSaid = all.length;
  }

  /** All messages are delivered once more, also from the dead-letter queue: shuffled, long after everything has ended. */
  async late(): Promise<void> {
    const envelope = await this.#envelope();
    // A message that its sender sends once more is delivered for the first time; a message after a retry delay for the second.
    for (const first of [1, 2]) {
      await this.#deliver("probe-commands", [...this.#sent["probe-commands"], envelope].reverse(), first);
      await this.#deliver("probe-events", [...this.#sent["probe-events"]].reverse(), first);
    }
    await this.#deliver("probe-commands-dlq", [envelope], 1);
  }

  /** A08: all messages are sent again, also over the API, after the run's rows were removed. Returns the problems of the responses. */
  async longAfter(): Promise<string[]> {
    await this.late();
    const [own, other] = (await patiently(() => this.#stage.enqueue([this.#asked, { payload: this.#payload(OTHER_NOTE) }]))) ?? [];
    const isKnown = own && "instanceId" in own && own.instanceId === this.#run.id && own.replayed;
    return [...(isKnown ? [] : [`duplicate: the command's key is free again: ${JSON.stringify(own)}`]), ...(other ? taken(other) : [])];
  }

  /** The dead letters expected at the end, by their reasons. */
  letters(): string[] {
    const { conflicts, malformed, poison, stranger, large } = this.#world;
    const said = [...this.#said];
    const twice = said.filter((subject) => (this.#leaves.get(subject) as Wait).comes === "twice");
    return [
      ...(conflicts ? [REUSED] : []),
      ...twice.map(() => REUSED),
      ...(malformed ? ["invalid_payload"] : []),
      ...(poison && said.length > 0 ? ["exhausted"] : []),
      ...(stranger && large && said.length > 0 ? ["payload_missing"] : []),
    ];
  }

  /** Waits until the expected dead letters exist: a message that was deferred while the database was unavailable is delivered later. */
  async lettersCame(): Promise<void> {
    const count = this.letters().length;
    const look = () => this.#stage.everywhere("SELECT id FROM millrace_dead_letters WHERE body LIKE ?1", `%${this.#run.name}%`);
    await this.#within(async () => (await look()).length >= count);
  }

  /** The problems of another tenant's run. */
  async strangers(): Promise<string[]> {
    if (!this.#world.stranger) return [];
    const name = `${this.#run.name}~`;
    const look = () =>
      this.#stage.everywhere<{ status: string; rows: number }>(
        `SELECT status, (SELECT count(*) FROM probe_rows WHERE name = ?2 AND kind = 'commit') AS rows
         FROM millrace_instances WHERE tenant_id = ?1 AND subject = ?3`,
        STRANGER,
        `${name}/r`,
        name,
      );
    let [row] = await look();
    await this.#within(async () => {
      [row] = await look();
      return row?.status === "complete";
    });
    return row?.status === "complete" && row.rows === 1 ? [] : [`stuck: the other tenant's run: ${JSON.stringify(row)}`];
  }

  /** Polls until the condition holds, or the time since the last fault is up. */
  async #within(isSo: () => Promise<boolean>): Promise<void> {
    const begunAt = Date.now();
    const isEarly = () => Date.now() < Math.max(begunAt, this.#stage.disturbedUntil()) + BEHIND_MS;
    while (!(await isSo()) && isEarly()) await pause(LOOK_MS);
  }

  async #sendCommands(): Promise<void> {
    const { copies, conflicts, malformed } = this.#world;
    const envelope = await this.#envelope();
    const { name } = this.#run;
    const saying = (note: unknown) => ({ ...envelope, payload_inline: this.#payload(note), payload_ref: undefined });
    const other = saying(OTHER_NOTE);
    const broken = { ...saying(17), idempotency_key: `${name}/broken` };
    await this.#send("probe-commands", [
      ...(malformed ? [broken] : []),
      ...(conflicts ? [other, other] : []),
      ...new Array<unknown>(copies).fill(envelope),
    ]);
  }

  get #asked(): Asking {
    const payload = this.#payload(SECRET.padEnd(noteLength(this.#world), "n"));
    return { payload, ...(this.#world.overdue && { mustEndBy: "1 second" }) };
  }

  async #envelope(): Promise<Envelope> {
    if (this.#accepted) return this.#accepted;
    const [row] = await this.#stage.rows<{ envelope: string }>("SELECT envelope FROM millrace_instances WHERE id = ?1", this.#run.id);
    this.#accepted = JSON.parse(row?.envelope ?? "null") as Envelope;
    return this.#accepted;
  }

  async #say(subject: string, { comes }: Wait): Promise<void> {
    const { name } = this.#run;
    const one = this.#event(subject, "one");
    // A second one, the first again, and another payload under the key of the first.
    const two = this.#event(subject, "two");
    const more = comes === "twice" ? [two, one, this.#event(subject, "other", "one")] : comes === "pair" ? [two] : [];
    const foreign = this.#world.stranger ? [{ ...this.#event(subject, "foreign", "one"), tenant_id: STRANGER }] : [];
    const poison = this.#world.poison ? [this.#poison(name)] : [];
    if (await this.#send("probe-events", [...foreign, ...(await this.#theft()), ...poison, one, ...more])) this.#said.add(subject);
  }

  /** Two operators send the event to the run alone, under one key. */
  async #signal(subject: string): Promise<void> {
    const signal = {
      type: "probe.signal",
      payload: { about: subject, value: "one" },
      idempotencyKey: `${subject}/one`,
      reason: "they called",
    };
    const send = () => this.#requests.ask("signal", () => this.#stage.signal(this.#run.id, signal));
    const heard = await Promise.allSettled([send(), send()]);
    if (heard.every(({ status }) => status === "fulfilled")) this.#signalled.add(subject);
  }

  /** The same event again is the same message. */
  #event(subject: string, value: string, key = value): Envelope {
    return this.#once(`${subject}/${value}`, () => event("probe.signal", subject, { about: subject, value }, `${subject}/${key}`));
  }

  /** T01: another tenant's event with a payload reference to the first tenant's payload. */
  async #theft(): Promise<Envelope[]> {
    const { payload_ref } = await this.#envelope();
    if (!this.#world.stranger || payload_ref === undefined) return [];
    const { name } = this.#run;
    const theft = () => ({
      ...event("probe.signal", name, null, `${name}/theft`),
      tenant_id: STRANGER,
      payload_inline: undefined,
      payload_ref,
    });
    return [this.#once("theft", theft)];
  }

  /** An event with a row that the database refuses. */
  #poison(name: string): Envelope {
    const payload = { name: `${name}~`, row: "poison" };
    return this.#once("poison", () => ({ ...event("probe.done", name, payload, `${name}/poison`), message_type: "lab.event" }));
  }

  #once(name: string, make: () => Envelope): Envelope {
    const made = this.#events.get(name) ?? make();
    this.#events.set(name, made);
    return made;
  }

  async #send(queue: SentTo, bodies: unknown[]): Promise<boolean> {
    for (const body of bodies) this.#sent[queue].add(body);
    return this.#deliver(queue, bodies, 1);
  }

  /**
   * As a queue does: an unacknowledged message is delivered again, until it is acknowledged or has been delivered three times. Returns
   * whether all messages were acknowledged.
   */
  async #deliver(queue: string, bodies: unknown[], first: number): Promise<boolean> {
    for (let attempt = first; bodies.length > 0 && attempt <= TRIES; attempt++) {
      const { acked } = await this.#stage.deliver(queue, bodies, Math.min(attempt, 3)).catch(() => ({ acked: 0 }));
      if (acked === bodies.length) return true;
    }
    return bodies.length === 0;
  }

  #payload(note: unknown): Record<string, unknown> {
    return { name: this.#run.name, program: this.#run.program, note };
  }
}

/** The problems of the response to an invalid payload. */
function taken(answer: { instanceId: string } | Error): string[] {
  const isRefused = codeOf(answer) === REUSED || codeOf(answer) === "unavailable";
  return isRefused || !("instanceId" in answer) ? [] : [`the command's key was accepted for another payload: ${JSON.stringify(answer)}`];
}
