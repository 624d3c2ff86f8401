import createClient from "openapi-fetch";
import type { components, paths } from "../../../dist/outside/paths.ts";
import type { Asked, Learned } from "../asked.ts";

// A user's program that uses openapi-fetch and the types of openapi-typescript.

type Command = components["schemas"]["Command"];
type InstanceDetail = components["schemas"]["InstanceDetail"];
type Problem = components["schemas"]["Problem"];

export async function run({ baseUrl, token, fetch, keywords, correlationId, account }: Asked): Promise<Learned> {
  const api = createClient<paths>({ baseUrl, fetch, headers: { authorization: `Bearer ${token}` } });

  const ids: string[] = [];
  for (const keyword of keywords) ids.push((await ask(keyword)).instance_id);
  const { replayed } = await ask(keywords[0]);
  const ended = await theEnd(ids[0] ?? "");
  const steps = good(await api.GET("/v1/instances/{id}/steps", { params: { path: { id: ended.id } } }));

  const path = { account };
  good(await api.PUT("/v1/budgets/{account}", { params: { path }, body: { limit_cents: 100 } }));
  const kept = good(await api.GET("/v1/budgets/{account}", { params: { path } }));
  const rules = [{ name: "all of them", when: [], charge: { cents: 1 } }];
  good(await api.PUT("/v1/qualification-rules", { body: { rules, expected_version: 0 } }));

  return {
    instance: { id: ended.id, workflow: ended.workflow, status: ended.status, result: ended.result },
    steps: steps.items.length,
    pages: await pages(),
    refused: await refused(),
    replayed,
    account: kept.account,
    rules: good(await api.GET("/v1/qualification-rules")).rules,
  };

  async function ask(keyword: string): Promise<components["schemas"]["Accepted"]> {
    const body: Command = { type: "research.requested", payload: { brand: "acme", keyword }, correlation_id: correlationId };
    return good(await api.POST("/v1/commands", { params: { header: { "idempotency-key": keyword } }, body }));
  }

  async function theEnd(id: string): Promise<InstanceDetail> {
    for (;;) {
      const instance = good(await api.GET("/v1/instances/{id}", { params: { path: { id } } }));
      if (isOver(instance.status)) return instance;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async function pages(): Promise<string[][]> {
    const pages: string[][] = [];
    let cursor: string | null = null;
    do {
      const query: { cursor?: string } = cursor === null ? {} : { cursor };
      const page: { items: { id: string }[]; next_cursor: string | null } = good(
        await api.GET("/v1/instances", { params: { query: { ...query, correlation: correlationId, limit: 1 } } }),
      );
      pages.push(page.items.map(({ id }) => id));
      cursor = page.next_cursor;
    } while (cursor !== null);
    return pages;
  }

  async function refused(): Promise<string[]> {
    const body: Command = { type: "research.requested", payload: { keyword: 7 } };
    const { error } = await api.POST("/v1/commands", { body });
    return error ? fieldsOf(error) : [];
  }
}

function good<Data>({ data, error }: { data?: Data; error?: Problem }): Data {
  if (data === undefined) throw new Error(error ? `${error.code}: ${error.detail}` : "no answer");
  return data;
}

function isOver(status: InstanceDetail["status"]): boolean {
  return !["accepted", "queued", "running", "waiting", "in_doubt"].includes(status);
}

function fieldsOf(problem: Problem): string[] {
  return problem.code === "invalid_payload" ? (problem.issues ?? []).map(({ path }) => path) : [];
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
