import { setTimeout as sleep } from "node:timers/promises";
import type { Instance } from "../packages/millrace/cli/api-client.ts";
import { Refusal } from "../packages/millrace/cli/command.ts";
import type { Engine } from "../packages/millrace/cli/local/engine-process.ts";
import { column, paint, say, seconds } from "../packages/millrace/cli/terminal.ts";
import { type BrandApi, brandApi, type Decision } from "./api.ts";
import { BRAND, FIRST, KEYWORDS, MESSAGES, ONCE_EACH, PER_KEYWORD, REFUSED_PAGE, UNLUCKY, WORKFLOWS } from "./job.ts";
import { laterCycles } from "./later.ts";
import { differences, type Outcome, readOutcome } from "./outcome.ts";
import { severalPlaces } from "./places.ts";
import { aboutOf, Timeline } from "./timeline.ts";
import { chapter, watch } from "./watch.ts";

const INSTANCES = 1 + KEYWORDS.length * PER_KEYWORD;
/** After a kill, the keeper restarts open instances within ten seconds. */
const CHAIN_MS = 60_000;
const RETRY_MS = 20_000;
const LOOK_EVERY_MS = 20;
const REASON = "The page store works again.";

interface Stage {
  /** The running engine, which `crash` replaces by a new engine. */
  readonly engine: Engine;
  readonly stop: AbortSignal;
  /** Kills the engine with SIGKILL and restarts it on the same state. */
  crash(): Promise<void>;
}

/**
 * Runs the demo's job, from the first request to the check of the job's effects. Errors: a `Refusal` if a result breaks a promise of
 * Millrace.
 */
export async function tell(stage: Stage): Promise<void> {
  const { stop } = stage;
  let api = brandApi(stage.engine);

  chapter(1, `One command asks a brand to consider ${KEYWORDS.length} keywords; everything else follows from it. In the middle: kill -9.`);
  say(paint("dim", `  The page store is configured to refuse the page about “${UNLUCKY}”.\n`));
  await api.setBrand(BRAND, { rate_per_second: 20 });
  await api.setFaults([REFUSED_PAGE]);
  const startedAt = Date.now();
  await api.cycle(BRAND, FIRST, KEYWORDS);
  await underWay(api, stop);
  const killedAt = Date.now();
  await stage.crash();
  api = brandApi(stage.engine);
  const after = seconds(killedAt - startedAt);
  const back = seconds(Date.now() - killedAt);
  say(paint("red", `  kill -9 after ${after}, restarted after ${back}: the queues lost all messages.`));
  say(paint("dim", "  The keeper resends messages that were not confirmed within ten seconds.\n"));
  const job = { api, correlation: FIRST, timeline: new Timeline(startedAt), stop };
  // One instance fewer is expected, because the refused page is not published, so that no post is requested.
  const seen = await watch({ ...job, expected: INSTANCES - 1, withinMs: CHAIN_MS });
  const [failed] = failedOf(seen, 1);
  if (!failed) throw new Refusal("No instance failed, although the page store was configured to refuse a page.");

  chapter(2, "The agent's decisions and the current state");
  showDecisions(await api.decisions(BRAND, FIRST));
  say(`\n  ${INSTANCES - 2} of ${INSTANCES - 1} instances are complete. Publishing “${UNLUCKY}” is ${paint("red", failed.status)}:`);
  say(`  ${failed.error?.message ?? "no reason is recorded"}`);
  say(`  Its research and its text are recorded with the steps that paid for them: a retry does not pay again.`);

  chapter(3, "The page store is repaired, and an operator retries the instance");
  await api.clearFaults();
  const plan = await api.planRetry(failed.id, REASON);
  say(
    `  A dry run says: ${plan.effects.map(({ step, verdict }) => `“${step}” ${verdict}`).join(", ") || `it would continue from “${plan.from}”`}.`,
  );
  say(paint("dim", `  POST /v1/instances/${failed.id}/retry  {"reason":"${REASON}"}\n`));
  await api.retry(failed.id, REASON);
  const instances = await watch({ ...job, expected: INSTANCES, withinMs: RETRY_MS });
  failedOf(instances, 0);
  say();
  const outcome = await readOutcome(api, instances);
  showOutcome(outcome);
  const wrong = differences(outcome);
  if (wrong.length > 0) throw new Refusal(`The demo did not end as expected. ${wrong.join(" ")}`);
  await showEnd(api, stop);

  await laterCycles(api, stop, showDecisions);
  await severalPlaces(api, stop);
  say(
    `\n${paint("green", "✓")} ${paint("bold", `Every effect happened once, despite a kill, a refusal and a retry, in ${seconds(Date.now() - startedAt)}.`)}`,
  );
}

/** Waits until instances of the job write articles, and no page is published yet. */
async function underWay(api: BrandApi, stop: AbortSignal): Promise<void> {
  for (const deadline = Date.now() + CHAIN_MS; Date.now() < deadline; await sleep(LOOK_EVERY_MS)) {
    stop.throwIfAborted();
    const workflows = (await api.instances(FIRST)).map(({ workflow }) => workflow);
    if (workflows.includes(WORKFLOWS[1])) return;
  }
  throw new Refusal(`The brand's agent requested no research within ${CHAIN_MS / 1000} s. See the engine's log.`);
}

/** The instances without the status complete. Errors: a `Refusal` if the number of these instances is not `expected`. */
function failedOf(instances: readonly Instance[], expected: number): Instance[] {
  const failed = instances.filter(({ status }) => status !== "complete");
  if (failed.length === expected) return failed;
  const words = failed.map(
    (one) => `${one.workflow} of “${aboutOf(one, instances)}” is ${one.status}${one.error ? ` (${one.error.message})` : ""}`,
  );
  throw new Refusal(
    `${failed.length} instances did not complete instead of ${expected}${words.length > 0 ? `: ${words.join("; ")}` : ""}.`,
  );
}

/** Waits until the cycle is done, and prints the outcome of each keyword. */
async function showEnd(api: BrandApi, stop: AbortSignal): Promise<void> {
  for (const deadline = Date.now() + RETRY_MS; Date.now() < deadline; await sleep(LOOK_EVERY_MS)) {
    stop.throwIfAborted();
    const { state, told } = await api.cycleState(BRAND, FIRST);
    if (state !== "done" || told === null) continue;
    if (told.published !== KEYWORDS.length) throw new Refusal(`The cycle ended with ${JSON.stringify(told)}.`);
    const outcomes = Object.entries(told).map(([outcome, count]) => `${count} ${outcome}`);
    return say(`\n  The cycle “${FIRST}” is done, and brand.cycle_ended was sent once: ${outcomes.join(", ")}.`);
  }
  throw new Refusal(`The cycle “${FIRST}” is not done ${RETRY_MS / 1000} s after its last page.`);
}

function showDecisions(decisions: readonly Decision[]): void {
  for (const { keyword, verdict, reason } of decisions) {
    say(
      `  ${paint("cyan", column(keyword, 16))} ${paint(verdict === "skipped" || verdict === "held" ? "yellow" : "green", column(verdict, 10))} ${reason}`,
    );
  }
}

function showOutcome({ pages, totals, messages }: Outcome): void {
  const row = (count: number, text: string) => `  ${String(count).padStart(3)}  ${text}`;
  for (const { url, status, title } of pages)
    say(`  ${paint(status === 200 ? "green" : "red", String(status))}  ${paint("cyan", url)}  ${title}`);
  say();
  const left = ONCE_EACH.map(({ upstream, outcome, words }) => row(totals[upstream]?.[outcome] ?? 0, words));
  left.push(row(totals.pages?.refused ?? 0, "refusals by the page store"));
  const right = Object.keys(MESSAGES).map((type) => row(messages[type] ?? 0, type));
  const width = Math.max(...left.map(({ length }) => length)) + 4;
  say(paint("dim", `  ${column("Calls recorded by the upstreams", width)}Messages`));
  for (const [index, line] of right.entries()) say(`${column(left[index] ?? "", width)}${line}`);
}
