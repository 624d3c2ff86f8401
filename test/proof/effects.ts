import { env } from "cloudflare:workers";
import { defineStep, type EffectCall, errors, MillraceError, notRetryable, retryAfter, upstreamRefused } from "millrace";
import * as z from "zod";
import type { Done, StepDefinition } from "../../packages/millrace/src/guard/step.ts";
import type { LedgerEntry } from "../upstream/server.ts";
import { type Act, STEP_RETRIES, TIMEOUT_MS } from "./program.ts";
import { doneTo } from "./upstream.ts";

/** An effect's subject, and whether its response is large. */
interface Doing {
  subject: string;
  large: boolean;
}

/** The upstream's address. */
const UPSTREAM_URL = () => (env as unknown as { UPSTREAM_URL: string }).UPSTREAM_URL;

/** The timeout and retries of every step. */
export const QUICK = { retries: { limit: STEP_RETRIES, delay: 20, backoff: "constant" }, timeout: TIMEOUT_MS } as const;

const LARGE = 140_000;

/** The id from the upstream, without its padding. */
export const idIn = (output: string): string => output.split(".")[0] ?? "";

/** An output that is large enough to be stored by reference, or not. */
export const padded = (output: string, large = false): string => (large ? output.padEnd(LARGE, ".") : output);

/** Requests an effect of the upstream, and returns the upstream's id. */
async function act(method: string, kind: string, { input, key, signal }: EffectCall<Doing>): Promise<string> {
  const response = await fetch(`${UPSTREAM_URL()}/${kind}/${encodeURIComponent(input.subject)}`, {
    method,
    headers: { "idempotency-key": key },
    body: "{}",
    signal,
  });
  const said = `The upstream answered ${response.status}.`;
  if (response.status === 409) throw errors.inProgress(Number(response.headers.get("retry-after")) * 1000 || 50, said, 409);
  if (response.status === 429) throw retryAfter(50, said, 429);
  if (response.status === 422) throw notRetryable(said, 422);
  if (response.status >= 400 && response.status < 500) throw upstreamRefused(said, response.status);
  if (!response.ok) throw new MillraceError("unavailable", said, { upstreamStatus: response.status });
  return padded(((await response.json()) as { id: string }).id, input.large);
}

/** Asks the upstream whether it has executed the request with this key: an undone request had another key. */
async function find({ input, key, signal }: EffectCall<Doing>): Promise<string | undefined> {
  const response = await fetch(`${UPSTREAM_URL()}/ledger/${encodeURIComponent(input.subject)}`, { signal });
  const found = ((await response.json()) as LedgerEntry[]).find((one) => one.key === key);
  return found && padded(found.id, input.large);
}

const back = defineStep<Done<Doing, string>, unknown>({
  effect: "keyed",
  ...QUICK,
  async run({ input: { input, output }, ...call }) {
    // The output contains the id of the effect to undo.
    const done = await doneTo(UPSTREAM_URL(), input.subject);
    const last = done.at(-1)?.kind === "natural" ? done : done.slice(-1);
    if (!last.some(({ id }) => id === idIn(output ?? "")))
      throw notRetryable(`Of ${input.subject} "${idIn(output ?? "nothing")}" must be undone.`);
    return act("POST", "keyed", { ...call, input: { subject: `${input.subject}/back`, large: false } });
  },
});

const output = z.string();

const classes: Record<Act["do"], StepDefinition<Doing, string>> = {
  keyed: { effect: "keyed", output, ...QUICK, run: (call) => act("POST", "keyed", call) },
  natural: { effect: "natural", output, ...QUICK, run: (call) => act("PUT", "natural", call) },
  once: { effect: "once", output, ...QUICK, run: (call) => act("POST", "plain", call) },
  lookup: { effect: "lookup", output, ...QUICK, run: (call) => act("POST", "plain", call), lookup: find },
};

/** The definition of an effect; an effect without `stays` can be undone. */
export function definitionOf({ do: effectClass, stays }: Act): StepDefinition<Doing, string> {
  return defineStep(stays ? classes[effectClass] : { ...classes[effectClass], undo: back });
}
