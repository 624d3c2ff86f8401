import { DurableObject } from "cloudflare:workers";
import { raiseAlerts } from "../alerts/raise.ts";
import { type AlertChanges, type AlertRule, changedRules } from "../alerts/rule.ts";
import { ALERT_RULES, KEEPER_LATE } from "../alerts/rules.ts";
import { callOwed } from "../callbacks/send-callback.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { cellCount, cellOfObject, inCell, readCells } from "../contract/cells.ts";
import { type Elsewhere, NOWHERE } from "../contract/elsewhere.ts";
import { messageOf } from "../contract/errors.ts";
import { keeperObject, type UndoneChild } from "../contract/keeper-stub.ts";
import { logLine } from "../contract/log-line.ts";
import { type Portion, within } from "../contract/within.ts";
import type { Sample } from "../observe/metrics/series.ts";
import { type AppGauges, type Seen, Vitals } from "../observe/metrics/vitals.ts";
import { applyOpenActions } from "../operate/carry-out/carry-out.ts";
import { undoChild } from "../operate/undo-child.ts";
import type { Check } from "../reconcile/scan.ts";
import { engineChecks, walk } from "../reconcile/walk.ts";
import { startDue } from "../schedules/due.ts";
import { highestCell, openCell } from "../store/cells.ts";
import { isLocal } from "../store/d1/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import { ownOf } from "../topology/consumer.ts";
import { Standstill } from "./backlog.ts";
import { tripBreakers } from "./breakers.ts";
import { checkInstances, startUnseen, wakeSleepers } from "./check-instances.ts";
import { resendOutbox } from "./resend-outbox.ts";
import { engineRetention } from "./retention.ts";
import { type Retention, sweep } from "./sweep.ts";

/** Milliseconds from the start of one round to the start of the next round. `KEEPER_PERIOD_MS` in the env overrides this default. */
const PERIOD_MS = 10_000;
/**
 * Time limit for starting due schedules, so that a hanging start does not delay the next start. If a command is started twice, both starts
 * have the same key, so that the command runs once.
 */
const START_LIMIT_MS = 20_000;
/** Time limit for due callbacks, in milliseconds, so that a hanging call does not delay later calls. */
const CALL_LIMIT_MS = 10_000;
/** The pause before the next round in milliseconds, if the present round did not complete its work. */
const BREATH_MS = 500;
const NOTHING: Portion = { did: 0, more: false };

/**
 * The keeper starts all repairs. The keeper is a single Durable Object with an alarm that survives every crash. Each round completes the
 * work of crashed processes. It starts accepted instances, applies operator actions, sends unconfirmed messages, recreates lost instances,
 * and records unnoticed ends.
 */
export class Keeper extends DurableObject<EngineEnv & { KEEPER_PERIOD_MS?: string }> {
  protected readonly duties: Duties = {};
  protected readonly alertRules: readonly AlertRule[] = ALERT_RULES;
  /** Serializes starts of due schedules, because the platform's cron also triggers such starts. */
  #starting: Promise<Portion> = Promise.resolve(NOTHING);
  /** Serializes runs of callbacks. At most one run is in progress, and at most one run is queued. Further callers share the queued run. */
  #calling: Promise<unknown> = Promise.resolve();
  #callingNext: Promise<void> | undefined;
  #beganAt: number | undefined;
  #isLocal: boolean | undefined;
  #vitals: Vitals | undefined;
  readonly #standstill = new Standstill();

  constructor(ctx: DurableObjectState, env: EngineEnv) {
    // The name is stored, because an object that its alarm starts does not get its name.
    const name = ctx.id.name ?? ctx.storage.kv.get<string>("name");
    const cell = cellOfObject(name);
    if (cell > 1) ctx.storage.kv.put("name", name);
    super(ctx, inCell(env, cell));
  }

  /**
   * Sets the alarm if the alarm is missing, because the platform drops an alarm that failed six times or ran out of memory. The call also
   * corrects an alarm that was set while the machine's clock was ahead.
   */
  async arm(): Promise<void> {
    const alarmAt = await this.ctx.storage.getAlarm();
    if (alarmAt === null || this.#isAstray(alarmAt)) await this.#next(this.#period());
  }

  /** Starts due schedule runs, and sets the alarm if it was lost. The platform's cron trigger calls this method each minute. */
  async startDue(): Promise<number> {
    await this.arm();
    return (await this.#startDue()).did;
  }

  /** Cancels or undoes a child, for the undo of its parent. */
  undoChild(undone: UndoneChild): Promise<"begun" | "nothing"> {
    return undoChild(this.env, undone);
  }

  /** Executes the due callbacks now. A run calls this method at the end of the run. */
  callBack(): Promise<void> {
    this.#callingNext ??= this.#calling
      .catch(() => undefined)
      .then(() => {
        this.#callingNext = undefined;
        const calling = within(callOwed(this.env, this.#elsewhere()), CALL_LIMIT_MS);
        this.#calling = calling;
        return calling.then(() => undefined);
      });
    return this.#callingNext;
  }

  /**
   * Milliseconds since the last round started, from memory or from the alarm; null if the alarm was lost. In this case, the call sets the
   * alarm again.
   */
  async age(): Promise<number | null> {
    const alarmAt = await this.ctx.storage.getAlarm();
    await this.arm();
    if (alarmAt !== null && this.#isAstray(alarmAt)) return null;
    const beganAt = this.#beganAt ?? (alarmAt === null ? null : alarmAt - this.#period());
    return beganAt === null ? null : Math.max(0, Date.now() - beganAt);
  }

  /** The values of all counters and gauges, at most a few seconds old. */
  async metrics(): Promise<Pick<Seen, "ever" | "samples" | "at">> {
    const { ever, samples, at } = await this.#ownVitals().seen();
    return { ever, samples, at };
  }

  /** The counters and gauges of `metrics`, and also the counts per minute of the last minutes. */
  vitals(): Promise<Seen> {
    return this.#ownVitals().seen();
  }

  /** Reads gauges and counters immediately, and imports the counts that recorders have written. */
  async readVitals(): Promise<void> {
    await this.#ownVitals().readAtOnce();
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    const beganAt = Date.now();
    let more = false;
    try {
      ({ more } = await this.#round(info?.scheduledTime));
    } finally {
      // The platform drops an alarm after six failures, so every round sets a new alarm, even a failed one.
      await this.#next(more ? BREATH_MS : Math.max(BREATH_MS, beganAt + this.#period() - Date.now()));
    }
  }

  /** Runs one round without the alarm. Returns the amount of work of each duty. */
  async round(): Promise<Round["did"]> {
    return (await this.#round()).did;
  }

  async #round(dueAt?: number): Promise<Round> {
    const beganAt = Date.now();
    const lateMs = Math.max(0, beganAt - (dueAt ?? beganAt), beganAt - (this.#beganAt ?? beganAt) - this.#period());
    this.#beganAt = beganAt;
    await openCell(this.env, this.env.CELL);
    const round = await runRound(this.#dutiesByUrgency(lateMs));
    if (Object.values(round.did).some((count) => count > 0)) logLine("info", { log: "keeper", ...round.did });
    return round;
  }

  /**
   * The duties of a round, the most urgent duty first. The time budgets of all duties add up to one period, so that the first duty runs
   * once per period.
   */
  #dutiesByUrgency(lateMs: number): Duty[] {
    const { env } = this;
    const { catalog } = this.duties;
    const elsewhere = this.#elsewhere();
    const own = (catalog?.workflows ?? []).filter(({ name }) => !elsewhere.workflows.has(name));
    const all = (count: number) => ({ did: count, more: false });
    const rules = [...engineRetention(catalog), ...(this.duties.retention ?? [])];
    const checks = [...engineChecks(catalog), ...(this.duties.checks ?? [])];
    return [
      { name: "started", budgetMs: 3000, portion: () => this.#startUnseen() },
      { name: "applied", budgetMs: 1000, portion: () => applyOpenActions(env, elsewhere) },
      { name: "scheduled", budgetMs: 0, portion: () => this.#startDue() },
      { name: "resent", budgetMs: 1500, portion: () => resendOutbox(env, elsewhere) },
      { name: "checked", budgetMs: 2000, portion: async () => checkInstances(env, elsewhere, await this.#local()) },
      { name: "tripped", budgetMs: 0, portion: () => tripBreakers(env, own).then(all) },
      { name: "called", budgetMs: 1000, portion: () => callOwed(env, elsewhere) },
      { name: "gauged", budgetMs: 0, portion: () => this.#gauge() },
      { name: "alerted", budgetMs: 0, portion: () => this.#alert(lateMs) },
      { name: "pruned", budgetMs: 0, portion: () => sweep(this.ctx.storage, env as unknown as Cloudflare.Env, rules).then(all) },
      { name: "reconciled", budgetMs: 0, portion: () => walk(this.ctx.storage, env, checks).then(() => all(0)) },
    ];
  }

  async #startUnseen(): Promise<Portion> {
    const deliveries = this.#vitals?.last?.ever.queue_messages_received_total ?? {};
    const delivered = (queue: string) => Number(deliveries[JSON.stringify([queue])] ?? 0);
    const standsStill = (queue: string, oldest: number) => this.#standstill.note(queue, oldest, delivered(queue));
    return startUnseen(this.env, this.#elsewhere(), await this.#local(), standsStill);
  }

  /** Reads the gauges. The reading does not count as work, so that the round's log line does not mention the reading. */
  async #gauge(): Promise<{ did: number; more: boolean }> {
    await this.#ownVitals().read();
    return { did: 0, more: false };
  }

  /** Updates the alerts. When the gauges cannot be read, no alert is resolved. */
  async #alert(lateMs: number): Promise<Portion> {
    // The first cell's keeper raises the alerts of all cells. It also sets the alarms of the other keepers.
    if (this.env.CELL !== undefined) return { did: 0, more: false };
    const read = (cell: EngineEnv) => (cell.CELL === undefined ? this.#ownSamples(lateMs) : this.#samplesOf(cell));
    const [{ found, failed }, highest] = await Promise.all([readCells(this.env, read), highestCell(this.env)]);
    for (let cell = cellCount(this.env) + 1; cell <= highest; cell++) failed.push(cell);
    return raiseAlerts(this.env, { rules: this.alertRules, catalog: this.duties.catalog, gauges: found.flat(), failed });
  }

  async #ownSamples(lateMs: number): Promise<readonly Sample[]> {
    const { samples } = await this.#ownVitals().seen();
    return [...samples, { name: KEEPER_LATE, labels: {}, value: lateMs / 1000 }];
  }

  async #samplesOf(cell: EngineEnv): Promise<readonly Sample[]> {
    const keeper = keeperObject(cell) as unknown as Pick<Keeper, "age" | "metrics">;
    const age = await keeper.age();
    const lateMs = Math.max(0, (age ?? 0) - this.#period());
    const { samples } = await keeper.metrics();
    return [...samples, { name: KEEPER_LATE, labels: {}, value: lateMs / 1000 }];
  }

  #elsewhere(): Elsewhere {
    return this.duties.catalog?.elsewhere ?? NOWHERE;
  }

  #ownVitals(): Vitals {
    this.#vitals ??= new Vitals(this.env, ownOf(this.duties.catalog?.consumers ?? []), this.duties.gauges);
    return this.#vitals;
  }

  /**
   * True on the local platform. The value is determined once per object. If the database does not answer, the next call tries again. A
   * local keeper makes the checks of all sleeping instances due.
   */
  async #local(): Promise<boolean> {
    if (this.#isLocal === undefined) {
      const local = await isLocal(this.env.DB);
      if (local) await wakeSleepers(this.env);
      this.#isLocal = local;
    }
    return this.#isLocal;
  }

  #startDue(): Promise<Portion> {
    const { catalog } = this.duties;
    if (!catalog) return Promise.resolve(NOTHING);
    this.#starting = this.#starting.catch(() => NOTHING).then(() => within(startDue(this.env, catalog), START_LIMIT_MS));
    return this.#starting;
  }

  /** True if the alarm is set for a time after the end of the longest regular pause. */
  #isAstray(alarmAt: number): boolean {
    return alarmAt > Date.now() + 2 * this.#period();
  }

  #period(): number {
    return Number(this.env.KEEPER_PERIOD_MS ?? PERIOD_MS);
  }

  #next(ms: number): Promise<void> {
    return this.ctx.storage.setAlarm(Date.now() + ms);
  }
}

/** The duties of an app's keeper, in addition to the engine's own repairs. */
export interface Duties {
  /** Retention of your own tables. */
  retention?: readonly Retention[];
  /** The app's catalog; required for schedules and for the metrics of queues. */
  catalog?: Catalog;
  /**
   * Your gauges, for `/metrics` and alerts. Each round reads all gauges, so each query should use an index. Labels must not contain strings
   * from tenants.
   */
  gauges?: AppGauges;
  /** Changes to the rules of alerts. Default: the engine's rules. */
  alerts?: AlertChanges;
  /** Checks of your own records, in addition to the engine's. */
  checks?: readonly Check[];
}

/**
 * Creates the keeper class of an app: `export class Keeper extends keeper({ catalog, retention, checks }) {}`. Errors: `config_invalid` for
 * invalid alerts.
 */
export function keeper(duties: Duties): typeof Keeper {
  const alertRules = changedRules(ALERT_RULES, duties.alerts);
  return class extends Keeper {
    /** The commands `dev` and `doctor` of the command line read this catalog. */
    static readonly catalog = duties.catalog;
    protected override readonly duties = duties;
    protected override readonly alertRules = alertRules;
  };
}

interface Duty {
  readonly name: string;
  /** The time in a round after which no portion of this duty starts, in milliseconds. */
  readonly budgetMs: number;
  /** Does a bounded part of the duty's due work. The call is safe to repeat after a crash at any point. */
  readonly portion: () => Promise<Portion>;
}

/** The count of each duty in one round. */
interface Round {
  readonly did: Readonly<Record<string, number>>;
  /** True when the round's time ended before all due work was done. Then the next round follows at once. */
  readonly more: boolean;
}

/** Maximum time that a round waits for one portion, in milliseconds, so that a hanging portion does not delay the other duties. */
const PORTION_TIMEOUT_MS = 30_000;

/**
 * Runs the duties of one round in order. Each duty runs portion by portion, while the duty has due work and time remains. If a duty fails
 * or hangs, this is logged, and the next duty runs.
 */
async function runRound(duties: readonly Duty[]): Promise<Round> {
  const did: Record<string, number> = {};
  let more = false;
  for (const duty of duties) {
    const part = await runDuty(duty);
    did[duty.name] = part.did;
    more ||= part.more;
  }
  return { did, more };
}

async function runDuty({ name, budgetMs, portion }: Duty): Promise<Portion> {
  const until = Date.now() + budgetMs;
  let did = 0;
  try {
    for (;;) {
      const part = await within(portion(), PORTION_TIMEOUT_MS);
      did += part.did;
      if (!part.more || Date.now() >= until) return { did, more: part.more };
    }
  } catch (error) {
    logLine("error", { log: "keeper", part: name, error: messageOf(error) });
    return { did, more: false };
  }
}
