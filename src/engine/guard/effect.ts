import * as z from "zod";
import { isSimulatedDeath } from "../contract/crash-points.ts";
import { type Duration, durationInWords, durationMs } from "../contract/duration.ts";
import { codeOf, type ErrorCode, MillraceError, messageOf } from "../contract/errors.ts";
import { formatEntryKey, upstreamKey } from "../contract/ids.ts";
import { beginning } from "../contract/text.ts";
import { type TraceContext, traceHeaders } from "../contract/trace.ts";
import { logAttempt } from "../observe/instances.ts";
import type { Attempt, Entry } from "../store/inbox/entry.ts";
import { advise, inDevelopment } from "../pass/advice.ts";
import { claim, underLease } from "./claim.ts";
import { describeFailure } from "../pass/failure.ts";
import { type PackedOutput, unpackOutput } from "./output.ts";
import { patiently } from "../pass/patiently.ts";
import type { Place } from "../pass/step-call.ts";
import { record, type Settled, stored } from "./record.ts";
import type { Run } from "../pass/pass.ts";
import { assertNotGivenUp, type Commit, DEFAULT_TIMEOUT, type EffectCall, type StepDefinition, type Writes } from "./step.ts";
import { asWrites } from "./writes.ts";

/**
 * One attempt at a guarded effect, by its class: look whether it is done, take the key if the class asks for that, run the effect, record.
 */
export async function attemptEffect<Input, Output>(
  run: Run,
  place: Place,
  platformAttempt: number,
  definition: StepDefinition<Input, Output>,
  input: Input,
  writes: (output: Output) => Writes,
): Promise<Settled> {
  const since = Date.now();
  const earlier = await run.earlier(place, platformAttempt);
  if (earlier?.state === "done") return stored(run.instanceId, earlier);
  run.which.assertNotComplete();
  const attempt = run.attempt(place, definition.effect, earlier?.generation);
  if (earlier?.state === "in_doubt") return { inDoubt: formatEntryKey(attempt.key) };
  if (earlier?.state === "confirmed") return adopt(run, place, platformAttempt, attempt, earlier, definition, writes);

  if (definition.effect === "keyed" || definition.effect === "natural") {
    assertNotGivenUp(since, definition.timeout);
    const asked = { key: false };
    const output = await inTime(definition, (signal) => {
      const call = keyed(effectCall(run, attempt, input, signal), definition);
      return definition.run(definition.effect === "keyed" && inDevelopment(run.env) ? noting(call, asked) : call);
    });
    if (definition.effect === "keyed" && !asked.key && inDevelopment(run.env)) advise(run, place.name, KEY_UNREAD);
    return record(run, place, attempt, output, writes);
  }

  const claimed = await claim(run, place, attempt, input);
  if ("settled" in claimed) return claimed.settled;
  if ("confirmed" in claimed) return adopt(run, place, platformAttempt, attempt, claimed.confirmed, definition, writes);
  const done = await underLease(run, place, platformAttempt, { ...claimed, since }, definition, (lease) =>
    inTime(definition, async (signal) => {
      const call = effectCall(run, claimed.attempt, input, AbortSignal.any([signal, lease.lost]));
      if (claimed.repeats && definition.effect === "lookup") {
        await lease.goOn("ask");
        const found = await definition.lookup(call);
        if (found !== undefined && found !== null) return found;
      }
      await lease.goOn("act");
      return definition.run(call);
    }),
  );
  if ("settled" in done) return done.settled;
  try {
    return await record(run, place, claimed.attempt, done.output, writes);
  } catch (error) {
    if (definition.effect !== "once" || isSimulatedDeath(error) || PASSING.has(codeOf(error))) throw error;
    return doubtUnwritten(run, place, platformAttempt, claimed.attempt, done.output, error);
  }
}

/** Errors of recording that say nothing of what was to be recorded, or were recorded themselves. */
const PASSING: ReadonlySet<ErrorCode | undefined> = new Set(["lease_lost", "unavailable", "output_too_large", "output_not_serializable"]);

/**
 * A `once` effect that happened, and whose rows and messages cannot be written: in doubt at once, with what it answered and what is wrong,
 * for a person to confirm once that is mended.
 */
async function doubtUnwritten(
  run: Run,
  place: Place,
  platformAttempt: number,
  attempt: Attempt,
  output: unknown,
  cause: unknown,
): Promise<Settled> {
  const answered = beginning(JSON.stringify(output) ?? "nothing", 300);
  const why = beginning(messageOf(cause), 400);
  const said = `It happened and answered ${answered}, but what is recorded with that could not be: ${why}`;
  return putInDoubt(run, place, platformAttempt, attempt, `${said} Mend the code, then confirm it with that output.`);
}

/** Ends an attempt that holds its entry in doubt, with a sentence for the person who has to look. */
async function putInDoubt(run: Run, { label }: Place, platformAttempt: number, attempt: Attempt, said: string): Promise<Settled> {
  const doubt = new MillraceError("in_doubt", said);
  const failure = describeFailure(label, platformAttempt, doubt);
  logAttempt(run, failure, "in_doubt", doubt);
  await run.recorder.giveUp(attempt, "in_doubt", JSON.stringify(failure));
  return { inDoubt: formatEntryKey(attempt.key) };
}

/**
 * Records what a person said the effect's output was, as the attempt would have recorded its own: with the rows and messages that belong to
 * it. An output that those cannot be made from is in doubt again, with what is wrong with it.
 */
async function adopt<Input, Output>(
  run: Run,
  place: Place,
  platformAttempt: number,
  own: Attempt,
  entry: Entry,
  { output: schema }: StepDefinition<Input, Output>,
  writes: (output: Output) => Writes,
): Promise<Settled> {
  const attempt = { ...own, key: { ...own.key, generation: entry.generation }, token: entry.token, epoch: entry.epoch };
  const given = (await unpackOutput(run.env.PAYLOADS, { output: entry.output, outputRef: entry.output_ref })) as Output;
  let output: Output;
  let made: Writes;
  try {
    output = schema ? await schema.parseAsync(given) : given;
    made = writes(output);
  } catch (cause) {
    const why = cause instanceof z.ZodError ? z.prettifyError(cause) : messageOf(cause);
    const said = `The output that was confirmed is none of "${place.label}": ${why}. Confirm it with one that is.`;
    return putInDoubt(run, place, platformAttempt, attempt, said);
  }
  return record(run, place, attempt, output, () => made);
}

/**
 * One attempt at a commit: the rows, the messages and the output in one write. It needs no claim, because the write is the effect; whatever
 * `make` reads before it may be read again. One that the platform has given up meanwhile writes nothing: somebody may have gone on without
 * (see `fenceCommit`).
 */
export async function attemptCommit<Output>(
  run: Run,
  place: Place,
  platformAttempt: number,
  make: () => Commit<Output> | Promise<Commit<Output>>,
  timeout: Duration = DEFAULT_TIMEOUT,
): Promise<Settled> {
  const since = Date.now();
  const earlier = await run.earlier(place, platformAttempt);
  if (earlier?.state === "done") return stored(run.instanceId, earlier);
  run.which.assertNotComplete();
  const { output, ...writes } = asWrites(await make(), place.label);
  assertNotGivenUp(since, timeout);
  const attempt = { ...run.attempt(place, "commit", earlier?.generation), epoch: earlier?.epoch ?? 1 };
  return record(run, place, attempt, output as Output, () => writes);
}

/**
 * What a commit wrote that the platform has given up, and did not hear of. If its last attempt still hangs, nothing of it is written any
 * more from now on.
 */
export async function writtenBy(run: Run, place: Place, hangs: boolean): Promise<PackedOutput | undefined> {
  const look = async () => {
    const seen = (await run.entries(hangs)).findLast(({ step, item }) => step === place.name && item === place.item);
    if (hangs) return run.recorder.fence({ ...run.attempt(place, "commit", seen?.generation), aloneAs: null });
    return seen && run.whole(seen);
  };
  const entry = await patiently(look);
  return entry?.state === "done" ? stored(run.instanceId, entry) : undefined;
}

function effectCall<Input>(run: Run, attempt: Attempt, input: Input, signal: AbortSignal): EffectCall<Input> {
  const { env, envelope: trace } = run;
  const key = upstreamKey(env.MILLRACE_KEY, attempt.key);
  return { input, key, signal, trace, fetch: fetchWithin(trace, signal), env: env as unknown as Cloudflare.Env };
}

const KEY_UNREAD =
  "It is keyed, and its code did not read `key`: send it to the upstream as its idempotency key; where that knows the effect by an id of your own, say so in the step's `key`; or give the step the class that is true of it.";

/** A call with the key that its step knows itself, if it says so. */
function keyed<Input, Output>(call: EffectCall<Input>, definition: StepDefinition<Input, Output>): EffectCall<Input> {
  return definition.effect === "keyed" && definition.key ? { ...call, key: definition.key(call.input) } : call;
}

/** A call that notes whether its key is read. */
function noting<Input>(call: EffectCall<Input>, asked: { key: boolean }): EffectCall<Input> {
  const { key } = call;
  return {
    ...call,
    get key() {
      asked.key = true;
      return key;
    },
  };
}

/** `fetch` as a step's code is given it. A header that the code sets itself, and a signal of its own, count too. */
function fetchWithin(trace: TraceContext, signal: AbortSignal): typeof fetch {
  return (input, init) => {
    const request = new Request(input, init);
    for (const [name, value] of Object.entries(traceHeaders(trace))) if (!request.headers.has(name)) request.headers.set(name, value);
    const ended = AbortSignal.any(request.signal ? [request.signal, signal] : [signal]);
    return fetch(request, { signal: ended }).catch((error) => Promise.reject(ended.aborted ? error : unreached(request.url, error)));
  };
}

/** No answer came. The runtime does not say from whom: host and port do, and what stands behind them may be secret. */
function unreached(url: string, cause: unknown): Error {
  return new Error(`${new URL(url).host} gave no answer: ${messageOf(cause)}`, { cause });
}

/**
 * Runs an effect with a signal that aborts when its step's time is up. The timer goes with the effect: one left behind would keep the run's
 * context alive.
 */
async function inTime<Input, Output, T>(
  { timeout = DEFAULT_TIMEOUT }: StepDefinition<Input, Output>,
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
