import { defineStep, type Steps } from "millrace";
import { instances } from "millrace/operate";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { acceptance } from "../../../packages/millrace/src/intake/accept/accept.ts";
import { outgoing } from "../../../packages/millrace/src/recorder/proof.ts";
import { dieAt, envelopeOf, fresh, keeperRound, operator, probeEnv, rows, until } from "../harness.ts";
import { held, runLab } from "../lab.ts";
import { ONCE } from "./operating.ts";

export type Class = "keyed" | "natural" | "lookup" | "once";

/**
 * A run's name and the log of its effects and undos. A `slow` effect waits for `go` after it happened. While `lose` is set, effects
 * happen and their answers are lost.
 */
export interface Scene {
  readonly name: string;
  readonly log: string[];
  readonly state: { go: boolean; lose: boolean };
  act(step: Steps, what: "a" | "b" | "c", of?: Class, how?: "slow"): Promise<unknown>;
}

export function scene(): Scene {
  const log: string[] = [];
  const state = { go: false, lose: false };
  const act: Scene["act"] = (step, what, of = "natural", how) => {
    const undo = defineStep<Done<unknown, unknown>, unknown>({
      effect: "natural",
      ...ONCE,
      run: async ({ input }) => log.push(`undo ${what}(${String(input.output)})`),
    });
    const run = async () => {
      // An upstream that honours the key does nothing for the second request.
      if (of === "natural" || of === "once" || !log.includes(what)) log.push(what);
      if (how === "slow") await held(() => state.go);
      if (state.lose) throw new Error("The answer was lost.");
      return `its ${what}`;
    };
    const found = async () => (log.includes(what) ? `its ${what}` : undefined);
    const more = { run, undo, timeout: 20_000, retries: { limit: 3, delay: "1 hour" as const } };
    return step.effect(
      what,
      of === "lookup" ? defineStep({ effect: of, lookup: found, ...more }) : defineStep({ effect: of, ...more }),
      {},
    );
  };
  return { name: fresh("lab"), log, state, act };
}

export async function play(of: Scene, code: (step: Steps) => Promise<unknown>): Promise<string> {
  const { instanceId } = await runLab(({ step }) => code(step), { name: of.name });
  return instanceId;
}

/**
 * Accepts the command and returns its queue message without delivering it. The message is dated ten seconds back, as if it had waited
 * in the queue.
 */
export async function waiting(of: Scene, code: (step: Steps) => Promise<unknown>): Promise<{ id: string; message: unknown }> {
  // The first replay in an isolate always reads its row.
  const first = scene();
  await play(first, (step) => first.act(step, "a"));
  await comes(() => first.log.length > 0);
  dieAt("A03 accept committed, not enqueued");
  await play(of, code).catch(() => undefined);
  const [{ id } = { id: "" }] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", of.name);
  const created_at = new Date(Date.now() - 10_000).toISOString();
  const { body } = outgoing(
    probeEnv.MILLRACE_KEY,
    acceptance({ name: "lab" }, { ...(await envelopeOf(id)), created_at }, "probe-commands"),
  );
  return { id, message: JSON.parse(body) };
}

/** Runs rounds of the keeper until the instance has one of these statuses, and returns it. */
export function kept(id: string, ...statuses: string[]): Promise<string> {
  return until(
    async () => {
      const { status } = await instances.get(probeEnv, operator, id);
      if (!statuses.includes(status)) await keeperRound();
      return (await instances.get(probeEnv, operator, id)).status as string;
    },
    (status) => statuses.includes(status),
  );
}

/** Waits until the condition holds. */
export const comes = (is: () => boolean | Promise<boolean>) => until(async () => is(), Boolean);
