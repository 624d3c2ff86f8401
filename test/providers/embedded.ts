import { env } from "cloudflare:workers";
import type { CallReport } from "../../src/providers/embedded/crm/calls.ts";
import type { CrmFault } from "../../src/providers/embedded/crm/faults.ts";
import type { Fault, LedgerReport } from "../../src/providers/embedded/ledger.ts";
import type { Json } from "../api/client.ts";

/** Replaces the fault rules of the embedded programs. */
export async function inject(...faults: Fault[]): Promise<void> {
  const answer = await env.UPSTREAMS.fetch("https://control.embedded/faults", { method: "PUT", body: JSON.stringify(faults) });
  if (!answer.ok) throw new Error(await answer.text());
}

/** What the embedded programs did, by their own ledger. */
export async function ledger(filter: { upstream?: string; match?: string } = {}): Promise<LedgerReport> {
  const answer = await env.UPSTREAMS.fetch(`https://control.embedded/ledger?${new URLSearchParams(filter)}`);
  return answer.json<LedgerReport>();
}

/** An upstream that answers what it is told and remembers what it was asked. */
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
      if (answer === undefined) throw new Error("The script has no more answers.");
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

/** What the embedded CRM was asked, by its own evidence. */
export async function crmCalls(match?: string): Promise<CallReport> {
  return crmView(match === undefined ? "calls" : `calls?match=${encodeURIComponent(match)}`);
}

/** What the embedded CRM has (`contacts`, `companies`, `associations`) and said (`deliveries`). */
export async function crmView(view: string): Promise<Json> {
  return (await env.UPSTREAMS.fetch(`${CRM_CONTROL}/${view}`)).json();
}

/** An edit in the embedded CRM, as a person would make it there. */
export async function crmEdit(id: string | null, properties: Record<string, string> | null): Promise<{ status: number; body: Json }> {
  const answer = await env.UPSTREAMS.fetch(`${CRM_CONTROL}/edits`, { method: "POST", body: JSON.stringify({ id, properties }) });
  return { status: answer.status, body: await answer.json() };
}
