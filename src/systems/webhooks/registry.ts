import { atomically, type Issue, ids, MillraceError, namedBatch, query, type Statement, sql } from "millrace";
import { audit, auditLate } from "millrace/operate";
import {
  type By,
  changeEndpoint,
  type Endpoint,
  type EndpointConfig,
  getEndpoint,
  hasRoom,
  insertEndpoint,
  MAX_ENDPOINTS,
  MAX_VERSIONS,
  stateOf,
} from "./endpoints.ts";
import { checkTarget } from "./guard.ts";
import { endGeneration, endSecrets, firstSecret, MAX_SIGNING, rotate, type SecretGeneration, signingSecrets } from "./rotation.ts";
import { secretOf } from "./secret.ts";
import type { WebhookVars } from "./settings.ts";

type RegistryEnv = WebhookVars & { DB: D1Database };

/** How long a repeated registration returns the secret again, for a client that has lost the first response. */
const REPEATED_FOR_MS = 86_400_000;

/** An endpoint with the endpoint's secret. `replayed` is true if an earlier request with the same key has created the endpoint. */
interface Registered {
  id: string;
  secret: string;
  replayed: boolean;
}

/**
 * Registers an endpoint. Only this response contains the secret. A repeated request with the same key gets the secret again within a day,
 * if the endpoint was not changed. Throws `invalid_payload` for a URL that is not allowed. Throws `idempotency_key_reused` for another
 * request with the same key. Throws `invalid_transition` if the tenant has the maximum number of endpoints, or if the endpoint of the key
 * was changed.
 */
export async function register(env: RegistryEnv, by: By, asked: EndpointConfig, key?: string): Promise<Registered> {
  const config = await allowed(env, asked);
  const id = key === undefined ? crypto.randomUUID().replaceAll("-", "") : ids.digest("webhook endpoint", by.tenantId, key);
  const secret = secretOf(env.MILLRACE_KEY, by.tenantId, id, 1);
  const after = { ...publicly(config), state: stateOf(config) };
  const done = action(by, "register", id, after, { after });
  const { inserted } = await namedBatch(env.DB, {
    inserted: insertEndpoint(by, id, config),
    secret: firstSecret(by.tenantId, id),
    audited: done,
  });
  const replayed = inserted.length !== 1;
  if (replayed) await assertRepeated(env, by, id, config);
  return { id, secret, replayed };
}

/**
 * Checks why no endpoint was inserted. Throws an error unless the same request created the endpoint within the last day and the endpoint is
 * unchanged.
 */
async function assertRepeated(env: RegistryEnv, by: By, id: string, config: EndpointConfig): Promise<void> {
  const known = await getEndpoint(env.DB, by.tenantId, id);
  if (!known) {
    const [found] = await query<{ room: number }>(env.DB, sql`SELECT ${hasRoom(by.tenantId)} AS room`);
    if (found?.room !== 1) throw tooManyVersions();
    throw new MillraceError("invalid_transition", `There are ${MAX_ENDPOINTS} endpoints, the maximum: delete an unused one.`, {
      audited: true,
    });
  }
  const [newest] = await signingSecrets(env.DB, by.tenantId, id);
  if (known.version === 1 && !isAsked(known, config)) {
    throw new MillraceError(
      "idempotency_key_reused",
      `The key made the endpoint ${id} with another configuration. Use a new key for a new endpoint.`,
      {
        issues: [{ path: "Idempotency-Key", message: "is taken by another request" }],
        audited: true,
      },
    );
  }
  if (known.version === 1 && newest?.generation === 1 && known.created_at > Date.now() - REPEATED_FOR_MS) return;
  throw new MillraceError(
    "invalid_transition",
    `The key made the endpoint ${id}, which has been changed since, or is older than a day: read it, and rotate its secret if you have none.`,
    { audited: true },
  );
}

function isAsked(known: Endpoint, asked: EndpointConfig): boolean {
  const said = ({ url, fact_types, description }: Pick<EndpointConfig, "url" | "fact_types" | "description">) =>
    JSON.stringify([url, fact_types.toSorted(), description]);
  return said(known) === said(asked) && known.state === stateOf(asked);
}

interface Asked {
  version: number;
  config?: EndpointConfig;
  state?: "enabled" | "deleted";
}

/**
 * Adds a new version of an endpoint, which changes, enables, disables or deletes the endpoint. Returns undefined for an unknown endpoint.
 * Throws `invalid_payload` for a URL that is not allowed, and `invalid_transition` if the current version is not the expected version.
 */
export async function change(env: RegistryEnv, by: By, id: string, { version, config, state }: Asked): Promise<Endpoint | undefined> {
  const before = await getEndpoint(env.DB, by.tenantId, id);
  if (!before) return undefined;
  const verb = state === undefined ? "change" : state === "deleted" ? "delete" : "enable";
  const isLate = before.version > version || before.state === "deleted";
  if (isLate) await noteLate(env, by, verb, id, { version: version + 1 });
  if (before.version !== version) throw moved(before, version, isLate);
  if (before.state === "deleted") throw isDeleted();
  const checked = state === "deleted" ? undefined : await allowed(env, config ?? before);
  const next = { ...config, ...(checked && { url: checked.url }), state: state ?? stateOf(config ?? { enabled: true }) };
  const after = { version: version + 1, ...publicly({ ...before, ...next }), state: next.state };
  const done = action(by, verb, id, after, { before: { version, ...publicly(before), state: before.state }, after });
  const [replaced, newest] = changeEndpoint(by, id, version, next);
  const { inserted } = await namedBatch(env.DB, {
    replaced,
    inserted: newest,
    audited: done,
    secrets: state === "deleted" ? endSecrets(by.tenantId, id) : [],
  });
  const now = await getEndpoint(env.DB, by.tenantId, id);
  if (inserted.length !== 1) throw now?.version === version ? tooManyVersions() : moved(now ?? before, version, true);
  return now;
}

/**
 * Gives an endpoint a new secret. The previous secret also signs during the overlap. Only this response contains the new secret. Returns
 * undefined for an unknown endpoint. Throws `invalid_transition` if the endpoint is deleted, or too many secrets sign already.
 */
export async function rotateSecret(
  env: RegistryEnv,
  by: By,
  id: string,
  overlapSeconds: number,
): Promise<{ secret: string; generation: number } | undefined> {
  const endpoint = await getEndpoint(env.DB, by.tenantId, id);
  if (!endpoint) return undefined;
  if (endpoint.state === "deleted") {
    await noteLate(env, by, "rotate", id, { overlap_seconds: overlapSeconds });
    throw isDeleted();
  }
  const [next, ends] = rotate(by.tenantId, id, overlapSeconds);
  const { rotated } = await namedBatch(env.DB, {
    rotated: next,
    audited: action(by, "rotate", id, { overlap_seconds: overlapSeconds }),
    ends,
  });
  const generation = rotated[0]?.generation;
  if (generation !== undefined) {
    return { secret: secretOf(env.MILLRACE_KEY, by.tenantId, id, Number(generation)), generation: Number(generation) };
  }
  throw new MillraceError(
    "invalid_transition",
    `${MAX_SIGNING} secrets of this endpoint sign already: wait until an overlap has ended, or rotate with a shorter one.`,
    { audited: true },
  );
}

/**
 * Ends a generation of an endpoint's secret immediately, even during the overlap. The newest generation cannot be ended. Returns the
 * generations that still sign, or undefined for an unknown endpoint. Repeatable. Throws `invalid_transition` for the newest generation and
 * for an unknown generation.
 */
export async function endSecret(env: RegistryEnv, by: By, id: string, generation: number): Promise<SecretGeneration[] | undefined> {
  const endpoint = await getEndpoint(env.DB, by.tenantId, id);
  if (!endpoint) return undefined;
  await atomically(env.DB, [endGeneration(by.tenantId, id, generation), action(by, "end_secret", id, { generation })]);
  const signing = await signingSecrets(env.DB, by.tenantId, id);
  const newest = signing[0]?.generation ?? 0;
  if (generation < newest || endpoint.state === "deleted") return signing;
  const said =
    generation === newest
      ? "is the newest: rotate with overlap_seconds 0, which ends it and gives you another one"
      : `does not exist: the newest is ${newest}`;
  throw new MillraceError("invalid_transition", `The secret of generation ${generation} ${said}.`, { audited: true });
}

type Verb = "register" | "change" | "enable" | "delete" | "rotate" | "end_secret";

/** Returns the statement for the audit row of an action on an endpoint. This statement must directly follow the statement of the action. */
function action(
  by: By,
  verb: Verb,
  id: string,
  detail: object,
  changed: Pick<Parameters<typeof audit>[1], "before" | "after"> = {},
): Statement {
  return audit(by, { ...actionOf(verb, id, detail), ...changed }, false);
}

/** Audits a change that failed because another change came first. */
async function noteLate(env: RegistryEnv, by: By, verb: Verb, id: string, detail: object): Promise<void> {
  await atomically(env.DB, [auditLate(by, actionOf(verb, id, detail))]);
}

function actionOf(verb: Verb, id: string, detail: object) {
  return { id: crypto.randomUUID(), verb, target: id, instanceId: null, reason: "", detail: { ...detail } };
}

/**
 * Returns the audited part of an endpoint's configuration. Path and query of the URL are omitted, because they may contain a secret of the
 * receiver.
 */
function publicly({ url, fact_types }: Pick<EndpointConfig, "url" | "fact_types">): Record<string, unknown> {
  return { host: new URL(url).host, fact_types };
}

/**
 * Returns a configuration with the URL in normalised form, if the URL is allowed. An unresponsive resolver does not prevent the
 * registration, because no request is sent before the host name is resolved.
 */
async function allowed<Config extends { url: string }>(env: RegistryEnv, config: Config): Promise<Config> {
  const url = URL.canParse(config.url) ? calledAs(new URL(config.url)) : config.url;
  const checked = await checkTarget(env, url);
  if (checked.verdict !== "refused") return { ...config, url };
  const issue: Issue = { path: "url", message: checked.reason };
  throw new MillraceError("invalid_payload", `The URL ${checked.reason}.`, { issues: [issue] });
}

/** Returns a URL without the part after `#`, which is never sent. */
function calledAs(url: URL): string {
  url.hash = "";
  return url.href;
}

function tooManyVersions(): MillraceError {
  return new MillraceError(
    "invalid_transition",
    `The endpoints of a tenant have at most ${MAX_VERSIONS} versions, replaced ones too, and yours have as many: facts of long ago are matched against them. An endpoint can still be deleted.`,
    { audited: true },
  );
}

function moved(endpoint: Endpoint, expected: number, audited: boolean): MillraceError {
  return new MillraceError(
    "invalid_transition",
    `Version ${endpoint.version} is in force, not ${expected}: read it, then change that one.`,
    {
      from: String(endpoint.version),
      to: String(expected + 1),
      audited,
    },
  );
}

function isDeleted(): MillraceError {
  return new MillraceError("invalid_transition", "The endpoint is deleted for good: register a new one.", {
    from: "deleted",
    audited: true,
  });
}
