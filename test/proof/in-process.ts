import { keeperOf } from "millrace/worker";
import { expect } from "vitest";
import { cellsOf } from "../../packages/millrace/src/contract/cells.ts";
import { deliver, probeEnv, retentionPass, until } from "../engine/harness.ts";
import { labPasses, labs } from "../probe/lab.ts";
import { app } from "../probe/worker.ts";
import { begunOf } from "./begun.ts";
import { everywhere, home } from "./cells.ts";
import { doorsOf } from "./doors.ts";
import { askAside, endLeasesBehind, leaked, standBetween, watch } from "./faults.ts";
import { codeFor } from "./interpret.ts";
import type { Manner } from "./manner.ts";
import { type Case, type Proof, trialOn } from "./prove.ts";
import type { Stage } from "./stage.ts";

/** The engine in the test's own process: single calls can be made to fail, and its keeper runs on request. */
const stageAt = (env: typeof probeEnv): Stage => {
  const rows = async <T>(sql: string, ...params: unknown[]): Promise<T[]> =>
    (
      await env.DB.prepare(sql)
        .bind(...params)
        .all<T>()
    ).results;
  const beginAgain = async (id: string) => (await askAside(id)).restart();
  return {
    ...doorsOf(env, app),
    repeats: false,
    upstreamUrl: probeEnv.UPSTREAM_URL,
    disturbedUntil: () => 0,
    watch,
    cast: ({ name, program }, runs) => void labs.set(name, codeFor(program, runs)),
    deliver,
    rows,
    everywhere,
    commitsBegun: async (name) => begunOf(`${name}/`),
    async platform(id) {
      return (await (await askAside(id)).status()) as { status: string; output?: unknown };
    },
    beginAgain,
    async restart(id) {
      const passes = labPasses.get(id) ?? 0;
      await beginAgain(id);
      void endLeasesBehind(id).catch(() => undefined);
      await until(
        async () => labPasses.get(id) ?? 0,
        (count) => count > passes,
      );
    },
    async growOld({ id, name }) {
      const agedMs = 40 * 86_400_000;
      await rows("UPDATE millrace_signals SET received_at = received_at - ?1 WHERE subject LIKE ?2", agedMs, `${name}/%`);
      await rows(
        `UPDATE millrace_instances SET accepted_at = accepted_at - ?1, updated_at = updated_at - ?1
       WHERE correlation_id = (SELECT correlation_id FROM millrace_instances WHERE id = ?2)`,
        agedMs,
        id,
      );
      await retentionPass(env);
    },
    async round() {
      for (const cell of cellsOf(env)) {
        await aPeriodLater(cell);
        await keeperOf(cell).round();
      }
    },
  };
};

const PERIOD_MS = 10_000;

/** Simulates that a period of the keeper has passed: its checks are due earlier by that period. A command's due time remains. */
async function aPeriodLater({ DB }: Pick<typeof probeEnv, "DB">): Promise<void> {
  await DB.batch(
    [
      `UPDATE millrace_instances SET check_at = max(check_at - ?1, iif(due_at > unixepoch('subsec') * 1000, due_at, 0))
       WHERE check_at IS NOT NULL`,
      "UPDATE millrace_outbox SET due_at = due_at - ?1",
      "UPDATE millrace_actions SET due_at = due_at - ?1 WHERE applied_at IS NULL",
    ].map((text) => DB.prepare(text).bind(PERIOD_MS)),
  );
}

/** The timeout of a phase while other tests run: with a tenth of a processor, its steps time out repeatedly. */
const MOST_MS = 300_000;

/** Runs a case in the test's own process. */
export async function trial(one: Case, manner?: Manner): Promise<Proof> {
  const proof = await trialOn(stageAt(home()), one, { mostMs: MOST_MS, ...manner });
  // Attributed to the first run that ends: the lines do not name their run.
  return { ...proof, problems: [...proof.problems, ...leaked.splice(0).map((line) => `a log line contains a payload: ${line}`)] };
}

/** Fails unless a case keeps every guarantee. */
export async function prove(one: Case): Promise<void> {
  await standBetween();
  const { problems } = await trial(one);
  expect(problems).toEqual([]);
}
