import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosCommand } from "./commands.ts";

const RETRY_MS = 100;
/** A request that hangs in a dying process is given up and sent again. */
const REQUEST_MS = 5000;

/** An engine that accepts nothing for this long does not come back by itself. */
const GIVE_UP_MS = 60_000;

/** What the clients were told. */
export interface Tally {
  /** Names answered with 202, to at least one of their clients. */
  accepted: Set<string>;
  /** Requests that had to be sent again, because the connection broke or the answer was an error. */
  resent: number;
  /** Answers that said: known already. */
  replayed: number;
}

export function newTally(): Tally {
  return { accepted: new Set(), resent: 0, replayed: 0 };
}

/** Asks as a real client does: the same request, under the same key, until it is answered 202. Errors: a refusal, which no repeat cures; a minute of failures. */
export async function ask(url: string, { name, steps }: ChaosCommand, tally: Tally): Promise<void> {
  const body = JSON.stringify({ name, steps });
  const giveUpAt = Date.now() + GIVE_UP_MS;
  for (;;) {
    const answer = await post(`${url}/enqueue`, body).catch((error) => ({ status: 0, body: String(error) }));
    if (answer.status === 202) {
      tally.accepted.add(name);
      if (answer.body.includes('"replayed":true')) tally.replayed++;
      return;
    }
    if (answer.status === 422 || Date.now() > giveUpAt)
      throw new Error(`The command ${name} was not accepted: ${answer.status} ${answer.body.slice(0, 500)}`);
    tally.resent++;
    await sleep(RETRY_MS);
  }
}

async function post(url: string, body: string): Promise<{ status: number; body: string }> {
  const response = await fetch(url, { method: "POST", body, signal: AbortSignal.timeout(REQUEST_MS) });
  return { status: response.status, body: await response.text() };
}
