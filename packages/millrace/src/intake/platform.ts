import { workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import type { PlatformStepName } from "../contract/told-error.ts";
import { within } from "../contract/within.ts";

/** What the platform says of an instance. */
export interface PlatformAnswer {
  /** Cloudflare's own status; `unknown` when it has no such instance, `unreachable` when it did not say. */
  status: InstanceStatus["status"] | "unreachable";
  error: string | null;
  /** What a complete run returned. */
  output: unknown;
  /** The handle, if there is such an instance. */
  instance: WorkflowInstance | null;
}

/**
 * Wakes a run of the local platform, which leaves one that a killed process was at where it stood until something is sent to it. Any event
 * will do; nobody waits for this one. Deployed, the platform wakes such a run by itself.
 */
export async function nudge(instance: WorkflowInstance): Promise<void> {
  await within(instance.sendEvent({ type: "keeper-nudge", payload: {} }));
}

/**
 * Has the platform run an instance again from a step, or from its beginning. A step that the platform does not remember (it failed before
 * its first attempt) cannot be restarted from: the beginning can, and guarded steps answer from the inbox.
 */
export async function restartFrom(
  instance: WorkflowInstance,
  from: { name: string; type?: PlatformStepName["type"] } | undefined,
): Promise<void> {
  await within(from ? instance.restart({ from }).catch(() => instance.restart()) : instance.restart());
}

/** Asks the platform about an instance. Only "there is no such instance" means that it is lost; any other trouble says nothing about it. */
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
