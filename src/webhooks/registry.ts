import { batch, type Issue, MillraceError } from "../engine/index.ts";
import {
  type By,
  changeEndpoint,
  type Endpoint,
  type EndpointConfig,
  getEndpoint,
  insertEndpoint,
  MAX_ENDPOINTS,
  stateOf,
} from "./endpoints.ts";
import { checkTarget } from "./guard.ts";
import { endSecrets, firstSecret, MAX_SIGNING, rotate } from "./rotation.ts";
import { secretOf } from "./secret.ts";
import type { WebhookVars } from "./settings.ts";

type RegistryEnv = WebhookVars & { DB: D1Database };

/**
 * Registers an endpoint. The secret is in this answer and in no other.
 * Errors: `invalid_payload` for a URL that is not allowed, `invalid_transition` when the tenant has as many endpoints as it may.
 */
export async function register(env: RegistryEnv, by: By, config: EndpointConfig): Promise<{ id: string; secret: string }> {
  await requireAllowed(env, config.url);
  const id = crypto.randomUUID().replaceAll("-", "");
  const secret = secretOf(env.MILLRACE_KEY, by.tenantId, id, 1);
  const [inserted] = await batch(env.DB, [insertEndpoint(by, id, config), firstSecret(by.tenantId, id)]);
  if (inserted?.length !== 1) {
    throw new MillraceError("invalid_transition", `There are ${MAX_ENDPOINTS} endpoints already: delete one that is not needed.`);
  }
  return { id, secret };
}

/** What a change expects, and what it would make of it. */
interface Asked {
  version: number;
  config?: EndpointConfig;
  state?: "enabled" | "deleted";
}

/**
 * Makes a new version of an endpoint: another configuration, enabled as it is, or deleted for good. Undefined when there is none.
 * Errors: `invalid_payload` for a URL that is not allowed; `invalid_transition` when another version is in force than expected.
 */
export async function change(env: RegistryEnv, by: By, id: string, { version, config, state }: Asked): Promise<Endpoint | undefined> {
  const before = await getEndpoint(env.DB, by.tenantId, id);
  if (!before) return undefined;
  if (before.version !== version) throw moved(before, version);
  if (before.state === "deleted") throw isDeleted();
  if (state !== "deleted") await requireAllowed(env, (config ?? before).url);
  const next = { ...config, state: state ?? stateOf(config ?? { enabled: true }) };
  const statements = changeEndpoint(by, id, version, next);
  const answers = await batch(env.DB, state === "deleted" ? [...statements, endSecrets(by.tenantId, id)] : statements);
  const after = await getEndpoint(env.DB, by.tenantId, id);
  if (answers[1]?.length !== 1) throw moved(after ?? before, version);
  return after;
}

/**
 * Gives an endpoint a new secret; the one before goes on signing for the overlap. The secret is in this answer and in no other.
 * Undefined when there is no such endpoint. Errors: `invalid_transition` when it is deleted, or too many secrets sign already.
 */
export async function rotateSecret(
  env: RegistryEnv,
  by: By,
  id: string,
  overlapSeconds: number,
): Promise<{ secret: string; generation: number } | undefined> {
  const [rotated] = await batch(env.DB, rotate(by.tenantId, id, overlapSeconds));
  const generation = rotated?.[0]?.generation;
  if (generation !== undefined) {
    return { secret: secretOf(env.MILLRACE_KEY, by.tenantId, id, Number(generation)), generation: Number(generation) };
  }
  const endpoint = await getEndpoint(env.DB, by.tenantId, id);
  if (!endpoint) return undefined;
  if (endpoint.state === "deleted") throw isDeleted();
  throw new MillraceError(
    "invalid_transition",
    `${MAX_SIGNING} secrets of this endpoint sign already: wait until an overlap has ended, or rotate with a shorter one.`,
  );
}

/** A resolver that is silent does not keep anybody from registering: nothing is ever sent to a name that it has not answered for. */
async function requireAllowed(env: RegistryEnv, url: string): Promise<void> {
  const checked = await checkTarget(env, url);
  if (checked.verdict !== "refused") return;
  const issue: Issue = { path: "url", message: checked.reason };
  throw new MillraceError("invalid_payload", `The URL ${checked.reason}.`, { issues: [issue] });
}

function moved(endpoint: Endpoint, expected: number): MillraceError {
  return new MillraceError(
    "invalid_transition",
    `Version ${endpoint.version} is in force, not ${expected}: read it, then change that one.`,
    {
      from: String(endpoint.version),
      to: String(expected + 1),
    },
  );
}

function isDeleted(): MillraceError {
  return new MillraceError("invalid_transition", "The endpoint is deleted for good: register a new one.", { from: "deleted" });
}
