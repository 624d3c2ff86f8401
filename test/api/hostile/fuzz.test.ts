import { env, exports } from "cloudflare:workers";
import { expect, inject, it, onTestFinished } from "vitest";
import { within } from "../../within.ts";
import { ALL_SCOPES, type Caller, callerWith, type Json } from "../client.ts";
import { undocumented } from "../document.ts";
import { type Operation, operations } from "../operations.ts";
import { seedApproval, seedBatch, seedEffect, seedInstance, seedLetter } from "../seed.ts";
import { type Input, inputOf } from "./inputs.ts";
import { randomOf } from "./random.ts";

declare module "vitest" {
  interface ProvidedContext {
    fuzz: { seed: number; inputs: number };
  }
}

const { seed, inputs } = inject("fuzz");
/** The number of concurrent requests. */
const AT_ONCE = 24;
/** Requests per token. */
const PER_TOKEN = 500;
/** The timeout of a response. */
const ANSWER_WITHIN_MS = 20_000;
/** The maximum number of bytes read of an endless response, such as a stream of events. */
const READ_BYTES = 1_000_000;
const READ_MS = 300;

/** Text that no response may contain: internals, and secrets. */
const TELLS = /D1_ERROR|SQLITE_|\bat (async )?\S+ \(\S+:\d+:\d+\)|node_modules|\/src\/|TypeError|ReferenceError|RangeError|SyntaxError/;

/** One item of each kind that a tenant has. */
async function possessions(tenantId: string): Promise<string[]> {
  const instance = await seedInstance(tenantId, { status: "complete" });
  const doubtful = await seedInstance(tenantId, { status: "in_doubt" });
  const [effect, letter, approval, batch] = await Promise.all([
    seedEffect(doubtful),
    seedLetter(tenantId),
    seedApproval(tenantId),
    seedBatch(tenantId, instance),
  ]);
  return [instance, doubtful, effect, letter, approval, batch];
}

/** Sends one input, and returns the error of its response as a sentence; undefined if the response is correct. */
async function wrongWith(input: Input, secrets: readonly string[]): Promise<string | undefined> {
  let request: Request;
  const { method, headers } = input;
  const body = method === "GET" || method === "HEAD" ? undefined : input.body;
  try {
    request = new Request(`http://localhost${input.path}`, { method, headers, redirect: "manual", ...(body !== undefined && { body }) });
  } catch {
    // No HTTP client can send this input.
    return undefined;
  }
  const sentAs = { method: request.method, path: input.path, headers: new Headers(request.headers), body };
  const response = await within(exports.default.fetch(request), ANSWER_WITHIN_MS).catch((error: unknown) => String(error));
  if (typeof response === "string") return `no answer: ${response}`;
  const text = await textOf(response);
  if (response.status >= 500) return `${response.status}: ${text.slice(0, 300)}`;
  const told = secrets.find((secret) => text.includes(secret)) ?? TELLS.exec(response.status >= 400 ? text : "")?.[0];
  if (told !== undefined) return `the response (${response.status}) contains ${told}: ${text.slice(0, 300)}`;
  const isJson = /[/+]json/.test(response.headers.get("content-type") ?? "");
  const answer: Json = { status: response.status, headers: response.headers, body: isJson && text ? JSON.parse(text) : text };
  if (isEndless(response)) return undefined;
  const faults = await undocumented(sentAs, answer);
  // Public pages accept any query parameter.
  return faults.find((fault) => input.path.startsWith("/v1/") || !fault.includes("the query has"));
}

const isEndless = ({ headers }: Response) => headers.get("content-type")?.startsWith("text/event-stream") === true;

async function textOf(response: Response): Promise<string> {
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const over = scheduler.wait(READ_MS).then(() => undefined);
  while (text.length < READ_BYTES) {
    const part = await Promise.race([reader.read(), ...(isEndless(response) ? [over] : [])]);
    if (part === undefined || part.done) break;
    text += decoder.decode(part.value, { stream: true });
  }
  await reader.cancel();
  return text;
}

const secretOf = (token: string) => token.split("_").slice(2).join("_");

function shown({ method, path, headers, body }: Input): string {
  return `${method} ${path.slice(0, 300)} ${JSON.stringify(headers)} ${JSON.stringify(body)?.slice(0, 500)}`;
}

/**
 * Work that the inputs started continues after the test unless it is ended. Erasure of a person is the most expensive: it searches all
 * stored data.
 */
async function quiet({ tenantId, post }: Caller): Promise<void> {
  for (const table of ["millrace_schedules", "webhook_versions"]) {
    await env.DB.prepare(`DELETE FROM ${table} WHERE tenant_id = ?1`).bind(tenantId).run();
  }
  const { results } = await env.DB.prepare(
    "SELECT id FROM millrace_instances WHERE tenant_id = ?1 AND status IN ('accepted', 'queued', 'running', 'waiting')",
  )
    .bind(tenantId)
    .all();
  await Promise.all(results.map(({ id }) => post(`/v1/instances/${id}/cancel`, { reason: "the test is over" })));
}

// To run more inputs, or other inputs: MILLRACE_FUZZ_SEED=4711 MILLRACE_FUZZ_INPUTS=100000 npx vitest run --project app
// test/api/hostile/fuzz.test.ts
it(`${inputs} hostile requests over every route cause no internal error, no hang and no leaked secret, and get documented answers`, {
  timeout: 120_000 + inputs * 60,
}, async () => {
  const { all, resolve } = await operations();
  // Faults set in the stand-ins would affect other tests.
  const scopes = ALL_SCOPES.filter((scope) => scope !== "embedded");
  const [owner, stranger] = [await callerWith(scopes), await callerWith([...ALL_SCOPES])];
  const ids = [...(await possessions(owner.tenantId)), ...(await possessions(stranger.tenantId)), "acme", "1"];
  onTestFinished(() => quiet(owner));
  const secrets = [owner, stranger].map(({ token }) => secretOf(token));
  const began = Date.now();
  const found: string[] = [];
  const asked = new Set<string>();
  // A token has a rate limit per ten seconds: several tokens share the work, each with the tenant's items.
  const tokens = await Promise.all(
    Array.from({ length: Math.ceil(inputs / PER_TOKEN) }, () => callerWith(scopes, owner.tenantId).then(({ token }) => token)),
  );
  // Public routes have few inputs, and the OpenAPI document is long: a few repeats are sufficient.
  const known = all.filter(({ scopes }) => scopes.length > 0);
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < inputs; index = next++) {
      const among = index < all.length * 5 ? all : known;
      const operation = among[index % among.length] as Operation;
      const token = tokens[Math.floor(index / PER_TOKEN)] ?? "";
      const input = inputOf(operation, { resolve, ids, token }, randomOf(seed * 1_000_003 + index));
      const wrong = await wrongWith(input, [...secrets, secretOf(token)]);
      asked.add(`${operation.method} ${operation.path}`);
      if (wrong) found.push(`#${index} ${shown(input)}: ${wrong}`.replaceAll(token, "mr_…"));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  console.log(`${inputs} inputs of the seed ${seed} over ${asked.size} operations in ${((Date.now() - began) / 1000).toFixed(1)} s.`);
  expect(asked.size).toBe(all.length);
  expect(found.slice(0, 20), `${found.length} of ${inputs} inputs of the seed ${seed}`).toEqual([]);
});
