import { env, exports } from "cloudflare:workers";
import { SCOPES, type Scope, tokens } from "millrace/operate";
import { expect } from "vitest";
import { OWN_SCOPES } from "../../src/api/vocabulary.ts";
import { until } from "../until.ts";
import { type Sent, undocumented } from "./document.ts";

export { until } from "../until.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests read any answer of the API, and assert its shape
export type Json = any;

export interface Answer {
  status: number;
  headers: Headers;
  body: Json;
}

let names = 0;

/** A name that is unique to one test. */
export function fresh(prefix = "t"): string {
  return `${prefix}-${++names}-${crypto.randomUUID().slice(0, 8)}`;
}

type Door = (request: Request) => Promise<Response> | Response;

/**
 * Sends a request to the Worker's fetch handler, or to another handler. The response, and each accepted request, must match the OpenAPI
 * document.
 */
export async function send(
  path: string,
  init: RequestInit = {},
  door: Door = (request) => exports.default.fetch(request),
): Promise<Answer> {
  const request = new Request(`http://localhost${path}`, { redirect: "manual", ...init });
  const { method, headers } = request;
  const response = await door(request);
  // Not `text()`: the runtime warns of media types that do not begin with "text".
  const text = new TextDecoder().decode(await bodyOf(path, response));
  const isJson = /[/+]json/.test(response.headers.get("content-type") ?? "");
  const answer = { status: response.status, headers: response.headers, body: isJson && text ? JSON.parse(text) : text };
  expect(await undocumented({ method, path, headers, body: textOf(init.body) }, answer), "differences from the OpenAPI document").toEqual(
    [],
  );
  return answer;
}

/** The beginning of an endless response. */
async function bodyOf(path: string, response: Response): Promise<ArrayBuffer | Uint8Array | undefined> {
  if (!path.startsWith("/v1/stream?") && path !== "/v1/stream") return response.arrayBuffer();
  const reader = response.body?.getReader();
  const beginning = await reader?.read();
  await reader?.cancel();
  return beginning?.value;
}

/** A body as text; a stream has been read. */
function textOf(body: RequestInit["body"]): Sent["body"] {
  if (body === undefined || body === null) return undefined;
  if (typeof body === "string") return body;
  return body instanceof Uint8Array ? new TextDecoder().decode(body) : null;
}

export const ALL_SCOPES: readonly Scope[] = [...SCOPES, ...OWN_SCOPES];

/** A caller of a tenant, with a token that has only these scopes. */
export async function callerWith(scopes: Scope[] = ["enqueue", "read", "operate"], tenantId = fresh("tenant"), actor = "ada") {
  const token = await tokens.mint(env, { tenantId, actor, scopes }, OWN_SCOPES);
  const authorization = `Bearer ${token}`;
  const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}, raw?: Uint8Array) =>
    send(path, {
      method,
      headers: { authorization, ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(raw && { body: raw }),
    });
  return {
    tenantId,
    token,
    call,
    get: (path: string) => call("GET", path),
    post: (path: string, body: unknown, headers?: Record<string, string>) => call("POST", path, body, headers),
    /** Requests the research of a keyword. */
    ask: (keyword: string, headers?: Record<string, string>) => call("POST", "/v1/commands", research(keyword), headers),
  };
}

export type Caller = Awaited<ReturnType<typeof callerWith>>;

export function research(keyword: string) {
  return { type: "research.requested", payload: { brand: "acme", keyword } };
}

/** Expects problem details with this status and code, and returns them. */
export function expectProblem(answer: Answer, status: number, code: string): Json {
  expect(answer.body).toMatchObject({
    type: `/problems#${code}`,
    title: expect.any(String),
    status,
    detail: expect.any(String),
    code,
    retryable: expect.any(Boolean),
  });
  expect(answer.status).toBe(status);
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  return answer.body;
}

export async function reaches(caller: Caller, id: string, status: string): Promise<Json> {
  const { body } = await until(
    () => caller.get(`/v1/instances/${id}`),
    ({ body }) => body.status === status,
  );
  expect(body.status).toBe(status);
  return body;
}
