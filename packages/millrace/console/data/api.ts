import type { ExtractSchema } from "hono/types";
import type { EngineApi } from "../../src/http/engine-routes.ts";
import { sinceOf } from "./clock.ts";
import { type Problem, problemIn, unanswered, unsendable } from "./problem.ts";
import { expired, session } from "./session.ts";
import { jsonText } from "./written.ts";

// The types are derived from the API's routes, so that the console does not compile after a breaking change of a route.
type Routes = ExtractSchema<EngineApi>;
export type Path = keyof Routes & string;
type Method<At extends Path> = keyof Routes[At] & string;
type Of<At extends Path, How extends Method<At>> = Routes[At][How] extends { input: infer In; output: infer Out }
  ? { in: In; out: Out }
  : never;
type Good<Out> = Out extends { code: string; title: string; status: number } ? never : Out;
type Query<In> = In extends { query: infer Query } ? Query : Record<string, never>;
export type Asked<At extends Path> = Partial<Query<Of<At, "$get" & Method<At>>["in"]>>;

/** The type of a route's response to a GET request, such as `Answer<"/v1/instances">`, or to another method. */
export type Answer<At extends Path, How extends Method<At> = "$get" & Method<At>> = Good<Of<At, How>["out"]>;
export type Item<At extends Path> = Answer<At> extends { items: (infer One extends object)[] } ? One : never;

export type Result<T> = { ok: true; data: T } | { ok: false; problem: Problem };

interface Sent {
  param?: Record<string, string>;
  /** The JSON body of a request. The original text of a `Written` value is sent. */
  body?: unknown;
  key?: string;
}

export function get<At extends Path>(path: At, sent: Omit<Sent, "body" | "key"> & { query?: Asked<At> } = {}): Promise<Result<Answer<At>>> {
  return send("GET", path, sent) as Promise<Result<Answer<At>>>;
}

export function post<At extends Path>(path: At, sent: Sent): Promise<Result<Answer<At, "$post" & Method<At>>>> {
  return send("POST", path, sent) as Promise<Result<Answer<At, "$post" & Method<At>>>>;
}

type Data<Asked> = { [Name in keyof Asked]: Asked[Name] extends Promise<Result<infer T>> ? T : never };

/** Awaits several requests. The result is the data of each, or the first problem. */
export async function together<Asked extends Record<string, Promise<Result<unknown>>>>(asked: Asked): Promise<Result<Data<Asked>>> {
  const found = await Promise.all(Object.entries(asked).map(async ([name, one]) => [name, await one] as const));
  for (const [, one] of found) if (!one.ok) return one;
  return { ok: true, data: Object.fromEntries(found.map(([name, one]) => [name, one.ok && one.data])) as Data<Asked> };
}

export async function itemsOf<Row>(page: Promise<Result<{ items: Row[] }>>): Promise<Result<Row[]>> {
  const found = await page;
  return found.ok ? { ok: true, data: found.data.items } : found;
}

/** The timeout of a request, which is needed because a lost connection may cause no error. */
const ANSWER_WITHIN_MS = 30_000;

/**
 * Sends a request to the API. `path` may contain parameters. An age in the query, such as `since=15m`, is sent as a time. Returns the JSON of
 * the response, or the problem.
 */
export async function send(method: string, path: string, sent: Sent & { query?: object } = {}): Promise<Result<unknown>> {
  const { param = {}, query = {}, body, key } = sent;
  const at = path.replaceAll(/:(\w+)/g, (_, name) => encodeURIComponent(param[name] ?? ""));
  const asked = new URLSearchParams(Object.entries(query).flatMap(([name, value]) => (value ? [[name, wordOf(name, String(value))]] : [])));
  const unnamed = Object.values(param).find((name) => /^\.{1,2}$/.test(name));
  if (unnamed !== undefined) return { ok: false, problem: unsendable(`No address can name “${unnamed}”. Open it from a list.`) };
  const { token } = session.get();
  try {
    const answer = await fetch(asked.size > 0 ? `${at}?${asked}` : at, {
      method,
      headers: {
        accept: "application/json",
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(key && { "idempotency-key": quoted(key) }),
      },
      ...(body !== undefined && { body: jsonText(body) }),
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    if (answer.ok) return { ok: true, data: answer.status === 204 ? undefined : await answer.json() };
    const problem = await problemIn(answer);
    // `expired` makes the session show a sign-in dialog over the current screen.
    if (answer.status === 401 && token === session.get().token) expired(problem);
    return { ok: false, problem };
  } catch {
    return { ok: false, problem: unanswered(method !== "GET" && !isQuestion(path, body)) };
  }
}

const wordOf = (name: string, value: string) => (name === "since" || name === "until" ? sinceOf(value) : value);

function isQuestion(path: string, body: unknown): boolean {
  return path === "/v1/catalog/check" || (body as { dry_run?: boolean } | undefined)?.dry_run === true;
}

/** Formats a key as an RFC 8941 string, because a quoted key may contain all printable ASCII characters. */
export function quoted(key: string): string {
  return `"${key.replaceAll(/["\\]/g, "\\$&")}"`;
}
