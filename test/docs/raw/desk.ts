import type { RawEnv } from "./env.ts";

/** The upstream reports that nothing happened. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

interface Done {
  id: string;
}

/** Requests an effect of the desk for a customer. */
export async function askDesk(env: RawEnv, what: "accounts" | "mails", body: { customer: string }, signal: AbortSignal): Promise<Done> {
  const response = await fetch(`${env.DESK_URL}/${what}`, { method: "POST", body: JSON.stringify(body), signal });
  if (response.ok) return response.json();
  if (response.status < 500) throw new Refused(`The desk refused ${what} with ${response.status}.`, response.status);
  throw new Error(`The desk answered ${response.status}: whether it did anything is unknown.`);
}

/** The desk's effects for a customer so far. */
export async function lookUpDesk(env: RawEnv, what: "accounts", customer: string, signal: AbortSignal): Promise<Done | undefined> {
  const response = await fetch(`${env.DESK_URL}/${what}?${new URLSearchParams({ customer })}`, { signal });
  if (!response.ok) throw new Error(`The desk answered ${response.status} to a look-up.`);
  return (await response.json<Done[]>())[0];
}
