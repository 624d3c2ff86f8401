import { createExecutionContext } from "cloudflare:test";
import { engineRoutes } from "millrace/http";
import { type Scope, tokens } from "millrace/operate";
import { app } from "../probe/worker.ts";
import { fresh, probeEnv } from "./harness.ts";

const api = engineRoutes(app);

export interface Answered {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read
  body: any;
}

/** A caller of a tenant over HTTP, with a token that has these scopes. */
export async function asking(scopes: readonly Scope[] = ["enqueue", "read", "operate", "tokens"], tenantId = fresh("tenant")) {
  const token = await tokens.mint(probeEnv, { tenantId, actor: "tess", scopes });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const ask = async (path: string, body?: object, signal?: AbortSignal): Promise<Answered> => {
    const init = { headers, ...(body && { method: "POST", body: JSON.stringify(body) }), ...(signal && { signal }) };
    const response = await api.fetch(new Request(`http://localhost${path}`, init), probeEnv, createExecutionContext());
    return { status: response.status, body: await response.json() };
  };
  return { tenantId, get: (path: string, signal?: AbortSignal) => ask(path, undefined, signal), post: ask };
}

export type Asking = Awaited<ReturnType<typeof asking>>;
