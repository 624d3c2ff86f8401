import { DurableObject } from "cloudflare:workers";
import type { EngineEnv } from "../contract/bindings.ts";
import { applyOpenActions } from "../operate/apply.ts";
import { startDue } from "../schedules/due.ts";
import type { Catalog } from "../topology/catalog.ts";
import { checkInstances } from "./check-instances.ts";
import { resendOutbox } from "./resend-outbox.ts";
import { ENGINE_RETENTION } from "./retention.ts";
import type { Retention } from "./rule.ts";
import { sweep } from "./sweep.ts";

/** Milliseconds between two rounds; `KEEPER_PERIOD_MS` in the env overrides it. */
const PERIOD_MS = 10_000;

/** What one round did. */
export interface Round {
  scheduled: number;
  applied: number;
  resent: number;
  checked: number;
  pruned: number;
}

/**
 * The self-repair clock: one object whose alarm survives every crash. Each round it finishes what a dead process left behind:
 * operator actions not yet carried out, messages committed and not confirmed, instances accepted and not started, lost, or ended unseen.
 */
export class Keeper extends DurableObject<EngineEnv & { KEEPER_PERIOD_MS?: string }> {
  protected readonly duties: Duties = {};
  /** One look at the clock at a time: the platform's cron asks for one too. */
  #starting: Promise<number> = Promise.resolve(0);

  /** Starts the clock if it does not run; every Worker isolate calls this once. */
  async arm(): Promise<void> {
    if ((await this.ctx.storage.getAlarm()) === null) await this.#next();
  }

  /** Starts what schedules have due; called by the platform's own cron as well, which comes each minute also where the alarm was lost. */
  startDue(): Promise<number> {
    const { catalog } = this.duties;
    if (!catalog) return Promise.resolve(0);
    this.#starting = this.#starting.catch(() => 0).then(() => startDue(this.env, catalog));
    return this.#starting;
  }

  override async alarm(): Promise<void> {
    try {
      await this.round();
    } finally {
      // Alarms are given up after six failures: a new one in every case keeps the clock going.
      await this.#next();
    }
  }

  /** One round. A part that fails is logged and leaves the others their turn; every part is safe to repeat. */
  async round(): Promise<Round> {
    const part = async (name: string, run: () => Promise<number>): Promise<number> => {
      try {
        return await run();
      } catch (error) {
        console.error(JSON.stringify({ log: "keeper", part: name, error: String(error) }));
        return 0;
      }
    };
    const rules = [...ENGINE_RETENTION, ...(this.duties.retention ?? [])];
    const did: Round = {
      scheduled: await part("schedules", () => this.startDue()),
      applied: await part("actions", () => applyOpenActions(this.env)),
      resent: await part("outbox", () => resendOutbox(this.env)),
      checked: await part("instances", () => checkInstances(this.env)),
      pruned: await part("retention", () => sweep(this.ctx.storage, this.env as unknown as Cloudflare.Env, rules)),
    };
    if (Object.values(did).some((count) => count > 0)) console.log(JSON.stringify({ log: "keeper", ...did }));
    return did;
  }

  #next(): Promise<void> {
    return this.ctx.storage.setAlarm(Date.now() + Number(this.env.KEEPER_PERIOD_MS ?? PERIOD_MS));
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
