import { env } from "cloudflare:workers";
import type { AnswerFault, Fault, LedgerReport } from "../../src/providers/embedded/ledger.ts";

/** Replaces the fault rules of the embedded programs. */
export async function inject(...faults: (Fault | AnswerFault)[]): Promise<void> {
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
