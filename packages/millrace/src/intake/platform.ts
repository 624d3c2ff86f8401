import { workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import type { PlatformStepName } from "../contract/told-error.ts";
import { within } from "../contract/within.ts";

export interface PlatformAnswer {
  /**
   * Cloudflare's status of the instance; `unknown` when the platform has no such instance, `unreachable` when the platform does not answer
   * in time.
   */
  status: InstanceStatus["status"] | "unreachable";
  error: string | null;
  /** The result of a complete run. */
  output: unknown;
  /** The platform's handle of the instance; null if the platform has no such instance. */
  instance: WorkflowInstance | null;
}

/**
 * Wakes a run on the local platform by an event, because the local platform continues a run of a killed process only after an event. No
 * wait of the engine waits for this event type. In production the platform wakes such a run itself.
 */
export async function nudge(instance: WorkflowInstance): Promise<void> {
  await within(instance.sendEvent({ type: "keeper-nudge", payload: {} }));
}

/**
 * Restarts an instance on the platform from a step, or from the beginning. A step that failed before its first attempt is unknown to the
 * platform. Then the run restarts from the beginning, and the guarded steps return the recorded results.
 */
export async function restartFrom(
  instance: WorkflowInstance,
  from: { name: string; type?: PlatformStepName["type"] } | undefined,
): Promise<void> {
  await within(from ? instance.restart({ from }).catch(() => instance.restart()) : instance.restart());
}

/**
 * The platform's status of an instance. Only the error "no such instance" means that the instance is lost. All other errors do not show
 * whether the instance exists.
 */
export async function askPlatform(env: object, workflow: string, id: string): Promise<PlatformAnswer> {
  try {
    const asked = async () => {
      const instance = await workflowBinding(env, workflow).get(id);
      return { instance, ...(await instance.status()) };
    };
    const { instance, status, error, output } = await within(asked());
    return { status, error: error?.message ?? null, output, instance: status === "unknown" ? null : instance };
  } catch (error) {
    const lost = /not.?found|does not exist|never started/i.test(messageOf(error));
    return { status: lost ? "unknown" : "unreachable", error: messageOf(error), output: undefined, instance: null };
  }
}
