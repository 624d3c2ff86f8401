import type { Context } from "hono";
import * as z from "zod";
import { assertDeclared, isFunction, isWhole } from "../../contract/declared.ts";
import { checkedTenant, firstOf, isTenant } from "../../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { instanceId } from "../../contract/ids.ts";
import { unknownFields } from "../../contract/known-fields.ts";
import { assertBounded, INTAKE_LIMITS, parseBounded } from "../../contract/limits.ts";
import { logLine } from "../../contract/log-line.ts";
import type { CommandDefinition, EventDefinition } from "../../contract/message.ts";
import { component } from "../../contract/row.ts";
import { beginning, shortened } from "../../contract/text.ts";
import { acceptCommand } from "../../intake/accept/enqueue.ts";
import { publishEvents } from "../../intake/accept/publish.ts";
import { statedId } from "../../intake/accept/stated.ts";
import { count } from "../../observe/metrics/count.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { isJsonType, mediaTypeOf, notTaken } from "../body.ts";
import { orThrow } from "../cloud-events.ts";
import type { HttpEnv } from "../env.ts";
import { operation } from "../operation.ts";
import { HttpRefusal, invalidRequest } from "../problem.ts";
import type { Operation } from "../router.ts";
import { signedText } from "../signed-text.ts";
import { keyOf, type WebhookScheme } from "../webhook-schemes.ts";

export interface InboundWebhook {
  /** The sender's id of the webhook, the same in each attempt. */
  readonly id: string;
  /** The sender's type, such as `invoice.paid`; "" without a type. */
  readonly type: string;
  /** The parsed body. For a form: its fields, or the JSON in its field `payload`. */
  readonly body: unknown;
  readonly headers: Headers;
}

export type InboundMessage = {
  readonly payload: unknown;
  /** Default: the tenant of the source. */
  readonly tenantId?: string;
} & (
  | {
      // biome-ignore lint/suspicious/noExplicitAny: the payload is validated when the webhook arrives
      readonly command: CommandDefinition<any, string, any>;
    }
  | {
      // biome-ignore lint/suspicious/noExplicitAny: the same
      readonly event: EventDefinition<any, string, any>;
    }
);

/** A sender of webhooks. */
export interface InboundSource {
  /** The last part of the path, `/inbound/{name}`, and the beginning of each idempotency key. */
  readonly name: string;
  readonly scheme: WebhookScheme;
  /** Names of the Worker's secrets. A webhook signed with any of these secrets is accepted; variables without a value are ignored. */
  readonly secrets: readonly string[];
  readonly tenantId: string;
  /** Returns undefined to acknowledge and ignore the webhook. */
  map(webhook: InboundWebhook): InboundMessage | undefined | Promise<InboundMessage | undefined>;
  /** Maximum size of a webhook's body in bytes; default 1 MiB, at most 4 MiB. */
  readonly maxBytes?: number;
}

/** The source's name and this id form an idempotency key, which has at most 500 characters. */
const MAX_ID_CHARACTERS = 400;

const FORM = "application/x-www-form-urlencoded";

const TakenSchema = component("InboundTaken", {
  ignored: z.boolean().describe("True when the source has no message for this webhook."),
  id: z.string().optional().describe("The id of the instance, or of the event."),
  replayed: z.boolean().optional().describe("True when the same webhook was accepted before."),
});

/**
 * Receives webhooks of other services: `engineRoutes(catalog, { routes: [inboundRoutes([source])] })`. Each source has the route
 * `POST /inbound/{name}`. A signed webhook becomes one command or event, with the sender's id as its idempotency key, and is acknowledged
 * after the command or event is committed. Errors: `config_invalid` for an invalid source.
 */
export function inboundRoutes(sources: readonly InboundSource[]): Operation[] {
  const names = sources.map((source) => checkedSource(source).name);
  assertDeclared(new Set(names).size === names.length, `Two sources of webhooks have one name: ${names.join(", ")}.`);
  return sources.map(routeOf);
}

function checkedSource(source: InboundSource): InboundSource {
  const { name, scheme, secrets, tenantId, map, maxBytes = INTAKE_LIMITS.maxBytes } = source;
  const named = `The source of webhooks "${shortened(String(name), 60)}"`;
  assertDeclared(/^[a-z][a-z0-9-]{0,39}$/.test(name), `${named} needs a name of lower case letters, digits and -, at most 40.`);
  assertDeclared(isFunction(scheme?.read), `${named} has no scheme: pass a scheme of millrace/http, such as webhooks.stripe.`);
  assertDeclared(Array.isArray(secrets) && secrets.length > 0, `${named} has no secrets: pass the names of the Worker's secrets.`);
  assertDeclared(isTenant(tenantId), `${named} has no tenant: set tenantId to up to 64 lower case letters, digits, - or _.`);
  assertDeclared(isFunction(map), `${named} has no map: pass a function from a webhook to a message.`);
  assertDeclared(isWhole(maxBytes, [1, INTAKE_LIMITS.maxBytes]), `${named}: maxBytes must be 1 to ${INTAKE_LIMITS.maxBytes}.`);
  return source;
}

function routeOf(source: InboundSource): Operation {
  const { name, scheme } = source;
  const schema = { type: "object" };
  const id = `receive${name.replaceAll(/(?:^|-)(.)/g, (_, letter: string) => letter.toUpperCase())}Webhook`;
  return operation("post", `/inbound/${name}`, id, undefined, {
    summary: `Receive a webhook of ${name}`,
    description: "The answer comes after the message is committed. The sender repeats deliveries without an answer of status 2xx.",
    security: [{ [`${name}-signature`]: [] }],
    schemes: {
      [`${name}-signature`]: { type: "apiKey", in: "header", name: scheme.header, description: `The signature of ${name}.` },
    },
    content: { "application/json": { schema }, [FORM]: { schema } },
    answer: {
      200: {
        description: "Accepted, known, or ignored. As text: the answer to a test of the address.",
        content: { "application/json": { schema: TakenSchema }, "text/plain": { schema: { type: "string" } } },
      },
    },
    problems: ["signature_invalid", "route_not_found", "unknown_message_type", "config_invalid"],
    run: ({ context, catalog }) => take(context, catalog, source),
  });
}

async function take(context: Context<HttpEnv>, catalog: Catalog, source: InboundSource): Promise<Response> {
  const { env, req } = context;
  const { name, scheme } = source;
  const counted = (outcome: string) => count(env, "inbound_webhooks_total", { source: name, outcome });
  const keys = () => keysOf(env, source);
  const text = await signedText(context, { ...source, keys }).catch((error: unknown) => {
    counted("refused");
    throw error;
  });
  let log = { log: "inbound", source: name, type: "", id: "" };
  try {
    const body = parsed(text, mediaTypeOf(req));
    const greeting = scheme.greet?.(body, req.raw.headers);
    if (greeting !== undefined) return context.text(greeting, 200);
    const said = scheme.nameOf(body, req.raw.headers);
    const webhook = { id: textOr(said.id), type: textOr(said.type), body, headers: req.raw.headers };
    log = { ...log, type: beginning(webhook.type, 100), id: beginning(webhook.id, 100) };
    const message = await source.map(webhook);
    const taken = message && (await accepted(env, catalog, source, webhook, message));
    counted(taken ? (taken.replayed ? "repeated" : "accepted") : "ignored");
    if (!taken) logLine("info", { ...log, outcome: "ignored" });
    return scheme.isSilent ? context.body(null, 200) : context.json({ ignored: !taken, ...taken }, 200);
  } catch (error) {
    counted("failed");
    // The error is logged, because the sender of a webhook does not show the answer to an operator.
    logLine("error", { ...log, outcome: "failed", code: codeOf(error), error: beginning(messageOf(error), 500) });
    throw error;
  }
}

function keysOf(env: object, { name, scheme, secrets }: InboundSource): Uint8Array[] {
  const values = secrets.map((secret) => (env as Record<string, unknown>)[secret]);
  const keys = values.flatMap((value) => (typeof value === "string" ? keyOf(scheme, value.trim()) : [])).filter(({ length }) => length > 0);
  if (keys.length > 0) return keys;
  const error = `The source "${name}" is closed. Set its secret with: wrangler secret put ${secrets[0]} (locally: a line in .dev.vars).`;
  logLine("error", { log: "config_invalid", error });
  throw new HttpRefusal("route_not_found", "This source has no secret in this deployment. The log of the Worker names it.");
}

function parsed(text: string, mediaType: string): unknown {
  if (isJsonType(mediaType)) return parseBounded(text);
  // The signature does not cover the media type. A signed JSON text, read as a form, would have fields that its sender did not write.
  if (mediaType !== FORM || /^\s*[[{]/.test(text)) throw notTaken(mediaType, "application/json", FORM);
  const fields = Object.fromEntries(new URLSearchParams(text));
  if (fields.payload !== undefined) return parseBounded(fields.payload);
  assertBounded(fields);
  return fields;
}

const textOr = (value: unknown) => (typeof value === "string" ? value : "");

/** Omits the fields that the schema would drop, because a sender sends many fields that the message does not need. */
function misfit({ detail: { issues = [] } }: MillraceError, { type }: InboundWebhook, message: InboundMessage): MillraceError {
  const definition = "event" in message ? message.event : message.command;
  const unknown = new Set(unknownFields(definition.payload, message.payload, ["payload"]).map(({ path }) => path));
  const wrong = issues.filter(({ path }) => !unknown.has(path));
  const said = wrong.length > 0 ? wrong : issues;
  const webhook = type === "" ? "This webhook" : `The webhook of the type "${beginning(type, 100)}"`;
  const text = `${webhook} does not match the ${definition.kind} ${definition.type}, to which this source maps it: ${firstOf(said)}.`;
  return new MillraceError("invalid_payload", text, { issues: said });
}

async function accepted(
  env: HttpEnv["Bindings"],
  catalog: Catalog,
  source: InboundSource,
  webhook: InboundWebhook,
  message: InboundMessage,
) {
  const { id } = webhook;
  if (id === "" || id.length > MAX_ID_CHARACTERS) {
    throw invalidRequest([{ path: "id", message: `of the webhook is missing, or has more than ${MAX_ID_CHARACTERS} characters` }]);
  }
  const by = { tenantId: checkedTenant(message.tenantId ?? source.tenantId), source: `inbound/${source.name}` };
  const idempotencyKey = `${source.name}/${id}`;
  const request = { payload: message.payload, idempotencyKey, causationId: `inbound/${idempotencyKey}` };
  try {
    if ("event" in message) {
      const [stated] = await publishEvents(env, catalog, by, [{ ...request, type: message.event.type }]);
      const { eventId, replayed } = orThrow(stated as NonNullable<typeof stated>);
      return { id: eventId, replayed };
    }
    const { instanceId: instance, replayed } = await acceptCommand(env, catalog, by, { ...request, type: message.command.type });
    return { id: instance, replayed };
  } catch (error) {
    if (error instanceof MillraceError && error.code === "invalid_payload") throw misfit(error, webhook, message);
    // A sender may repeat an event with a changed field, such as Stripe's `pending_webhooks`, and a deployment may have changed `map`.
    if (codeOf(error) !== "idempotency_key_reused") throw error;
    const known =
      "event" in message
        ? statedId(by.tenantId, message.event.type, idempotencyKey)
        : instanceId(by.tenantId, catalog.performer(message.command.type).name, idempotencyKey);
    return { id: known, replayed: true };
  }
}
