import { noteEffect } from "../contract/crash-points.ts";
import { type Duration, durationInWords, durationMs } from "../contract/duration.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { upstreamKey } from "../contract/ids.ts";
import { tracedCall } from "../observe/traces/call.ts";
import { advise } from "../replay/advice.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { EffectAttempt } from "./attempt.ts";
import { DEFAULT_TIMEOUT, type EffectCall, type Reporting } from "./step.ts";

export function callOf<Input, Output>(
  { replay, step, definition, attempt, nth, input }: EffectAttempt<Input, Output>,
  signal: AbortSignal,
): EffectCall<Input> {
  const { env, envelope: trace } = replay;
  const own = definition.effect === "keyed" ? definition.key?.(input) : undefined;
  const key = own ?? upstreamKey(env.MILLRACE_KEY, attempt.key);
  noteEffect({ class: definition.effect, key, asks: false });
  const { progress } = reportingOf(replay, step, nth);
  return { input, key, signal, trace, fetch: fetchWithin(replay, signal), env: env as unknown as Cloudflare.Env, progress };
}

export function reportingOf(replay: Replay, step: StepCall, nth: number): Reporting {
  return { progress: (report) => replay.progress.report(step, nth, report) };
}

/** Runs an effect. Advises the author if the step is `keyed` and its code did not read the key. */
export function noteKeyRead<Input, Output>(own: EffectAttempt<Input, Output>): (signal: AbortSignal) => Promise<Output> {
  const { replay, step, definition } = own;
  return async (signal) => {
    let isRead = false;
    const { key, ...call } = callOf(own, signal);
    const output = await definition.run({
      ...call,
      get key() {
        isRead = true;
        return key;
      },
    });
    if (definition.effect === "keyed" && !isRead) advise(replay, step.name, KEY_UNREAD);
    return output;
  };
}

const KEY_UNREAD =
  "The step is keyed, but its code did not read `key`: send it to the upstream as the idempotency key. If the upstream identifies the effect by your own id, return that id from the step's `key`. Otherwise give the step another effect class.";

function fetchWithin({ envelope: trace, inline }: Replay, signal: AbortSignal): typeof fetch {
  return (input, init) => {
    inline.noteCall();
    const request = new Request(input, init);
    const ended = AbortSignal.any(request.signal ? [request.signal, signal] : [signal]);
    return tracedCall(request, trace, (own) => fetch(own, { signal: ended })).catch((error) =>
      Promise.reject(ended.aborted ? error : unreached(request.url, error)),
    );
  };
}

/** A network error from the runtime does not name the host. The message adds host and port only, because the path may be secret. */
function unreached(url: string, cause: unknown): Error {
  return new Error(`${new URL(url).host} gave no answer: ${messageOf(cause)}`, { cause });
}

/** Runs an effect with the step's timeout. The timer is cleared, because a pending timer keeps the replay's context alive. */
export async function inTime<T>(
  { timeout = DEFAULT_TIMEOUT }: { timeout?: Duration },
  effect: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new MillraceError("step_timeout", `The effect did not end within ${durationInWords(timeout)}.`)),
    durationMs(timeout),
  );
  try {
    return await effect(controller.signal);
  } finally {
    clearTimeout(timer);
  }
}
