import { digest } from "../contract/ids.ts";

/** The platform's event type that wakes a run which a person has paused, once it is resumed. */
export function resumeEventType(instanceId: string): string {
  return `resume-${digest("resume", instanceId)}`;
}
