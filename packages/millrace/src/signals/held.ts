import { digest } from "../contract/ids.ts";

/** The platform's event type that wakes a paused run when it is resumed. */
export function resumeEventType(instanceId: string): string {
  return RESUME_EVENT + digest("resume", instanceId);
}

export function isResumeEvent(type: string): boolean {
  return type.startsWith(RESUME_EVENT);
}

const RESUME_EVENT = "resume-";

/** The result of a step that did not start, because an operator has paused the run. */
export interface Held {
  readonly held: true;
}

export const HELD: Held = { held: true };
