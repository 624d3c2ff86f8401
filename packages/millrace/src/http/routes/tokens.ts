import * as z from "zod";
import { issueToken, listTokens, revokeToken, SCOPES, type TokenRow } from "../../access/tokens.ts";
import { chosenName, isVisible } from "../../contract/chosen-name.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { HttpRefusal, problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const MAX_DAYS = 366;

/** Tokens as the document has them, whose scopes are the engine's and the app's `own`. */
function schemasOf(own: readonly string[]) {
  const scope = z.enum([...new Set<string>([...SCOPES, ...own])]);
  const newTokenSchema = reasoned.extend({
    actor: chosenName(100)
      .refine(isVisible, "must have a character that can be seen")
      .meta({ description: "Who will hold it: named in the audit, and as the source of messages." }),
    scopes: z.array(scope).min(1).max(scope.options.length).meta({ description: "What it may do: nothing that your own token may not." }),
    days: z
      .int()
      .min(1)
      .max(MAX_DAYS)
      .optional()
      .meta({ description: "How long it works: no longer than your own token. Default 90, or what yours has left." }),
  });

  const TokenSchema = z
    .object({
      id: z.string(),
      actor: z.string(),
      scopes: z.array(scope),
      created_at: timestamp,
      expires_at: timestamp.nullable().meta({ description: "Null is never." }),
      last_used_at: timestamp.nullable().meta({ description: "At most an hour before its last use; null where it has not been used." }),
      signed_in: z
        .boolean()
        .meta({ description: "True for a browser's, by a sign-in link: it ends with its twelve hours, and counts by itself." }),
    })
    .meta({ id: "Token" });

  const MintedSchema = TokenSchema.extend({
    token: z.string().meta({ description: "The token itself. It is said here and never again: only a hash of it is kept." }),
  }).meta({ id: "MintedToken" });
  return { newTokenSchema, TokenSchema, MintedSchema };
}

const revoke = createRoute({
  method: "delete",
  path: "/v1/tokens/{id}",
  operationId: "revokeToken",
  summary: "Revoke a token",
  description:
    "Where it was used in the last 30 seconds, it may work for as long once more. Tokens that it minted go on, unless `descendants` is true: then all that come from it end with it.",
  ...needs("tokens"),
  request: {
    params: z.object({ id: z.string().max(100).meta({ description: "The 16 digits after `mr_`." }) }),
    query: z.strictObject({
      reason: z.string().trim().max(500).default("").meta({ description: "Why; kept in the audit." }),
      descendants: z
        .enum(["true", "false"])
        .default("false")
        .meta({ description: "Also all that it minted, and those that these minted; even where it is revoked already." }),
    }),
  },
  responses: {
    204: { description: "It is revoked" },
    ...problems("unauthorized", "forbidden", "invalid_payload", "token_not_found"),
  },
});

/** Minting, listing and revoking tokens. `own` are scopes of the app's own. */
export function tokens(own: readonly string[]) {
  const { newTokenSchema, TokenSchema, MintedSchema } = schemasOf(own);

  const mint = createRoute({
    method: "post",
    path: "/v1/tokens",
    operationId: "mintToken",
    summary: "Mint a token for somebody of your tenant",
    description:
      "It takes no `Idempotency-Key`, because a token is said once. If the answer was lost, revoke the token that the list shows, and mint another.",
    ...needs("tokens"),
    request: { body: jsonBody(newTokenSchema) },
    responses: {
      201: {
        ...answers("Minted", MintedSchema),
        headers: { Location: { description: "The token's address: to revoke it there.", schema: { type: "string" as const } } },
      },
      ...problems(...BODY_REFUSALS, "invalid_transition"),
    },
  });

  const list = createRoute({
    method: "get",
    path: "/v1/tokens",
    operationId: "listTokens",
    summary: "List your tenant's tokens, newest first",
    description:
      "Without what they are; those that expired stay for 30 days. The last use is noted once an hour: that of this hour may have been later.",
    ...needs("tokens"),
    request: { query: z.strictObject(pageQuery) },
    responses: { 200: answers("A page of tokens", pageOf(TokenSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
  });

  return new Routes<HttpEnv>()
    .openapi(mint, async ({ env, req, var: { caller }, json }) => {
      const { actor, scopes, days, reason } = await readBody(req, newTokenSchema);
      const { text, token } = await issueToken(env, caller, { actor, scopes, days }, reason);
      return json({ ...tokenView(token), token: text }, 201, { location: `/v1/tokens/${token.id}` });
    })
    .openapi(list, async ({ env, req, var: { caller }, json }) =>
      json(page(await listTokens(env, caller, req.valid("query")), tokenView), 200),
    )
    .openapi(revoke, async ({ env, req, var: { caller }, body }) => {
      const { reason, descendants } = req.valid("query");
      if (!(await revokeToken(env, caller, req.valid("param").id, reason, { descendants: descendants === "true" }))) {
        throw new HttpRefusal("token_not_found", "Your tenant has no such token. GET /v1/tokens lists those it has.");
      }
      return body(null, 204);
    });
}

function tokenView({ createdAt, expiresAt, usedAt, ...token }: TokenRow): z.infer<ReturnType<typeof schemasOf>["TokenSchema"]> {
  return {
    ...{ id: token.id, actor: token.actor, scopes: [...token.scopes], signed_in: token.signedIn },
    ...{ created_at: iso(createdAt), expires_at: isoOrNull(expiresAt), last_used_at: isoOrNull(usedAt) },
  };
}
