import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LedgerEntry } from "../upstream/server.ts";
import { startUpstream } from "../upstream/start.ts";
import { type ChaosCommand, writeCommands } from "./commands.ts";
import { ChaosEngine } from "./engine.ts";
import { heal, settledAccount } from "./healing.ts";
import { getJson, postJson } from "./http.ts";
import { type Fault, judge, type Verdict } from "./judge.ts";
import { answerDoubts } from "./operator.ts";
import { randomFrom } from "./random.ts";
import { killWhileWorking } from "./storm.ts";
import type { Account } from "./worker.ts";

export interface ChaosOptions {
  kills: number;
  commands: number;
  seed: number;
  /** Told what happens, one calm line at a time. */
  say?: (line: string) => void;
}

/** The outcome of a run, as `--json` prints it. */
export interface ChaosResult {
  seed: number;
  kills: number;
  commands: number;
  /** Effects of the once-only classes in the upstream's ledger when the engine had healed. */
  effects: number;
  duplicates: number;
  /** Accepted commands that neither ended nor parked, and effects or events that were not applied. */
  lost: number;
  /** Instances that waited for a person when the engine had healed, as `once` promises where nobody knows. */
  parked: number;
  /** From the last death until nothing was open any more. */
  slowest_convergence_s: number;
}

export interface ChaosRun {
  result: ChaosResult;
  faults: Fault[];
  /** Where the state is kept if there are faults; removed otherwise. */
  folder: string;
}

interface Stage {
  engine: ChaosEngine;
  upstreamUrl: string;
  commands: readonly ChaosCommand[];
  say: (line: string) => void;
}

/** Answering a doubt may raise another one, where the upstream misbehaves again. */
const ANSWER_ROUNDS = 3;

/** Kills a working engine again and again, lets it heal, asks the upstream what happened, and then answers what is parked. */
export async function runChaos({ kills, commands: count, seed, say = () => {} }: ChaosOptions): Promise<ChaosRun> {
  const random = randomFrom(seed);
  const commands = writeCommands(count, random);
  const folder = mkdtempSync(join(tmpdir(), "millrace-chaos-"));
  const upstream = await startUpstream(join(folder, "ledger.jsonl"));
  const config = join(import.meta.dirname, "wrangler.jsonc");
  const engine = new ChaosEngine(folder, { config, vars: { UPSTREAM_URL: upstream.url } });
  const stage: Stage = { engine, upstreamUrl: upstream.url, commands, say };
  try {
    const { result, faults } = await within(limitMs(kills), async () => {
      const behaviours = commands.flatMap((command) => command.behaviours);
      await postJson(`${upstream.url}/behaviours`, behaviours);
      await engine.start();
      say(`The engine runs at ${engine.url}; its state is in ${folder}.`);
      const { tally, lastDeathAt } = await killWhileWorking(engine, commands, kills, random, say);
      const healedMs = await heal(engine.url, lastDeathAt, say);
      const found = await look(stage, tally.accepted);
      say(`Clients sent ${tally.resent} requests again and were told ${tally.replayed} times that their command is known.`);
      say(
        `${found.verdict.takeovers} effects changed hands; ${found.verdict.naturalRepeats} natural effects were repeated, which is harmless.`,
      );
      const faults = found.verdict.faults.length > 0 ? found.verdict.faults : await answerAll(stage, tally.accepted, found);
      return { result: resultOf({ kills, commands: count, seed }, found.verdict, faults, healedMs), faults };
    });
    // Removed when nobody writes to it any more.
    await engine.end();
    if (faults.length === 0) rmSync(folder, { recursive: true, force: true });
    return { result, faults, folder };
  } catch (cause) {
    throw new Error(`The run failed; its state is kept in ${folder}. ${cause}`, { cause });
  } finally {
    await engine.end();
    upstream.stop();
  }
}

interface Found {
  account: Account;
  ledger: LedgerEntry[];
  verdict: Verdict;
}

async function look({ engine, upstreamUrl, commands }: Stage, accepted: ReadonlySet<string>): Promise<Found> {
  const account = await settledAccount(engine.url);
  const ledger = await getJson<LedgerEntry[]>(`${upstreamUrl}/ledger`);
  return { account, ledger, verdict: judge(commands, accepted, ledger, account) };
}

/** The second act: parked work is not lost work. Once a person has answered, it completes, and still nothing happens twice. */
async function answerAll(stage: Stage, accepted: ReadonlySet<string>, first: Found): Promise<Fault[]> {
  let found = first;
  for (let round = 1; round <= ANSWER_ROUNDS && found.verdict.parked > 0; round++) {
    const answered = await answerDoubts(stage.engine.url, found.ledger, found.account);
    const healedMs = await heal(stage.engine.url, Date.now(), () => {});
    found = await look(stage, accepted);
    stage.say(`${answered} doubts answered; ${found.verdict.parked} instances parked after ${Math.round(healedMs / 100) / 10} s.`);
    if (found.verdict.faults.length > 0) break;
  }
  const parked = found.account.instances.filter(({ status }) => status === "in_doubt");
  const stuck = parked.map(
    ({ name }): Fault => ({ kind: "lost", command: name, step: "", what: "still parked after its doubts were answered" }),
  );
  return [...found.verdict.faults, ...stuck];
}

function resultOf(
  options: Pick<ChaosResult, "kills" | "commands" | "seed">,
  { effects, parked }: Verdict,
  faults: readonly Fault[],
  healedMs: number,
): ChaosResult {
  const countOf = (kind: Fault["kind"]) => faults.filter((fault) => fault.kind === kind).length;
  return {
    seed: options.seed,
    kills: options.kills,
    commands: options.commands,
    effects,
    duplicates: countOf("duplicate"),
    lost: countOf("lost"),
    parked,
    slowest_convergence_s: Math.round(healedMs / 100) / 10,
  };
}

/** A run ends by itself: 20 deaths in less than six minutes, whatever happens. */
function limitMs(kills: number): number {
  return 150_000 + kills * 10_000;
}

async function within<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`The run did not end within ${ms / 1000} s.`)), ms);
  try {
    return await Promise.race([work(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
