import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { onTestFinished, inject as provided } from "vitest";
import type { CallReport } from "../../src/embedded/crm/calls.ts";
import type { CrmFault } from "../../src/embedded/crm/faults.ts";
import { crmStoreOf } from "../../src/embedded/env.ts";
import type { AnswerFault, Fault, LedgerReport } from "../../src/embedded/ledger.ts";
import { type Json, until } from "../api/client.ts";

/** Replaces the fault rules of the embedded upstreams. */
export async function inject(...faults: (Fault | AnswerFault)[]): Promise<void> {
  const answer = await env.UPSTREAMS.fetch("https://control.embedded/faults", { method: "PUT", body: JSON.stringify(faults) });
  if (!answer.ok) throw new Error(await answer.text());
}

/** The effects of the embedded upstreams, from their own ledger. */
export async function ledger(filter: { upstream?: string; match?: string } = {}): Promise<LedgerReport> {
  const answer = await env.UPSTREAMS.fetch(`https://control.embedded/ledger?${new URLSearchParams(filter)}`);
  return answer.json<LedgerReport>();
}

/** An upstream with configured responses that records its requests. */
export function scripted(...answers: (Response | Error)[]) {
  const requests: Request[] = [];
  return {
    requests,
    name: "search",
    url: "https://upstream.example.com",
    credential: { variable: "SEARCH_TOKEN", value: "s3cret-token" },
    async fetch(request: Request): Promise<Response> {
      requests.push(request);
      const answer = answers.shift();
      if (answer === undefined) throw new Error("The script has no more responses.");
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
}

const CRM_CONTROL = "https://control.embedded/crm";

/** Replaces the fault rules of the embedded CRM. */
export async function failCrm(...faults: CrmFault[]): Promise<void> {
  const answer = await env.UPSTREAMS.fetch(`${CRM_CONTROL}/faults`, { method: "PUT", body: JSON.stringify(faults) });
  if (!answer.ok) throw new Error(await answer.text());
}

/** The embedded CRM's requests, from its own record. */
export async function crmCalls(match?: string): Promise<CallReport> {
  return crmView(match === undefined ? "calls" : `calls?match=${encodeURIComponent(match)}`);
}

/** The embedded CRM's items (`contacts`, `companies`, `associations`) and webhooks (`deliveries`). */
export async function crmView(view: string): Promise<Json> {
  return (await env.UPSTREAMS.fetch(`${CRM_CONTROL}/${view}`)).json();
}

/** An edit in the embedded CRM, as by a user. */
export async function crmEdit(id: string | null, properties: Record<string, string> | null): Promise<{ status: number; body: Json }> {
  const answer = await env.UPSTREAMS.fetch(`${CRM_CONTROL}/edits`, { method: "POST", body: JSON.stringify({ id, properties }) });
  return { status: answer.status, body: await answer.json() };
}

/** The target of the embedded CRM's webhooks while no test receives them: a server that accepts them. */
const NOBODY = `${provided("receiverUrl")}/hook/nobody`;

/** The target of the embedded CRM's webhooks until the end of the test; null for the configured target. Earlier webhooks are sent first. */
export async function crmTells(url: string | null): Promise<void> {
  onTestFinished(() => setCrmTarget(NOBODY));
  await until(
    () => crmView("deliveries"),
    ({ waiting }) => waiting === 0,
  );
  await setCrmTarget(url);
}

/** The embedded CRM sends its webhooks to no tenant. */
export function crmTellsNobody(): Promise<void> {
  return setCrmTarget(NOBODY);
}

async function setCrmTarget(url: string | null): Promise<void> {
  const answer = await env.UPSTREAMS.fetch(`${CRM_CONTROL}/webhook-url`, { method: "PUT", body: JSON.stringify({ url }) });
  if (!answer.ok) throw new Error(await answer.text());
}

/** Ages all requests of the embedded CRM past its limits' window; those after a call (by its id) are deleted. */
export async function crmRests(forgetAfter = Number.MAX_SAFE_INTEGER): Promise<void> {
  await runInDurableObject(crmStoreOf(env), (_, { storage }) => {
    storage.sql.exec("DELETE FROM calls WHERE id > ?", forgetAfter);
    storage.sql.exec("UPDATE calls SET at = at - 11000");
  });
  const limit = env.RATE_LIMIT.getByName("crm https://crm.embedded");
  await runInDurableObject(limit, (_, { storage }) => void storage.kv.delete("state"));
  // The limiter's memory would outlive the deletion.
  await evictDurableObject(limit);
}
