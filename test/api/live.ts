import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { onTestFinished } from "vitest";
import { createApi } from "../../src/api/app.ts";
import { app } from "../../src/catalog.ts";
import { EventReader } from "../event-source.ts";
import type { Caller, Json } from "./client.ts";

const api = createApi(app);

/** The database's clock. */
export const NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/** Sends a request in this isolate, with any bindings, and does not read the answer. */
export async function ask(path: string, headers: Record<string, string> = {}, bindings: object = env, method = "GET"): Promise<Response> {
  return await api.fetch(new Request(`http://localhost${path}`, { headers, method }), bindings, createExecutionContext());
}

/** Opens a stream; it is closed with the test at the latest. */
export async function open(
  caller: Pick<Caller, "token">,
  path: string,
  lastEventId?: string,
  bindings: object = env,
): Promise<EventReader> {
  const headers = { authorization: `Bearer ${caller.token}`, ...(lastEventId && { "last-event-id": lastEventId }) };
  const answer = await ask(path, headers, bindings);
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  return reading(answer);
}

export function reading(answer: Response): EventReader {
  const reader = new EventReader(answer);
  onTestFinished(() => reader.close());
  return reader;
}

/** The current cursor of the stream: all later events come after it. */
export async function placeOf(caller: Pick<Caller, "token">): Promise<string> {
  const reader = await open(caller, "/v1/stream");
  await reader.untilRaw("id: ");
  await reader.close();
  return reader.heard[0]?.id ?? "";
}

export const run = (sql: string, ...params: unknown[]): Promise<Json> =>
  env.DB.prepare(sql)
    .bind(...params)
    .run();
