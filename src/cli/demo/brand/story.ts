import { type Api, apiOf, type Instance } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import { column, paint, say, seconds } from "../../terminal.ts";
import { chapter, type Stage, type Story } from "../story.ts";
import { BRAND, KEYWORDS, MESSAGE_TYPES, ONCE_EACH, OUTAGE, UNLUCKY, WORKFLOWS } from "./job.ts";
import { differences, type Outcome, readOutcome } from "./outcome.ts";
import { aboutOf, Timeline } from "./timeline.ts";
import { watch } from "./watch.ts";

const INSTANCES = KEYWORDS.length * WORKFLOWS.length;
/** The outage is retried after 2 and 4 seconds; the rest takes one. */
const CHAIN_MS = 30_000;
const RETRY_MS = 20_000;
const REASON = "The page store works again.";

export const brand: Story = { title: "research → generate → publish → social, with an outage and a retry", tell };

async function tell({ engine, stop }: Stage): Promise<void> {
  const api = apiOf(engine.url, engine.token);
  const correlation = "demo";

  chapter(1, `One request asks for research on ${KEYWORDS.length} keywords; everything else follows from it.`);
  say(paint("dim", `  The page store has been told to refuse the page about “${UNLUCKY}”.\n`));
  await api.setFaults([OUTAGE]);
  const startedAt = Date.now();
  await request(api, correlation);
  const job = { api, correlation, timeline: new Timeline(startedAt), stop };
  // What is not published is not announced.
  const [failed] = failedOf(await watch({ ...job, expected: INSTANCES - 1, withinMs: CHAIN_MS }), 1);
  if (!failed) throw new Refusal("No instance failed, although the page store was told to refuse a page.");

  chapter(2, "What is seen now");
  say(`  ${INSTANCES - 2} of ${INSTANCES - 1} instances are complete. Publishing “${UNLUCKY}” is ${paint("red", failed.status)}:`);
  say(`  ${failed.error?.message ?? "no reason is recorded"}`);
  say(`  Its research and its text are recorded with the steps that paid for them: no retry pays again.`);

  chapter(3, "The page store is repaired, and an operator retries the instance");
  await api.clearFaults();
  const plan = await api.planRetry(failed.id, REASON);
  say(
    `  A dry run says: ${plan.effects.map(({ step, verdict }) => `“${step}” ${verdict}`).join(", ") || `it would go on from “${plan.from}”`}.`,
  );
  say(paint("dim", `  POST /v1/instances/${failed.id}/retry  {"reason":"${REASON}"}\n`));
  await api.retry(failed.id, REASON);
  const instances = await watch({ ...job, expected: INSTANCES, withinMs: RETRY_MS });
  failedOf(instances, 0);

  chapter(4, "What is true in the end");
  const outcome = await readOutcome(api, instances);
  showOutcome(outcome);
  const wrong = differences(outcome);
  if (wrong.length > 0) throw new Refusal(`The demo did not end as it should. ${wrong.join(" ")}`);
  say(
    `\n${paint("green", "✓")} ${paint("bold", `Every effect happened once, outage and retry included, in ${seconds(Date.now() - startedAt)}.`)}`,
  );
}

async function request(api: Api, correlation: string): Promise<void> {
  const results = await api.enqueue(
    KEYWORDS.map((keyword) => ({ type: "research.requested", payload: { brand: BRAND, keyword }, correlation_id: correlation })),
  );
  const refused = results.find((result) => "problem" in result);
  if (refused && "problem" in refused) throw new Refusal(`The engine refused a command: ${refused.problem.detail}`);
}

/** The instances that did not complete: as many as the story needs, or it ends here. */
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

function showOutcome({ pages, totals, messages }: Outcome): void {
  const row = (count: number, text: string) => `  ${String(count).padStart(3)}  ${text}`;
  for (const { url, status, title } of pages)
    say(`  ${paint(status === 200 ? "green" : "red", String(status))}  ${paint("cyan", url)}  ${title}`);
  say();
  const left = ONCE_EACH.map(({ upstream, outcome, words }) => row(totals[upstream]?.[outcome] ?? 0, words));
  left.push(row(totals.pages?.refused ?? 0, "times the page store refused"));
  const right = MESSAGE_TYPES.map((type) => row(messages[type] ?? 0, type));
  const width = Math.max(...left.map(({ length }) => length)) + 4;
  say(paint("dim", `  ${column("The upstreams' own ledger", width)}Messages`));
  for (const [index, line] of right.entries()) say(`${column(left[index] ?? "", width)}${line}`);
}
