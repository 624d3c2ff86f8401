import { type EngineEnv, objectBinding, workflowBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { recorderNames } from "../contract/recorder-name.ts";
import { keeperOf } from "../keeper/client.ts";
import { handOver, pauseHandOver } from "../observe/metrics/count.ts";
import type { Recorder } from "../recorder/recorder.ts";
import { AT_REST, OVER } from "../store/instances/status.ts";

/** The state of an instance that has ended or waits for an operator. */
export interface Ended {
  /**
   * One of `complete`, `errored`, `terminated`, `dead` and `skipped`. While the instance waits for an operator, the status is `in_doubt` or
   * `paused`.
   */
  readonly status: string;
  /** The return value of the workflow. */
  readonly result: unknown;
  readonly error: { readonly code: string; readonly message: string; readonly step?: string } | null;
}

/**
 * Waits until an instance has ended, or until it can continue only after an operator's action. Errors: an `Error` with the status of an
 * instance that is still in progress after `withinMs` (default: 20 s).
 */
export async function untilEnded(env: EngineEnv, instanceId: string, { withinMs = 20_000 } = {}): Promise<Ended> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const row = await env.DB.prepare("SELECT workflow, status, error FROM millrace_instances WHERE id = ?1")
      .bind(instanceId)
      .first<{ workflow: string; status: string; error: string | null }>();
    const isLate = Date.now() > deadline;
    if (row && isAtEnd(row.status)) {
      const { status, output } = row.status === "complete" ? await platformOf(env, row.workflow, instanceId) : { status: "", output: null };
      // The database shows the end of an instance a moment before the platform does.
      if (row.status !== "complete" || status === "complete" || isLate) {
        return { status: row.status, result: output, error: row.error === null ? null : JSON.parse(row.error) };
      }
    } else if (isLate) {
      throw new Error(
        `The instance ${instanceId} has not ended after ${withinMs} ms: ${row ? `its status is ${row.status}` : "it has no row"}.`,
      );
    }
    await scheduler.wait(LOOK_MS);
  }
}

const LOOK_MS = 20;

/** True for a status that changes neither with time nor by an event. */
export const isAtEnd = (status: string): boolean => OVER.has(status) || (AT_REST.has(status) && status !== "waiting");

async function platformOf(env: EngineEnv, workflow: string, instanceId: string): Promise<{ status: string; output?: unknown }> {
  const instance = await workflowBinding(env, workflow).get(instanceId);
  return (await instance.status()) as { status: string; output?: unknown };
}

/**
 * Makes isolates keep their usage counts until `settleCounts` is called. Otherwise a timer would send the counts a second later, during the
 * next test. Call `holdCounts` once, in a setup file of the tests.
 */
export function holdCounts(): void {
  pauseHandOver();
}

/** Writes all usage counts so far, and makes the keeper merge and read these counts. The function waits for no timer. */
export async function settleCounts(env: EngineEnv): Promise<void> {
  await handOver(env);
  const objects = objectBinding(env, "RECORDER");
  for (const name of recorderNames(env)) {
    await (objects.get(objects.idFromName(name), placed(env)) as unknown as Pick<Recorder, "writeCounts">).writeCounts(true);
  }
  await keeperOf(env).readVitals();
}
