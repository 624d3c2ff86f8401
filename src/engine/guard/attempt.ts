import { durationMs } from "../contract/duration.ts";
import { upstreamKey } from "../contract/ids.ts";
import type { Attempt } from "../recorder/entry.ts";
import { claim, underLease } from "./claim.ts";
import { record, type Settled, stored } from "./record.ts";
import type { Place, Run } from "./run.ts";
import { DEFAULT_TIMEOUT, type EffectCall, type StepDefinition, type Writes } from "./step.ts";

/** One attempt at a guarded effect, by its class: look whether it is done, take the key if the class asks for that, run the effect, record. */
export async function attemptEffect<Input, Output>(
  run: Run,
  place: Place,
  platformAttempt: number,
  definition: StepDefinition<Input, Output>,
  input: Input,
  writes: (output: Output) => Writes,
): Promise<Settled> {
  const earlier = await run.earlier(place, platformAttempt);
  if (earlier?.state === "done") return stored(earlier);
  const attempt = run.attempt(place, definition.effect, earlier?.generation);

  if (definition.effect === "keyed" || definition.effect === "natural") {
    const output = await definition.run(effectCall(run, attempt, definition, input));
    return record(run, place, attempt, output, writes);
  }

  const claimed = await claim(run, place, attempt, input);
  if ("settled" in claimed) return claimed.settled;
  const done = await underLease(run, place, platformAttempt, claimed.attempt, definition, async (signal) => {
    const call = effectCall(run, claimed.attempt, definition, input, signal);
    const found = claimed.repeats && definition.effect === "lookup" ? await definition.lookup(call) : undefined;
    return found ?? (await definition.run(call));
  });
  return "settled" in done ? done.settled : record(run, place, claimed.attempt, done.output, writes);
}

/** One attempt at a commit: the rows, the messages and the output in one write. It needs no claim, because the write is the effect. */
export async function attemptCommit<Output>(
  run: Run,
  place: Place,
  platformAttempt: number,
  make: () => Writes & { output?: Output },
): Promise<Settled> {
  const earlier = await run.earlier(place, platformAttempt);
  if (earlier?.state === "done") return stored(earlier);
  const { output, ...writes } = make();
  return record(run, place, run.attempt(place, "commit", earlier?.generation), output, () => writes);
}

function effectCall<Input, Output>(
  run: Run,
  attempt: Attempt,
  definition: StepDefinition<Input, Output>,
  input: Input,
  lost?: AbortSignal,
): EffectCall<Input> {
  const timeout = AbortSignal.timeout(durationMs(definition.timeout ?? DEFAULT_TIMEOUT));
  return {
    input,
    key: upstreamKey(run.env.MILLRACE_KEY, attempt.key),
    signal: lost ? AbortSignal.any([timeout, lost]) : timeout,
    env: run.env as unknown as Cloudflare.Env,
  };
}
