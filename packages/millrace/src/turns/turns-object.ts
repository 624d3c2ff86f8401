import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Envelope } from "../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { costsTry, isGivenUp } from "../intake/letters/leave-in-lane.ts";
import type { Gate } from "../lanes/backlog.ts";
import { LaneObject, type Steered } from "../lanes/lane-object.ts";
import type { LaneHead, LaneLook } from "../lanes/look.ts";
import type { Posted } from "../lanes/message.ts";
import type { LaneStanding, LaneTurns, RunEnd, SteerAnswer, SteerRequest, Turn } from "../lanes/turns-stub.ts";
import { cellOf } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { runsOf } from "../store/instances/fate.ts";
import { lookNow } from "../store/instances/look.ts";
import { UNDER_WAY, UNSEEN } from "../store/instances/status.ts";
import { Audits } from "./audits.ts";
import type { EngineLane } from "./lane-consumers.ts";
import { Noticed } from "./noticed.ts";
import { type Place, Places } from "./places.ts";

/**
 * The Durable Object of a key in a lane. A message starts a workflow instance, or is handled as an event. The next message gets its turn
 * when fewer instances of the key are running than the lane allows. A run reports its end to the lane. If a report is lost, the lane reads
 * the end from the database.
 */
export class TurnsObject extends LaneObject implements LaneTurns {
  protected readonly lanes: ReadonlyMap<string, EngineLane> = new Map();
  readonly #audits = new Audits(this.#env, this.ctx.storage.kv);
  readonly #tries = new Tries(this.ctx.storage.kv);
  #noticed = new Noticed(this.#env, this.ctx.storage.kv);
  #places: Places | undefined;
  /** The instance that each message of the current batch started, by message id. */
  readonly #became = new Map<string, { instanceId: string; isNew: boolean }>();
  /** The ends of runs that were reported while a message was handled. The ends are kept because a run may end before its turn is stored. */
  readonly #early = new Map<string, RunEnd>();
  #inHand = false;
  #lookedAt = 0;
  /** True if the lane must check its instances now, because an instance may have ended before the lane stored it as running. */
  #looksNow = false;

  protected override readonly gate: Gate = {
    prepare: () => this.#prepare(),
    room: () => this.#turns()?.room ?? Number.POSITIVE_INFINITY,
    done: (messages) => this.#giveTurns(messages),
    nextAt: () => this.#nextAt(),
  };

  ended(instanceId: string, end: RunEnd): void {
    const places = this.#turns();
    if (!places) return;
    if (this.#inHand) this.#early.set(instanceId, end);
    places.end(instanceId, end);
    this.go();
  }

  async turnsOf(posts: readonly Posted[]): Promise<Turn[]> {
    const answer = await this.send(posts);
    if (!("sent" in answer)) throw new MillraceError("unavailable", `The lane accepted no message: ${JSON.stringify(answer)}`);
    return answer.sent.map(({ id, duplicate }) => (duplicate && !this.kept.has(id) ? "given" : "waits"));
  }

  override async erase(): Promise<boolean> {
    // The lane's row in the database is removed before the lane is erased, because no process would remove the row later. A lane without a
    // row is erased without an await, so that messages which are sent later are stored.
    if (this.#noticed.isThere) await this.#noticed.close(this.laneName());
    const erased = super.erase();
    this.#noticed = new Noticed(this.#env, this.ctx.storage.kv);
    this.#places = undefined;
    this.#became.clear();
    return erased;
  }

  protected override isSpent(): boolean {
    const { held = false, all = [] } = this.#turns() ?? {};
    const isOwed = this.#audits.dueAt !== undefined || this.#noticed.isThere || this.#noticed.dueAt(this.#standing()) !== undefined;
    return super.isSpent() && !held && all.length === 0 && !isOwed;
  }

  override pause(): Steered {
    const paused = super.pause();
    // After a change of the lane, the write of the lane's row is due.
    this.go();
    return paused;
  }

  override resume(): Steered {
    if (this.kept.progress.held) this.#tries.forget();
    return super.resume();
  }

  override async stand(): Promise<LaneStanding | undefined> {
    // An operator may have retried a failed instance, and a retry is not reported to the lane. The end of the retried run may be lost.
    if (this.#failed.length > 0 || this.#turns()?.held) {
      await this.#look();
      this.go();
    }
    return this.#isKnown ? this.#standing() : undefined;
  }

  override async steer(request: SteerRequest): Promise<SteerAnswer | undefined> {
    if (!this.#isKnown) return undefined;
    const { tenant, lane, key } = this.laneName();
    const [seen] = this.#failed;
    // An instance with a new run still counts as running in the lane.
    if (request.verb !== "pause") await this.#look();
    this.kept.make(this.laneName());
    const before = { state: this.#standing().state };
    const answer = this.#carryOut(request, seen);
    const { done, ...detail } = answer;
    const result = done ? "applied" : "no_change";
    const changed = { detail, before, after: { state: this.#standing().state } };
    this.#audits.owe({ ...request, tenantId: tenant ?? "", target: `${lane}/${key}`, result, ...changed });
    this.go();
    await this.#audits.write();
    return answer;
  }

  /** `seen` is the id of the first failed instance of the lane before this action. */
  #carryOut({ verb, id }: SteerRequest, seen: string | undefined): SteerAnswer {
    const { state, head, ahead } = this.#standing();
    const places = this.#turns();
    const failed = this.#failed;
    const refuse = (reason: string): SteerAnswer => ({ done: false, state, reason });
    const answer = (steered: Steered): SteerAnswer =>
      steered.done ? { done: true, messageId: head?.id ?? null, instanceIds: [] } : refuse(steered.reason);
    const letGo = (ids: readonly string[]): SteerAnswer => {
      places?.letGo(ids);
      return { done: true, messageId: null, instanceIds: [...ids] };
    };
    const isThere = id === undefined || id === head?.id || ahead.some((one) => one.instance_id === id);
    if (!isThere) return refuse(`${id} is neither the head nor an instance before it: read the lane again.`);
    switch (verb) {
      case "pause":
        return answer(this.pause());
      case "resume": {
        if (!places?.held) return answer(this.resume());
        if (id !== undefined && failed.length > 0 && !failed.includes(id))
          return refuse(`The lane is held for the instance ${failed[0]}: read the lane again.`);
        this.resume();
        return letGo(failed.filter((one) => id === undefined || one === id));
      }
      case "retry_head":
        if (failed[0] !== undefined) return refuse(`The lane waits for the failed instance ${failed[0]}: retry the instance.`);
        if (places?.held) return refuse("The lane is held after a failed instance: resume the lane.");
        if (head && places?.room === 0)
          return refuse(`The lane waits for the running instance ${ahead[0]?.instance_id}: the head is tried after its end.`);
        return answer(this.retryHead(id));
      case "skip_head": {
        if (id === undefined && failed[0] !== seen) return refuse("The instances before the head have changed: read the lane again.");
        const meant = id ?? failed[0];
        // A head message that has not failed is skipped only by its id.
        if (meant === undefined && (places?.held || places?.room === 0))
          return refuse(
            places.held
              ? "The lane is held after a failed instance: resume it, or pass the message or instance to skip as `id`."
              : `The lane waits for the running instance ${ahead[0]?.instance_id}: pass the message or instance to skip as \`id\`.`,
          );
        return meant !== undefined && failed.includes(meant) ? letGo([meant]) : answer(this.skipHead(id));
      }
    }
  }

  /** True for a lane of this deployment, and for a former lane that still has messages. */
  get #isKnown(): boolean {
    return this.plans.has(this.laneName().lane) || this.kept.depth > 0;
  }

  /** The failed instances for which the lane waits. */
  get #failed(): string[] {
    return this.#turns()?.failed ?? [];
  }

  /**
   * Accepts messages like a consumer of their queue, and records the instances that these messages started. The function throws the failure
   * of the head message.
   */
  protected async take(lane: EngineLane, batch: MessageBatch, env: EngineEnv): Promise<void> {
    this.#inHand = true;
    this.#became.clear();
    this.#early.clear();
    const outcomes = await lane.taker.handle(batch, await cellOf(env, this.laneName().tenant ?? ""), (message) => this.#tries.of(message));
    for (const message of batch.messages) {
      const outcome = outcomes.get(message);
      const instanceId = outcome?.did === "started" || outcome?.did === "duplicate" ? lane.instanceOf(message.body) : undefined;
      if (instanceId !== undefined)
        this.#became.set(message.id, { instanceId, isNew: outcome?.did === "started" && message.attempts === 1 });
    }
    await crashPoint("L11 started, turn not recorded");
    const [head] = batch.messages.flatMap((message) => {
      const outcome = outcomes.get(message);
      return outcome && "error" in outcome ? [{ ...outcome, message, tries: this.#tries.of(message) }] : [];
    });
    if (!head) return;
    if (lane.onFailure === "hold" && isGivenUp(lane, head)) this.kept.advance({ ...this.kept.progress, held: true }, Date.now());
    if (lane.onFailure !== "block" && costsTry(head)) this.#tries.failed(head.message);
    const code = codeOf(head.error);
    const said = lane.hideOf(head.message.body)(messageOf(head.error));
    throw new Error(`${code === undefined ? "" : `${code}: `}${said}`);
  }

  #giveTurns(messages: readonly { id: string }[]): void {
    const places = this.#turns();
    for (const { id } of places ? messages : []) {
      const { instanceId, isNew } = this.#became.get(id) ?? {};
      if (instanceId === undefined) continue;
      places?.take(instanceId, Date.now());
      this.#looksNow ||= !isNew;
      const end = this.#early.get(instanceId);
      if (end) places?.end(instanceId, end);
    }
    this.#inHand = false;
    this.#became.clear();
    this.#early.clear();
  }

  #prepare(): Promise<void> | undefined {
    const now = Date.now();
    if ((this.#audits.dueAt ?? Number.POSITIVE_INFINITY) <= now) this.#behind(this.#audits.write());
    if (this.#isToBeNoticed) {
      const standing = this.#standing();
      if ((this.#noticed.dueAt(standing) ?? Number.POSITIVE_INFINITY) <= now) this.#behind(this.#noticed.write(standing));
    }
    return (this.#lookAt() ?? Number.POSITIVE_INFINITY) <= now ? this.#look() : undefined;
  }

  /** Runs work in the background. No caller waits for the work. */
  #behind(work: Promise<void>): void {
    this.ctx.waitUntil(work.finally(() => this.go()));
  }

  #nextAt(): number | undefined {
    const times = [this.#audits.dueAt, this.#lookAt(), this.#isToBeNoticed ? this.#noticed.dueAt(this.#standing()) : undefined];
    const due = times.filter((time) => time !== undefined);
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  /** A lane without messages writes no row to the database. */
  get #isToBeNoticed(): boolean {
    return this.kept.name !== undefined;
  }

  /**
   * The time of the next query whether an instance without a report has ended. Undefined if no message waits for the end of an instance. A
   * held lane queries while an instance runs, because only an instance that failed can be closed.
   */
  #lookAt(): number | undefined {
    const places = this.#turns();
    if (!places || places.room > 0 || this.kept.depth === 0 || this.kept.progress.paused) return undefined;
    if (places.held && places.failed.length === places.all.length) return undefined;
    return this.#looksNow ? 0 : this.#lookedAt + lookPauseMs(places.all, this.#lookedAt);
  }

  async #look(): Promise<void> {
    const places = this.#turns();
    if (!places || places.all.length === 0) return;
    this.#looksNow = false;
    this.#lookedAt = Date.now();
    const tenant = this.laneName().tenant ?? "";
    await askDatabase(cellOf(this.#env, tenant), tenant, places);
  }

  #standing(): LaneStanding {
    return standingOf(this.look(), this.#turns(), () => this.#headMessage());
  }

  #headMessage(): Partial<Envelope> {
    const [head] = this.kept.messages(this.kept.progress.head, 1);
    return (head?.body ?? {}) as Partial<Envelope>;
  }

  #turns(): Places | undefined {
    const lane = this.lanes.get(this.laneName().lane);
    if (lane && Number.isFinite(lane.concurrency)) this.#places ??= new Places(this.ctx.storage.kv, lane);
    return this.#places;
  }

  get #env(): EngineEnv {
    return this.env as unknown as EngineEnv;
  }
}

/** A lane's state, with the instances for which the lane waits. */
function standingOf({ oldestAt, ...look }: LaneLook, places: Places | undefined, messageOf: () => Partial<Envelope>): LaneStanding {
  const ahead = (places?.all ?? []).map(({ id, since, failed }) => ({ instance_id: id, since, failed }));
  const head = look.head && named(look.head, messageOf());
  const standing: LaneStanding = { ...look, oldest_at: oldestAt, head, ahead };
  if (look.state === "paused" || look.state === "held" || look.state === "unknown") return standing;
  const failed = ahead.find((one) => one.failed !== null);
  const itsFailure = failed && `the failed instance ${failed.instance_id}: ${failed.failed}`;
  if (places?.held) return { ...standing, state: "held", why: `It waits for an operator, after ${itsFailure ?? "a failed instance."}` };
  if (!head || !places || places.room > 0) return standing;
  const waitsFor = itsFailure ?? `the running instance ${ahead[0]?.instance_id}.`;
  return { ...standing, state: "waiting", why: `It waits for ${waitsFor}` };
}

/**
 * Replaces the digest that a lane stores as the key of its head message. The result has the message's type and idempotency key, which its
 * instance and its dead letter have too.
 */
function named(head: LaneHead, { message_type, idempotency_key }: Partial<Envelope>): LaneStanding["head"] {
  const { id, idempotencyKey, sentAt, attempts, error, nextAt } = head;
  const names = { type: message_type ?? null, idempotency_key: idempotency_key ?? idempotencyKey };
  return { id, ...names, sent_at: sentAt, attempts, error, next_at: nextAt };
}

/**
 * The stored count of failures that the head message of a lane caused. A message can have more deliveries than failures, because the
 * message is also delivered again after failures that it did not cause.
 */
class Tries {
  readonly #kv: SyncKvStorage;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
  }

  /** The count of attempts of a message, including the present attempt. */
  of({ id }: Pick<Message, "id">): number {
    const kept = this.#kv.get<{ id: string; failures: number }>("tries");
    return 1 + (kept?.id === id ? kept.failures : 0);
  }

  failed(message: Pick<Message, "id">): void {
    this.#kv.put("tries", { id: message.id, failures: this.of(message) });
  }

  /** Sets the count of failures to 0. */
  forget(): void {
    this.#kv.delete("tries");
  }
}

const SHORTEST_MS = 10_000;
const LONGEST_MS = 300_000;
/**
 * If an instance has recorded no step within this time, in milliseconds, the keeper checks the instance on the platform. Unless the lane
 * requests a check, the keeper does not check an instance that waits in the lane.
 */
const UNSEEN_MS = 30_000;

/**
 * The time between two polls for ended instances. The interval is half the time since the latest turn, and between 10 s and 5 min. The
 * interval is computed without a counter, so that a recreated object continues with the same interval. The first poll is due one interval
 * after the turn was given.
 */
function lookPauseMs(places: readonly Place[], lookedAt: number): number {
  const youngest = Math.max(...places.map(({ since }) => since));
  const pauseMs = Math.min(Math.max((Date.now() - youngest) / 2, SHORTEST_MS), LONGEST_MS);
  return lookedAt >= youngest ? pauseMs : youngest + SHORTEST_MS - lookedAt;
}

/**
 * Reads in one query the status of instances without a reported end. The function never throws, because the next poll reads the status
 * again.
 */
async function askDatabase(env: Promise<Pick<EngineEnv, "DB">>, tenantId: string, places: Places): Promise<void> {
  const ids = places.all.map(({ id }) => id);
  try {
    const { DB } = await env;
    const runs = await runsOf(DB, tenantId, ids);
    for (const { id, failed } of [...places.all]) {
      const { status, run = 0 } = runs.get(id) ?? {};
      if (status === "errored" || status === "skipped") places.end(id, { status, error: null, run: 0 });
      else if (status !== undefined && UNDER_WAY.has(status)) places.goesOn(id, run);
      // The instance is complete, ended by an operator, refused, or so old that its row was removed. A missing row does not show that an
      // operator has fixed a failed instance.
      else if (status !== undefined || failed === null) places.free([id]);
    }
    const unseen = places.all.filter(({ id, since }) => since < Date.now() - UNSEEN_MS && UNSEEN.has(runs.get(id)?.status ?? "running"));
    if (unseen.length > 0) await query(DB, lookNow(unseen.map(({ id }) => id)));
  } catch (error) {
    logLine("warn", { log: "turn_look", error: messageOf(error) });
  }
}
