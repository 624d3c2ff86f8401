import { type Duration, durationInWords, durationMs } from "../contract/duration.ts";
import { issuesOf, subjectSchema } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import type { EventDefinition } from "../contract/message.ts";
import { logWait } from "../observe/instances.ts";
import { type Approval, answerEventType, approvalId, askQuestion, settleQuestion } from "../signals/approval.ts";
import { closeWait, registerWait, type WaitEnd, waitEventType } from "../signals/wait.ts";
import { type ApprovalRequest, askerAt, questionOf } from "./approve.ts";
import type { Place } from "../pass/step-call.ts";
import type { Platform } from "./platform.ts";
import type { Run } from "../pass/pass.ts";

const DEFAULT_TIMEOUT: Duration = "7 days";

/**
 * Waits for an event about a subject. Answers its envelope, as JSON. Errors: `wait_timeout`; `config_invalid` for an event that no route
 * signals, `invalid_payload` for a subject that no event can have.
 */
export async function awaitEvent(
  run: Run,
  platform: Platform,
  place: Place,
  { type, door }: Pick<EventDefinition, "type" | "door">,
  { subject, timeout = DEFAULT_TIMEOUT }: { subject: string; timeout?: Duration },
): Promise<string> {
  const timeoutMs = durationMs(timeout);
  const registered = await platform.do(place, {}, async () => {
    assertSignalled(run, type);
    assertSubject(place.label, subject);
    const stands = await registerWait(run, place.label, type, subject, timeoutMs);
    if ("leftMs" in stands) {
      const open = door !== undefined && door.scope !== null;
      logWait(run, { step: place.label, event_type: type, about: subject, open, until: timeIn(stands.leftMs) });
    }
    return stands;
  });
  const stands =
    "leftMs" in registered
      ? await platform.awaitOr(
          place,
          { what: "signal", eventType: waitEventType(run.instanceId, place.label), left: registered },
          (event: object): WaitEnd => ({ event: JSON.stringify(event) }),
          () => closeWait(run, place.label, timeoutMs),
        )
      : registered;
  if ("event" in stands) return stands.event;
  const error = new MillraceError("wait_timeout", `No event arrived for "${place.label}" within ${durationInWords(timeout)}.`);
  run.failures.noteEnd(place.label, error);
  throw error;
}

/** Asks a person, and waits for the answer or until the question's time is over. */
export async function askPerson(run: Run, platform: Platform, place: Place, request: ApprovalRequest): Promise<Approval> {
  const asker = askerAt(run, place);
  const id = approvalId(asker.instanceId, place.label);
  const asked = await platform.do(place, {}, async () => {
    const stands = await askQuestion(asker, questionOf(run.workflow, place, request));
    if ("leftMs" in stands) logWait(run, { step: place.label, approval_id: id, until: timeIn(stands.leftMs) });
    return stands;
  });
  if ("approved" in asked) return asked;
  return platform.awaitOr(
    place,
    { what: "answer", eventType: answerEventType(id), left: asked },
    (answer: Approval) => answer,
    () => settleQuestion(asker),
  );
}

/** Fails at once for an event that no route signals, instead of after the full timeout. Once that is mended, the retried step waits. */
function assertSignalled({ signalled }: Run, type: string): void {
  if (!signalled || signalled.has(type)) return;
  throw new MillraceError(
    "config_invalid",
    `No route signals "${type}" to the runs that wait for it: add signal() to its line in the routes, on(…, signal()), deploy, then retry.`,
  );
}

/** Refuses a subject that no event has: the wait would last for nothing. */
function assertSubject(label: string, subject: string): void {
  const { error } = subjectSchema.safeParse(subject);
  if (!error) return;
  const [issue] = issuesOf(error);
  throw new MillraceError(
    "invalid_payload",
    `"${label}" cannot wait: its subject ${issue?.message}. Give the text that its event will have.`,
  );
}

/** The time after so many milliseconds. */
function timeIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
