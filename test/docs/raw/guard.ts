import type { WorkflowStep } from "cloudflare:workers";
import { Refused } from "./desk.ts";
import type { RawEnv } from "./env.ts";
import { relay } from "./relay.ts";

/** Longer than a step's time-out, so that no claim is taken over from an attempt that may still be at work. */
const LEASE_MS = 45_000;
const TIMEOUT_MS = 30_000;
const NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

export interface Effect<Output> {
  class: "lookup" | "once";
  retries: { limit: number; delay: number; backoff: "constant" };
  input: unknown;
  run: (signal: AbortSignal) => Promise<Output>;
  /** The output of an earlier attempt; undefined if it certainly did not happen. */
  lookup?: (signal: AbortSignal) => Promise<Output | undefined>;
  /** The rows written with the outcome, in the same batch. */
  writes?: (output: Output) => D1PreparedStatement[];
}

interface Entry {
  state: "claimed" | "failed" | "in_doubt" | "confirmed" | "done";
  epoch: number;
  token: string;
  repeats: number;
  lease_left: number;
  output: string | null;
}

type Settled = { output: string } | { inDoubt: string };

// A fresh key is claimed, and so is one with an effect that certainly did not happen, and one with an expired claim: then a `lookup`
// must query first, and a `once` is in doubt. Every takeover increments the epoch.
const CLAIM = `
  INSERT INTO effects (command_id, step, class, state, epoch, token, lease_until, input)
  VALUES (?1, ?2, ?3, 'claimed', 1, ?4, ${NOW} + ${LEASE_MS}, ?5)
  ON CONFLICT (command_id, step) DO UPDATE SET
    state = iif(effects.state = 'claimed' AND effects.class = 'once', 'in_doubt', 'claimed'),
    repeats = max(effects.repeats, effects.state = 'claimed'),
    epoch = effects.epoch + 1, token = excluded.token, lease_until = excluded.lease_until
  WHERE effects.state = 'failed' OR (effects.state = 'claimed' AND effects.lease_until <= ${NOW})`;
const ANNOUNCE = `
  UPDATE commands SET status = iif((SELECT state FROM effects WHERE command_id = ?1 AND step = ?2) = 'in_doubt', 'in_doubt', 'running')
  WHERE id = ?1 AND status IN ('accepted', 'queued', 'running')`;
const ENTRY = `SELECT state, epoch, token, repeats, lease_until - ${NOW} AS lease_left, output FROM effects WHERE command_id = ?1 AND step = ?2`;
const RECORD = `
  UPDATE effects SET state = iif(token = ?3 AND epoch = ?4 AND state IN ('claimed', 'confirmed'), 'done', NULL), output = ?5, error = NULL
  WHERE command_id = ?1 AND step = ?2`;
const GIVE_UP = `
  UPDATE effects SET state = ?5, lease_until = 0, error = ?6
  WHERE command_id = ?1 AND step = ?2 AND token = ?3 AND epoch = ?4 AND state = 'claimed'`;

/** Runs one effect of a command, with the guarantee of its class; an unknown outcome parks the instance until it is resolved. */
export async function guarded<Output>(
  env: RawEnv,
  step: WorkflowStep,
  commandId: string,
  name: string,
  effect: Effect<Output>,
): Promise<Output> {
  for (let round = 0; ; round++) {
    const label = round === 0 ? name : `${name} · after doubt ${round}`;
    const config = { retries: effect.retries, timeout: LEASE_MS };
    const settled = await step.do(label, config, () => attempt(env, commandId, name, effect));
    if ("output" in settled) return JSON.parse(settled.output) as Output;
    await step.waitForEvent(`${label} · in doubt`, { type: settled.inDoubt, timeout: "365 days" });
  }
}

async function attempt<Output>(env: RawEnv, commandId: string, name: string, effect: Effect<Output>): Promise<Settled> {
  const entry = await claim(env, commandId, name, effect);
  if ("settled" in entry) return entry.settled;
  if (entry.state === "confirmed") return record(env, commandId, name, entry, JSON.parse(entry.output ?? "null"), effect);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  let output: Output;
  try {
    const found = entry.repeats === 1 ? await effect.lookup?.(signal) : undefined;
    output = found ?? (await effect.run(signal));
  } catch (error) {
    // A refusal frees the key. Otherwise the outcome is unknown: a `lookup` keeps an expired claim, a `once` waits for an operator.
    const ending = error instanceof Refused ? "failed" : effect.class === "once" ? "in_doubt" : "claimed";
    const failure = { step: name, message: String(error), upstream_status: error instanceof Refused ? error.status : null };
    await env.DB.batch([
      env.DB.prepare(GIVE_UP).bind(commandId, name, entry.token, entry.epoch, ending, JSON.stringify(failure)),
      env.DB.prepare(ANNOUNCE).bind(commandId, name),
    ]);
    if (ending === "in_doubt") return { inDoubt: doubtType(name, entry.epoch) };
    throw error;
  }
  return record(env, commandId, name, entry, output, effect);
}

async function claim<Output>(env: RawEnv, commandId: string, name: string, effect: Effect<Output>): Promise<Entry | { settled: Settled }> {
  const token = crypto.randomUUID();
  for (;;) {
    const [, , found] = await env.DB.batch<Entry>([
      env.DB.prepare(CLAIM).bind(commandId, name, effect.class, token, JSON.stringify(effect.input)),
      env.DB.prepare(ANNOUNCE).bind(commandId, name),
      env.DB.prepare(ENTRY).bind(commandId, name),
    ]);
    const entry = found?.results[0];
    if (!entry) throw new Error(`The effect "${name}" has no row.`);
    if (entry.state === "done") return { settled: { output: entry.output ?? "null" } };
    if (entry.state === "in_doubt") return { settled: { inDoubt: doubtType(name, entry.epoch) } };
    if (entry.token === token || entry.state === "confirmed") return entry;
    await scheduler.wait(Math.min(Math.max(20, entry.lease_left), 1000));
  }
}

/** Writes the outcome, the rows and the events together. If another attempt was first, its output is the truth. */
async function record<Output>(
  env: RawEnv,
  commandId: string,
  name: string,
  { token, epoch }: Entry,
  output: Output,
  { writes }: Effect<Output>,
): Promise<Settled> {
  let truth = JSON.stringify(output ?? null);
  const recorded = env.DB.prepare(RECORD).bind(commandId, name, token, epoch, truth);
  try {
    await env.DB.batch([recorded, ...(writes?.(output) ?? [])]);
  } catch (error) {
    // Refused by the fence, or the answer of a successful write was lost: the row decides.
    const entry = await env.DB.prepare(ENTRY).bind(commandId, name).first<Entry>();
    if (entry?.state !== "done") throw error;
    truth = entry.output ?? "null";
  }
  // A message lost here is sent again by the sweep.
  await relay(env, commandId).catch(() => undefined);
  return { output: truth };
}

/** Each unknown outcome has its own event name: the platform may deliver an old event again after a restart. */
export function doubtType(step: string, epoch: number): string {
  return `resolved-${step.replaceAll(/[^a-z]+/g, "-")}-${epoch}`;
}
