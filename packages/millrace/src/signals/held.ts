import { digest } from "../contract/ids.ts";

/** The platform's event type that wakes a run which a person has paused, once it is resumed. */
export function resumeEventType(instanceId: string): string {
  return RESUME_EVENT + digest("resume", instanceId);
}

/** True for such an event type. */
export function isResumeEvent(type: string): boolean {
  return type.startsWith(RESUME_EVENT);
}

const RESUME_EVENT = "resume-";

/** How a step stands that did not begin, because a person holds the run. */
export interface Held {
  readonly held: true;
}

export const HELD: Held = { held: true };
