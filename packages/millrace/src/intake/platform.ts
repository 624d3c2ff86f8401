import { workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import type { PlatformStepName } from "../contract/told-error.ts";
import { within } from "../contract/within.ts";

export interface PlatformAnswer {
  /** Cloudflare's own status; `unknown` when it has no such instance, `unreachable` without an answer. */
  status: InstanceStatus["status"] | "unreachable";
  error: string | null;
  /** The output of a complete run. */
  output: unknown;
  /** The handle, if there is such an instance. */
  instance: WorkflowInstance | null;
}

/**
 * Wakes a run on the local platform, which does not continue a run after its process was killed until it receives an event. No wait uses
 * this event type. In production the platform wakes such a run itself.
 */
export async function nudge(instance: WorkflowInstance): Promise<void> {
  await within(instance.sendEvent({ type: "keeper-nudge", payload: {} }));
}

/**
 * Restarts an instance on the platform from a step, or from the beginning. A step that failed before its first attempt is unknown to the
 * platform and cannot be the start: then the run restarts from the beginning, and guarded steps return their recorded results.
 */
export async function restartFrom(
  instance: WorkflowInstance,
  from: { name: string; type?: PlatformStepName["type"] } | undefined,
): Promise<void> {
  await within(from ? instance.restart({ from }).catch(() => instance.restart()) : instance.restart());
}

/** The platform's status of an instance. Only "no such instance" means that it is lost; other errors give no information. */
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
