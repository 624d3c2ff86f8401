import { assertDeclared } from "../contract/declared.ts";
import { type Duration, durationInWords, durationMs, isNoLength, YEAR_MS } from "../contract/duration.ts";
import { issuesOf, subjectSchema } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { logWait } from "../observe/log/instances.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import { type Approval, answerEventType, approvalId, askQuestion, settleQuestion } from "../signals/approval.ts";
import { closeWait, registerWait, type WaitEnd, waitEventType } from "../signals/wait.ts";
import { type ApprovalRequest, askerAt, questionOf } from "./approve.ts";
import type { Platform } from "./platform.ts";
import type { EventRequest } from "./step-behaviour.ts";

interface At {
  readonly replay: Replay;
  readonly platform: Platform;
  readonly step: StepCall;
}

const DEFAULT_TIMEOUT: Duration = "7 days";

/**
 * Waits for an event with a subject. The function returns the event's envelope as JSON. Errors: `wait_timeout`; `config_invalid` if no
 * route signals the event; `invalid_payload` if the subject is malformed.
 */
export async function awaitEvent(
  { replay, platform, step }: At,
  { event: { type, access }, subject, timeout = DEFAULT_TIMEOUT }: EventRequest,
  signalled: ReadonlySet<string>,
): Promise<string> {
  const timeoutMs = lastingMs(replay, step.label, timeout);
  const registered = await platform.holds.begin(step, async () => {
    assertSignalled(signalled, type);
    assertSubject(step.label, subject);
    await replay.keepCaught(step);
    const stands = await registerWait(replay, await replay.run.number(), step.label, type, subject, timeoutMs);
    if ("leftMs" in stands) {
      const open = access !== undefined && access.scope !== null;
      logWait(replay, { step: step.label, event_type: type, about: subject, open, until: timeIn(stands.leftMs) });
    }
    return stands;
  });
  const stands =
    "leftMs" in registered
      ? await platform.holds.awaitOr(
          step,
          { part: "signal", eventType: waitEventType(replay.instanceId, step.label), left: registered },
          (event: object): WaitEnd => ({ event: JSON.stringify(event) }),
          () => closeWait(replay, step.label, timeoutMs),
        )
      : registered;
  if ("event" in stands) return stands.event;
  const error = new MillraceError("wait_timeout", `No event arrived for "${step.label}" within ${durationInWords(timeout)}.`);
  replay.failures.noteEnd(step.label, error);
  throw error;
}

export async function askPerson({ replay, platform, step }: At, request: ApprovalRequest): Promise<Approval> {
  const asker = askerAt(replay, step);
  const id = approvalId(asker.instanceId, step.label);
  const asked = await platform.holds.begin(step, async () => {
    const question = questionOf(replay.workflow, step, request);
    await replay.keepCaught(step);
    const stands = await askQuestion(asker, { ...question, run: await replay.run.number() });
    if ("leftMs" in stands) logWait(replay, { step: step.label, approval_id: id, until: timeIn(stands.leftMs) });
    return stands;
  });
  if ("approved" in asked) return asked;
  return platform.holds.awaitOr(
    step,
    { part: "answer", eventType: answerEventType(id), left: asked },
    (answer: Approval) => answer,
    () => settleQuestion(asker),
  );
}

/**
 * Throws an error at once if no route signals the event of a wait, because otherwise the wait would fail only after the full timeout. If a
 * later deployment adds the route, a retry of the step waits for the event.
 */
function assertSignalled(signalled: ReadonlySet<string>, type: string): void {
  if (signalled.has(type)) return;
  throw new MillraceError(
    "config_invalid",
    `No route signals "${type}" to waiting runs: add signal() to its route, on(…, signal()), deploy, then retry.`,
  );
}

/**
 * Returns the duration of a wait in milliseconds. An invalid duration makes the waiting step fail. It does not make the replay fail between
 * steps. Errors: `config_invalid`.
 */
export function lastingMs(replay: Replay, label: string, duration: Duration): number {
  try {
    assertDeclared(!isNoLength(duration), `"${label}" has a duration of ${duration} ms. ${FROM_CLOCK}`);
    const ms = durationMs(duration);
    assertDeclared(
      ms <= YEAR_MS,
      `"${label}" waits for ${durationInWords(duration)}, but the platform's longest wait is 365 days: use a shorter duration.`,
    );
    return ms;
  } catch (error) {
    replay.failures.noteEnd(label, error);
    throw error;
  }
}

const FROM_CLOCK =
  "Do not compute a duration from the clock outside a step: each replay computes another value. Compute it in a step, which records its output: " +
  'const ms = await step.read("time left", async () => Math.max(0, dueAt - Date.now())).';

/** Refuses a malformed subject of a wait, because no event could match such a subject. */
function assertSubject(label: string, subject: string): void {
  const { error } = subjectSchema.safeParse(subject);
  if (!error) return;
  const [issue] = issuesOf(error);
  throw new MillraceError(
    "invalid_payload",
    `The subject of the wait "${label}" is invalid: it ${issue?.message}. Use the subject that the event will have.`,
  );
}

function timeIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
