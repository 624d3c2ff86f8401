import * as z from "zod";
import { issueToken, listTokens, revokeToken, SCOPES, TokenRow } from "../../access/tokens.ts";
import { chosenName, isVisible } from "../../contract/chosen-name.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { HttpRefusal, problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const MAX_DAYS = 366;

function schemasOf(own: readonly string[]) {
  const scope = z.enum([...new Set<string>([...SCOPES, ...own])]);
  const newTokenSchema = reasoned.extend({
    actor: chosenName(100)
      .refine(isVisible, "must contain a visible character")
      .meta({ description: "The name of the holder, for the audit and as the source of messages." }),
    scopes: z
      .array(scope)
      .min(1)
      .max(scope.options.length)
      .meta({ description: "The scopes of the new token, at most those of your token." }),
    days: z
      .int()
      .min(1)
      .max(MAX_DAYS)
      .optional()
      .meta({ description: "Days until it expires, at most as long as your token. Default 90, or the remaining time of your token." }),
  });

  const TokenSchema = TokenRow.meta({ id: "Token" });
  const MintedSchema = TokenSchema.extend({
    token: z.string().meta({ description: "The token. The token is shown only here: the database has only its hash." }),
  }).meta({ id: "MintedToken" });
  return { newTokenSchema, TokenSchema, MintedSchema };
}

const revoke = createRoute({
  ...at("delete", "/v1/tokens/{id}", "revokeToken", "tokens revoke"),
  summary: "Revoke a token",
  description:
    "A token used in the last 30 seconds may work for up to 30 more seconds. Tokens minted with it remain valid unless `descendants` is true.",
  ...needs("tokens"),
  request: {
    params: z.object({ id: z.string().max(100).meta({ description: "The 16 digits after `mr_`." }) }),
    query: z.strictObject({
      reason: z.string().trim().max(500).default("").meta({ description: "The reason, kept in the audit." }),
      descendants: z
        .enum(["true", "false"])
        .default("false")
        .meta({ description: "Also revoke all tokens minted with it, directly or indirectly, even if it is already revoked." }),
    }),
  },
  responses: {
    204: { description: "It is revoked" },
    ...problems("unauthorized", "forbidden", "invalid_payload", "token_not_found"),
  },
});

/** Builds the routes of tokens. The parameter `own` contains the scopes of the app. */
export function tokens(own: readonly string[]) {
  const { newTokenSchema, TokenSchema, MintedSchema } = schemasOf(own);

  const mint = createRoute({
    ...at("post", "/v1/tokens", "mintToken", "tokens mint"),
    summary: "Mint a token for your tenant",
    description:
      "Does not accept `Idempotency-Key`, because a token is returned once. If the answer was lost, revoke the listed token and mint another.",
    ...needs("tokens"),
    request: { body: jsonBody(newTokenSchema) },
    responses: {
      201: {
        ...answers("Minted", MintedSchema),
        headers: { Location: { description: "The URL of the token, to revoke it.", schema: { type: "string" as const } } },
      },
      ...problems(...BODY_REFUSALS, "invalid_transition"),
    },
  });

  const list = createRoute({
    ...at("get", "/v1/tokens", "listTokens", "tokens list"),
    summary: "List the tokens of your tenant, newest first",
    description: "Does not return token values. Expired tokens are listed for 30 days. The last use is recorded once per hour.",
    ...needs("tokens"),
    request: { query: z.strictObject(pageQuery) },
    responses: { 200: answers("A page of tokens", pageOf(TokenSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
  });

  return new Routes<HttpEnv>()
    .openapi(mint, async ({ env, req, var: { caller }, json }) => {
      const { actor, scopes, days, reason } = await readBody(req, newTokenSchema);
      const { text, token } = await issueToken(env, caller, { actor, scopes, days }, reason);
      return json({ ...token, token: text }, 201, { location: `/v1/tokens/${token.id}` });
    })
    .openapi(list, async ({ env, req, var: { caller }, json }) => json(page(await listTokens(env, caller, req.valid("query"))), 200))
    .openapi(revoke, async ({ env, req, var: { caller }, body }) => {
      const { reason, descendants } = req.valid("query");
      if (!(await revokeToken(env, caller, req.valid("param").id, reason, { descendants: descendants === "true" }))) {
        throw new HttpRefusal("token_not_found", "Your tenant has no such token. List its tokens with GET /v1/tokens.");
      }
      return body(null, 204);
    });
}
