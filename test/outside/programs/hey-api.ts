import { createClient } from "../../../dist/outside/hey-api/client/index.ts";
import {
  acceptCommand,
  addRules,
  getBudget,
  getInstance,
  getRules,
  listInstances,
  listSteps,
  putBudget,
} from "../../../dist/outside/hey-api/sdk.gen.ts";
import type { Command, InstanceDetail, ListInstancesData, Problem } from "../../../dist/outside/hey-api/types.gen.ts";
import type { Asked, Learned } from "../asked.ts";

// A user's program that uses the hey-api client.

export async function run({ baseUrl, token, fetch, keywords, correlationId, account }: Asked): Promise<Learned> {
  const client = createClient({ baseUrl, auth: () => token, fetch: (input, init) => fetch(new Request(input, init)) });

  const ids: string[] = [];
  for (const keyword of keywords) {
    const { data, error } = await acceptCommand({ client, body: research(keyword), headers: { "idempotency-key": keyword } });
    if (!data) throw new Error(said(error));
    ids.push(data.instance_id);
  }
  const again = await acceptCommand({ client, body: research(keywords[0]), headers: { "idempotency-key": keywords[0] } });
  const ended = await theEnd(ids[0] ?? "");
  const steps = await listSteps({ client, path: { id: ended.id }, throwOnError: true });

  const budget = await putBudget({ client, path: { account }, body: { limit_cents: 100 } });
  if (budget.error) throw new Error(said(budget.error));
  const kept = await getBudget({ client, path: { account }, throwOnError: true });
  const rules = [{ name: "all of them", when: [], charge: { cents: 1 } }];
  await addRules({ client, body: { rules, expected_version: 0 }, throwOnError: true });

  return {
    instance: { id: ended.id, workflow: ended.workflow, status: ended.status, result: ended.result },
    steps: steps.data.items.length,
    pages: await pages(),
    refused: await refused(),
    replayed: again.data?.replayed ?? false,
    account: kept.data.account,
    rules: (await getRules({ client, throwOnError: true })).data.rules,
  };

  function research(keyword: string): Command {
    return { type: "research.requested", payload: { brand: "acme", keyword }, correlation_id: correlationId };
  }

  async function theEnd(id: string): Promise<InstanceDetail> {
    for (;;) {
      const { data } = await getInstance({ client, path: { id }, throwOnError: true });
      if (isOver(data.status)) return data;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async function pages(): Promise<string[][]> {
    const pages: string[][] = [];
    let cursor: string | null = null;
    do {
      const query: NonNullable<ListInstancesData["query"]> = { correlation: correlationId, limit: 1, ...(cursor !== null && { cursor }) };
      const { data } = await listInstances({ client, query, throwOnError: true });
      pages.push(data.items.map(({ id }) => id));
      cursor = data.next_cursor;
    } while (cursor !== null);
    return pages;
  }

  async function refused(): Promise<string[]> {
    const { error } = await acceptCommand({ client, body: { type: "research.requested", payload: { keyword: 7 } } satisfies Command });
    return error ? fieldsOf(error) : [];
  }
}

function isOver(status: InstanceDetail["status"]): boolean {
  switch (status) {
    case "complete":
    case "errored":
    case "terminated":
    case "dead":
    case "skipped":
      return true;
    case "accepted":
    case "queued":
    case "running":
    case "waiting":
    case "paused":
    case "in_doubt":
      return false;
    default:
      // All statuses are handled here: the compiler checks that.
      return status satisfies never;
  }
}

function fieldsOf(problem: Problem): string[] {
  return problem.code === "invalid_payload" ? (problem.issues ?? []).map(({ path }) => path) : [];
}

function said(problem: Problem | undefined): string {
  return problem ? `${problem.code}: ${problem.detail}` : "no answer";
}

/** Calls that the types forbid; never executed. */
export function misuse(status: InstanceDetail["status"], problem: Problem): unknown[] {
  // @ts-expect-error: a misspelt field
  const command: Command = { type: "research.requested", payload: {}, correlationid: "a job" };
  // @ts-expect-error: a status that no instance has
  const isComplete = status === "completed";
  // @ts-expect-error: a code that no problem has
  const isRefused = problem.code === "invalid_paylaod";
  // @ts-expect-error: not every problem has issues
  return [command, isComplete, isRefused, problem.issues.length];
}
