import * as z from "zod";
import { issueCode, signIn } from "../../access/sign-in.ts";
import { mintStreamToken, STREAM_PATH } from "../../access/stream-token.ts";
import { issueToken, listTokens, revokeToken, SCOPES, TokenRow } from "../../access/tokens.ts";
import { callbackSecret } from "../../callbacks/send-callback.ts";
import { chosenName, isVisible } from "../../contract/chosen-name.ts";
import { component, iso, isoOrNull, timestamp } from "../../contract/row.ts";
import { needs, operation, reasoned } from "../operation.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { HttpRefusal } from "../problem.ts";

const MAX_DAYS = 366;

const TokenSchema = TokenRow.meta({ id: "Token" });
const MintedSchema = TokenSchema.extend({
  token: z.string().describe("The token. The token is shown only here: the database has only its hash."),
}).meta({ id: "MintedToken" });

/** `own` contains the scopes of the app. */
export function minting(own: readonly string[]) {
  const scope = z.enum([...new Set<string>([...SCOPES, ...own])]);
  return operation("post", "/v1/tokens", "mintToken", "tokens mint", {
    summary: "Mint a token for your tenant",
    description:
      "The token is returned once. If it is lost, revoke the listed token and mint another.\n\nDoes not accept `Idempotency-Key`.",
    ...needs("tokens"),
    body: reasoned.extend({
      actor: chosenName(100)
        .refine(isVisible, "must contain a visible character")
        .describe("The name of the holder, for the audit and as the source of messages."),
      scopes: z.array(scope).min(1).max(scope.options.length).describe("The scopes of the new token, at most those of your token."),
      days: z
        .optional(z.int().min(1).max(MAX_DAYS))
        .describe("Days until it expires, at most as long as your token. Default 90, or the remaining time of your token."),
    }),
    answer: ["Minted", MintedSchema],
    status: 201,
    location: "The URL of the token, to revoke it.",
    problems: ["invalid_transition"],
    async run({ env, by, body: { reason, ...wanted }, context }) {
      const { text, token } = await issueToken(env, by, wanted, reason);
      context.header("location", `/v1/tokens/${token.id}`);
      return { ...token, token: text };
    },
  });
}

const CallerSchema = component("Caller", {
  tenant: z.string(),
  actor: z.string().describe("Your name in the audit and in messages."),
  scopes: z.array(z.string()),
  expires_at: timestamp.nullable().describe("When your token expires; null for never, and without a token."),
  at: timestamp.describe("The current time of the server. Ages are relative to this time."),
});

export const tokens = [
  operation("get", "/v1/tokens", "listTokens", "tokens list", {
    summary: "List the tokens of your tenant, newest first",
    description: "Does not return token values. Expired tokens are listed for 30 days. The last use is recorded once per hour.",
    ...needs("tokens"),
    query: pageQuery,
    answer: ["A page of tokens", pageOf(TokenSchema)],
    run: async ({ env, by, query }) => page(await listTokens(env, by, query)),
  }),
  operation("delete", "/v1/tokens/{id}", "revokeToken", "tokens revoke", {
    summary: "Revoke a token",
    "x-final": "A revoked token never works again.",
    description:
      "A token used in the last 30 seconds may work for up to 30 more seconds. Tokens minted with it remain valid unless `descendants` is true.",
    ...needs("tokens"),
    params: { id: z.string().max(100).describe("The 16 digits after `mr_`.") },
    query: {
      reason: z.string().trim().max(500).default("").describe("The reason, kept in the audit."),
      descendants: z
        .enum(["true", "false"])
        .default("false")
        .describe("Also revoke all tokens minted with it, directly or indirectly, even if it is already revoked."),
    },
    answer: { 204: { description: "It is revoked" } },
    problems: ["token_not_found"],
    async run({ env, by, param, query: { reason, descendants }, context }) {
      if (!(await revokeToken(env, by, param.id, reason, { descendants: descendants === "true" }))) {
        throw new HttpRefusal("token_not_found", "Your tenant has no such token. List its tokens with GET /v1/tokens.");
      }
      return context.body(null, 204);
    },
  }),
  operation("get", "/v1/caller", "getCaller", "caller show", {
    summary: "Get the caller: tenant, name and scopes",
    description: "Returns the tenant, the actor and the scopes of the token, and the time of the server.",
    answer: ["You", CallerSchema],
    run({ by: { tenantId: tenant, actor, scopes, expiresAt } }) {
      return { tenant, actor, scopes: [...scopes], expires_at: isoOrNull(expiresAt ?? null), at: iso(Date.now()) };
    },
  }),
  operation("post", "/v1/stream-tokens", "mintStreamToken", "stream-tokens mint", {
    summary: "Mint a stream token for a browser",
    description:
      "For an EventSource, which cannot send `Authorization`. As `?token=`, it opens only the stream of this path, within 60 seconds, with the identity of your token. It is not stored and cannot be revoked separately: when your token ends, it and its streams end too.",
    ...needs("read"),
    body: z.strictObject({
      path: z
        .string()
        .max(200)
        .regex(STREAM_PATH, "must be the path of a stream, such as /v1/stream or /v1/instances/{id}/stream, without a query")
        .meta({ description: "The path of the stream, without a query.", example: "/v1/stream" }),
    }),
    answer: ["The token", z.object({ token: z.string(), path: z.string(), expires_at: timestamp })],
    status: 201,
    run({ env, by, body: { path } }) {
      const { token, expiresAt } = mintStreamToken(env, by, path);
      return { token, path, expires_at: iso(expiresAt) };
    },
  }),
  operation("get", "/v1/callback-secret", "getCallbackSecret", "callback-secret show", {
    summary: "Get the secret that signs the callbacks of your tenant",
    description:
      "The receiver verifies the signature with any library of Standard Webhooks. It proves that the call comes from this deployment and concerns your tenant. The secret is derived from `MILLRACE_KEY` and changes only with it.",
    ...needs("tokens"),
    answer: ["The secret", z.object({ secret: z.string().describe("`whsec_` followed by 32 bytes in base64.") })],
    run: ({ env, by }) => ({ secret: callbackSecret(env.MILLRACE_KEY, by.tenantId) }),
  }),
  operation("post", "/v1/sign-in-codes", "mintSignInCode", "sign-in-codes mint", {
    summary: "Mint a sign-in code for the console",
    description:
      "For a link such as `/console#code=…`, which keeps the token out of URLs. The code is valid once, within ten minutes. It is exchanged for a new token with your scopes that is valid for twelve hours, at most as long as yours. That token is listed and can be revoked like any other.",
    ...needs("read"),
    body: reasoned,
    answer: ["The code", z.object({ code: z.string(), expires_at: timestamp })],
    status: 201,
    async run({ env, by, body }) {
      const { code, expiresAt } = await issueCode(env, by, body.reason);
      return { code, expires_at: iso(expiresAt) };
    },
  }),
];

export const consoleSignIn = operation("post", "/console/sign-in", "signIn", undefined, {
  summary: "Exchange a sign-in code for a token",
  description: "A code works once. The console keeps the token until its tab is closed.",
  security: [],
  middleware(context, next) {
    context.header("cache-control", "no-store");
    return next();
  },
  body: z.strictObject({ code: z.string().max(200).describe("The value after `#code=` in the link.") }),
  // The body of an unauthenticated request contains only a sign-in code.
  limits: { maxBytes: 1024, withinMs: 3000 },
  answer: ["You are signed in", CallerSchema.extend({ id: z.string(), token: z.string() }).meta({ id: "SignedIn" })],
  problems: ["unauthorized"],
  async run({ env, body, context }) {
    const { text, tenantId, token } = await signIn(env, body.code).catch((error: unknown) => {
      context.header("www-authenticate", 'Bearer realm="millrace"');
      throw error;
    });
    const { id, actor, scopes, expires_at } = token;
    return { id, token: text, tenant: tenantId, actor, scopes, expires_at, at: iso(Date.now()) };
  },
});
