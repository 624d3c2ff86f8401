import type { Instance } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { InstanceDetail, ObserveApi } from "./api.ts";

const DAYS = 30;
const ARTICLES_A_DAY = 1000;

/** Shows what the instances of a job cost, and what as many of them cost in a month. Errors: a `Refusal` where the two differ. */
export async function whatItCost(api: ObserveApi, job: readonly Instance[]): Promise<void> {
  const costs = await Promise.all(job.map(({ id }) => api.instance(id)));
  say(paint("dim", `  ${column("cost of each instance", 24)}steps  rows written  messages       USD`));
  for (const { workflow, cost } of costs) say(`  ${rowOf(workflow, cost)}`);
  const usd = costs.reduce((sum, { cost }) => sum + cost.usd, 0);
  const { workflows, prices_of } = await api.costs();
  const chain = job.map(({ workflow }) => workflows.find((one) => one.workflow === workflow));
  const thousand = chain.reduce((sum, one) => sum + (one?.usd_per_thousand_runs ?? 0), 0);
  const month = (thousand * ARTICLES_A_DAY * DAYS) / 1000;
  say(
    `\n  One article: ${usd.toFixed(6)} USD; a thousand of them, and their removal one day: ${thousand.toFixed(3)} USD, says GET /v1/costs.`,
  );
  say(`  ${ARTICLES_A_DAY} a day are ${month.toFixed(2)} USD a month, beyond what the plan includes (prices of ${prices_of}).`);
  if (costs.some(({ cost }) => cost.usd <= 0)) throw new Refusal("An instance is said to have cost nothing.");
  // The one is of this article so far, the other of the newest ones on average, to the end.
  if (Math.abs(thousand / 1000 / usd - 1) > 0.5) throw new Refusal("What an article cost and what articles cost do not agree.");
}

function rowOf(workflow: string, { parts, messages, usd }: InstanceDetail["cost"]): string {
  const right = (text: string | number, width: number) => String(text).padStart(width);
  return [
    paint("cyan", column(workflow, 24)),
    right(parts.steps.amount, 5),
    right(parts.rows_written.amount, 14),
    right(messages, 10),
    right(usd.toFixed(6), 10),
  ].join("");
}
