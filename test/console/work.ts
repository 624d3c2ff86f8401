import { expect, inject } from "vitest";
import type { Break } from "./global-setup.ts";
import type { Person } from "./stage.ts";

interface Found {
  items: { id: string; idempotency_key: string; workflow: string; status: string }[];
}

/**
 * Requests an article about each keyword, four instances each, and waits until they end; fewer instances if one fails. Returns all
 * instances of the job.
 */
export async function articles(by: Person, keywords: readonly string[], { job = "spring", each = 4 } = {}): Promise<Found["items"]> {
  const before = (await instancesOf(by, job)).length;
  const commands = keywords.map((keyword) => ({ type: "research.requested", correlation_id: job, payload: { brand: "acme", keyword } }));
  await by.ask("POST", "/v1/commands/batch", { commands });
  const over = async () => (await instancesOf(by, job)).filter(({ status }) => ["complete", "errored"].includes(status)).length;
  await expect.poll(over).toBe(before + each * keywords.length);
  return instancesOf(by, job);
}

async function instancesOf(by: Person, job: string): Promise<Found["items"]> {
  return (await by.ask<Found>("GET", `/v1/instances?correlation=${job}`)).items;
}

/** Makes the page store refuse the tenant's pages, as an outage would, until `mend` is called. */
export function breakPages({ tenant }: Person): Promise<{ mend: () => Promise<void> }> {
  return breaking("pages", `/${tenant}/`);
}

/** Makes an upstream refuse every call that contains this text, until `mend` is called. */
export async function breaking(upstream: Break["upstream"], match: string): Promise<{ mend: () => Promise<void> }> {
  const turn = async (isBroken: boolean) => {
    const said: Break = { upstream, match, isBroken };
    await fetch(inject("consoleStageUrl"), { method: "POST", body: JSON.stringify(said) });
  };
  await turn(true);
  return { mend: () => turn(false) };
}
