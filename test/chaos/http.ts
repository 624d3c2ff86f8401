import { setTimeout as sleep } from "node:timers/promises";

const TRIES = 6;
const TIMEOUT_MS = 10_000;

/** Asks one of our own servers, patiently: it may have been killed a moment ago. Errors: the last answer that was not a success. */
export async function getJson<T>(url: string): Promise<T> {
  return (await request(url)) as T;
}

export async function postJson(url: string, body: unknown): Promise<void> {
  await request(url, { method: "POST", body: JSON.stringify(body) });
}

async function request(url: string, init: RequestInit = {}): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      throw new Error(`${url} answered ${response.status}: ${text.slice(0, 500)}`);
    } catch (error) {
      if (attempt === TRIES) throw error;
      await sleep(500);
    }
  }
}
