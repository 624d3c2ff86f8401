import { DurableObject } from "cloudflare:workers";
import type { EngineEnv } from "../contract/bindings.ts";
import { within } from "../contract/within.ts";
import { applyOpenActions } from "../operate/apply.ts";
import { startDue } from "../schedules/due.ts";
import { isLocal } from "../store/local.ts";
import type { Catalog } from "../topology/catalog.ts";
import { checkInstances, startUnseen, wakeSleepers } from "./check-instances.ts";
import { resendOutbox } from "./resend-outbox.ts";
import { engineRetention } from "./retention.ts";
import { type Duty, type Round, runRound } from "./round.ts";
import type { Retention } from "./rule.ts";
import { sweep } from "./sweep.ts";

/** Milliseconds from the beginning of one round to that of the next; `KEEPER_PERIOD_MS` in the env overrides it. */
const PERIOD_MS = 10_000;
/** Longest look at the clock: one that hangs holds up none of the next. A command that two of them start has one key, and runs once. */
const START_LIMIT_MS = 20_000;
/** The pause to the next round where this one left work undone. */
const BREATH_MS = 500;

/**
 * The self-repair clock: one object whose alarm survives every crash. Each round it finishes what a dead process left behind: instances
 * accepted and not started, operator actions not yet carried out, messages committed and not confirmed, instances lost or ended unseen.
 */
export class Keeper extends DurableObject<EngineEnv & { KEEPER_PERIOD_MS?: string }> {
  protected readonly duties: Duties = {};
  /** One look at the clock at a time: the platform's cron asks for one too. */
  #starting: Promise<number> = Promise.resolve(0);
  #beganAt: number | undefined;
  #isLocal: boolean | undefined;

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

  override async alarm(): Promise<void> {
    const beganAt = Date.now();
    let more = false;
    try {
      ({ more } = await this.#round());
    } finally {
      // Alarms are given up after six failures: a new one in every case keeps the clock going.
      await this.#next(more ? BREATH_MS : Math.max(BREATH_MS, beganAt + this.#period() - Date.now()));
    }
  }

  /** One round, outside the clock's own. Answers how much each duty did. */
  async round(): Promise<Round["did"]> {
    return (await this.#round()).did;
  }

  async #round(): Promise<Round> {
    this.#beganAt = Date.now();
    const round = await runRound(this.#dutiesByUrgency());
    if (Object.values(round.did).some((count) => count > 0)) console.log(JSON.stringify({ log: "keeper", ...round.did }));
    return round;
  }

  /** Together they may take one period, so that the first duty's turn comes once in each. */
  #dutiesByUrgency(): Duty[] {
    const { env } = this;
    const all = (count: number) => ({ did: count, more: false });
    const rules = [...engineRetention(this.duties.catalog), ...(this.duties.retention ?? [])];
    return [
      { name: "started", budgetMs: 3000, portion: async () => startUnseen(env, await this.#local()) },
      { name: "applied", budgetMs: 1000, portion: () => applyOpenActions(env) },
      { name: "scheduled", budgetMs: 0, portion: () => this.#startDue().then(all) },
      { name: "resent", budgetMs: 1500, portion: () => resendOutbox(env) },
      { name: "checked", budgetMs: 2000, portion: async () => checkInstances(env, await this.#local()) },
      { name: "pruned", budgetMs: 0, portion: () => sweep(this.ctx.storage, env as unknown as Cloudflare.Env, rules).then(all) },
    ];
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
  /** Its commands: without them no schedule runs. */
  catalog?: Catalog;
}

/** The keeper of an app: `export class Keeper extends keeper({ catalog, retention }) {}`. */
export function keeper(duties: Duties): typeof Keeper {
  return class extends Keeper {
    protected override readonly duties = duties;
  };
}
