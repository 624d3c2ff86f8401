import { DurableObject } from "cloudflare:workers";
import { raiseAlerts } from "../alerts/raise.ts";
import { type AlertChanges, type AlertRule, changedRules } from "../alerts/rule.ts";
import { ALERT_RULES, KEEPER_LATE } from "../alerts/rules.ts";
import { callOwed } from "../callbacks/owed.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { logLine } from "../contract/log-line.ts";
import type { Portion } from "../contract/patience.ts";
import { within } from "../contract/within.ts";
import { type AppGauges, type Seen, Vitals } from "../observe/metrics/vitals.ts";
import { applyOpenActions } from "../operate/carry-out/apply.ts";
import type { Check } from "../reconcile/check.ts";
import { engineChecks } from "../reconcile/checks.ts";
import { walk } from "../reconcile/walk.ts";
import { startDue } from "../schedules/due.ts";
import { isLocal } from "../store/d1/local.ts";
import type { Catalog } from "../topology/catalog.ts";
import { checkInstances, startUnseen, wakeSleepers } from "./check-instances.ts";
import { resendOutbox } from "./resend-outbox.ts";
import { engineRetention } from "./retention.ts";
import { type Duty, type Round, runRound } from "./round.ts";
import type { Retention } from "./rule.ts";
import { Standstill } from "./standstill.ts";
import { sweep } from "./sweep.ts";

/** Milliseconds from the beginning of one round to that of the next; `KEEPER_PERIOD_MS` in the env overrides it. */
const PERIOD_MS = 10_000;
/** Longest look at the clock: one that hangs holds up none of the next. A command that two of them start has one key, and runs once. */
const START_LIMIT_MS = 20_000;
/** Longest look at what is owed: one that hangs holds up none of the next. */
const CALL_LIMIT_MS = 10_000;
/** The pause to the next round where this one left work undone. */
const BREATH_MS = 500;

/**
 * The self-repair clock: one object whose alarm survives every crash. Each round it finishes what a dead process left behind: instances
 * accepted and not started, operator actions not yet carried out, messages committed and not confirmed, instances lost or ended unseen.
 */
export class Keeper extends DurableObject<EngineEnv & { KEEPER_PERIOD_MS?: string }> {
  protected readonly duties: Duties = {};
  protected readonly alertRules: readonly AlertRule[] = ALERT_RULES;
  /** One look at the clock at a time: the platform's cron asks for one too. */
  #starting: Promise<number> = Promise.resolve(0);
  /** One look at what is owed at a time, and at most one that waits for its turn: whoever comes meanwhile shares it. */
  #calling: Promise<unknown> = Promise.resolve();
  #callingNext: Promise<void> | undefined;
  #beganAt: number | undefined;
  #isLocal: boolean | undefined;
  #vitals: Vitals | undefined;
  readonly #standstill = new Standstill();

  /**
   * Starts the clock if it does not run: an alarm that failed six times, or whose process ran out of memory, is given up by the platform;
   * one that was set while the machine's time was ahead rings when that has come. Called by whoever comes by.
   */
  async arm(): Promise<void> {
    const alarmAt = await this.ctx.storage.getAlarm();
    if (alarmAt === null || this.#isAstray(alarmAt)) await this.#next(this.#period());
  }

  /** Starts what schedules have due, and the clock if it was lost; called by the platform's own cron, which comes each minute. */
  async startDue(): Promise<number> {
    await this.arm();
    return this.#startDue();
  }

  /** Calls the addresses that are owed a call, now: asked for by a run that has ended. */
  callBack(): Promise<void> {
    this.#callingNext ??= this.#calling
      .catch(() => undefined)
      .then(() => {
        this.#callingNext = undefined;
        const calling = within(callOwed(this.env), CALL_LIMIT_MS);
        this.#calling = calling;
        return calling.then(() => undefined);
      });
    return this.#callingNext;
  }

  /**
   * Milliseconds since the last round began, by the object's memory or else by its alarm; null when the clock was found lost, and started.
   */
  async age(): Promise<number | null> {
    const alarmAt = await this.ctx.storage.getAlarm();
    await this.arm();
    if (alarmAt !== null && this.#isAstray(alarmAt)) return null;
    const beganAt = this.#beganAt ?? (alarmAt === null ? null : alarmAt - this.#period());
    return beganAt === null ? null : Math.max(0, Date.now() - beganAt);
  }

  /** What was counted, and what every gauge showed, some seconds ago at most. */
  async metrics(): Promise<Pick<Seen, "ever" | "samples" | "at">> {
    const { ever, samples, at } = await this.#ownVitals().seen();
    return { ever, samples, at };
  }

  /** The same with each of the last minutes. */
  vitals(): Promise<Seen> {
    return this.#ownVitals().seen();
  }

  /** Reads the same anew, and takes over at once what recorders have written. */
  async readVitals(): Promise<void> {
    await this.#ownVitals().readAtOnce();
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    const beganAt = Date.now();
    let more = false;
    try {
      ({ more } = await this.#round(info?.scheduledTime));
    } finally {
      // Alarms are given up after six failures: a new one in every case keeps the clock going.
      await this.#next(more ? BREATH_MS : Math.max(BREATH_MS, beganAt + this.#period() - Date.now()));
    }
  }

  /** One round, outside the clock's own. Answers how much each duty did. */
  async round(): Promise<Round["did"]> {
    return (await this.#round()).did;
  }

  async #round(dueAt?: number): Promise<Round> {
    const beganAt = Date.now();
    const lateMs = Math.max(0, beganAt - (dueAt ?? beganAt), beganAt - (this.#beganAt ?? beganAt) - this.#period());
    this.#beganAt = beganAt;
    const round = await runRound(this.#dutiesByUrgency(lateMs));
    if (Object.values(round.did).some((count) => count > 0)) logLine("info", { log: "keeper", ...round.did });
    return round;
  }

  /** Together they may take one period, so that the first duty's turn comes once in each. */
  #dutiesByUrgency(lateMs: number): Duty[] {
    const { env } = this;
    const { catalog } = this.duties;
    const all = (count: number) => ({ did: count, more: false });
    const rules = [...engineRetention(catalog), ...(this.duties.retention ?? [])];
    const checks = [...engineChecks(catalog), ...(this.duties.checks ?? [])];
    return [
      { name: "started", budgetMs: 3000, portion: () => this.#startUnseen() },
      { name: "applied", budgetMs: 1000, portion: () => applyOpenActions(env) },
      { name: "scheduled", budgetMs: 0, portion: () => this.#startDue().then(all) },
      { name: "resent", budgetMs: 1500, portion: () => resendOutbox(env) },
      { name: "checked", budgetMs: 2000, portion: async () => checkInstances(env, await this.#local()) },
      { name: "called", budgetMs: 1000, portion: () => callOwed(env) },
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
    return startUnseen(this.env, await this.#local(), standsStill);
  }

  /** What reading does is no work that a round's line should name. */
  async #gauge(): Promise<{ did: number; more: boolean }> {
    await this.#ownVitals().read();
    return { did: 0, more: false };
  }

  /** Where the gauges cannot be read, nothing is known, and no alert is taken for over. */
  async #alert(lateMs: number): Promise<Portion> {
    const { samples } = await this.#ownVitals().seen();
    const gauges = [...samples, { name: KEEPER_LATE, labels: {}, value: lateMs / 1000 }];
    return raiseAlerts(this.env, { rules: this.alertRules, catalog: this.duties.catalog, gauges });
  }

  #ownVitals(): Vitals {
    this.#vitals ??= new Vitals(this.env, this.duties.catalog?.consumers ?? [], this.duties.gauges);
    return this.#vitals;
  }

  /** Asked once of each object, and again while the database does not answer. One that begins locally has all who sleep looked at. */
  async #local(): Promise<boolean> {
    if (this.#isLocal === undefined) {
      const local = await isLocal(this.env.DB);
      if (local) await wakeSleepers(this.env);
      this.#isLocal = local;
    }
    return this.#isLocal;
  }

  #startDue(): Promise<number> {
    const { catalog } = this.duties;
    if (!catalog) return Promise.resolve(0);
    this.#starting = this.#starting.catch(() => 0).then(() => within(startDue(this.env, catalog), START_LIMIT_MS));
    return this.#starting;
  }

  /** No pause is as long. */
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

/** What an app has for its keeper to do, beyond the engine's own repairs. */
export interface Duties {
  /** Its own tables, and how long their rows stay. */
  retention?: readonly Retention[];
  /** Its commands and queues: without them no schedule runs, and no queue is asked for its depth. */
  catalog?: Catalog;
  /** Readings of its own, for `/metrics` and alerts: asked once a round, so by index, and none of a tenant's texts in a label. */
  gauges?: AppGauges;
  /** What it says otherwise of the rules of alerts. Default: the engine's own rules. */
  alerts?: AlertChanges;
  /** What its own records say against each other, beside the engine's checks. */
  checks?: readonly Check[];
}

/**
 * The keeper of an app: `export class Keeper extends keeper({ catalog, retention, checks }) {}`. Errors: `config_invalid` for alerts that
 * cannot be told so.
 */
export function keeper(duties: Duties): typeof Keeper {
  const alertRules = changedRules(ALERT_RULES, duties.alerts);
  return class extends Keeper {
    /** The commands `dev` and `doctor` read it. */
    static readonly catalog = duties.catalog;
    protected override readonly duties = duties;
    protected override readonly alertRules = alertRules;
  };
}
