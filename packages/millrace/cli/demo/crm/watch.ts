import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../../command.ts";
import { paint, say, seconds } from "../../terminal.ts";
import type { Stage } from "../story.ts";
import type { CrmApi, Sync } from "./api.ts";
import { killAt } from "./people.ts";

/** The moment of a kill is met closely; for all else it is enough to see that something came. */
const KILL_LOOK_MS = 50;
const LOOK_EVERY_MS = 200;
const SAY_EVERY_MS = 4000;
const WITHIN_MS = 900_000;

/** Waits until something is there. Errors: a `Refusal` that says what was not. */
export async function until<T>({ stop }: Stage, look: () => Promise<T | undefined>, what: string, withinMs = 60_000): Promise<T> {
  for (const endsAt = Date.now() + withinMs; ; ) {
    stop.throwIfAborted();
    const seen = await look().catch(() => undefined);
    if (seen !== undefined) return seen;
    if (Date.now() > endsAt) throw new Refusal(`It did not happen within ${seconds(withinMs)} that ${what}.`);
    await sleep(LOOK_EVERY_MS);
  }
}

/** Follows a sync to its end, and kills the engine on the way. */
export async function watchAndKill(stage: Stage, api: () => CrmApi, id: string, expected: number, count: number): Promise<Sync> {
  const endsAt = Date.now() + WITHIN_MS;
  let kills = 0;
  let saidAt = Date.now();
  let said = "";
  for (;;) {
    stage.stop.throwIfAborted();
    if (Date.now() > endsAt) throw new Refusal(`The sync is not over after ${seconds(WITHIN_MS)}. The engine's log says more.`);
    await sleep(kills < expected ? KILL_LOOK_MS : LOOK_EVERY_MS);
    // An engine that has just been killed gives no answer.
    const sync = await api()
      .syncState(id)
      .catch(() => undefined);
    if (!sync) continue;
    const { done, failed, waiting, merged } = sync.contacts;
    const share = (done + failed + waiting + merged) / count;
    if (sync.error) throw new Refusal(`The sync stopped: ${sync.error.message}`);
    const stands = `  ${percent(share)}  ${done.toLocaleString("en-US")} contacts in the CRM${waiting > 0 ? `, ${waiting} put off` : ""}`;
    if (stands !== said && (Date.now() - saidAt > SAY_EVERY_MS || sync.state === "complete")) {
      saidAt = Date.now();
      said = stands;
      say(stands);
    }
    if (sync.state === "complete" && kills === expected) return sync;
    if (sync.state === "complete")
      throw new Refusal(`The sync was over after ${kills} of ${expected} kills. Give it more to do: --contacts 10000`);
    if (kills < expected && share > killAt(kills, expected)) {
      kills++;
      say(`  ${paint("red", `kill -9 at ${percent(share).trim()}`)}`);
      await stage.crash();
    }
  }
}

function percent(share: number): string {
  return `${Math.floor(100 * share)} %`.padStart(5);
}
