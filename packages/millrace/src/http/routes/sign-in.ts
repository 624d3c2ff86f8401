import * as z from "zod";
import { issueCode, signIn } from "../../access/sign-in.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const CallerSchema = z
  .object({
    tenant: z.string(),
    actor: z.string().meta({ description: "Your name in the audit and in messages." }),
    scopes: z.array(z.string()),
    expires_at: timestamp.nullable().meta({ description: "When your token expires; null for never, and without a token." }),
    at: timestamp.meta({ description: "The current time of the server. Ages are relative to this time." }),
  })
  .meta({ id: "Caller" });

const show = createRoute({
  ...at("get", "/v1/caller", "getCaller", "caller show"),
  summary: "Get the caller: tenant, name and scopes",
  description: "Returns the tenant, the actor and the scopes of the token, and the time of the server.",
  ...needs("read"),
  request: { query: z.strictObject({}) },
  responses: reads("You", CallerSchema),
});

const mint = createRoute({
  ...at("post", "/v1/sign-in-codes", "mintSignInCode", "sign-in-codes mint"),
  summary: "Mint a sign-in code for the console",
  description:
    "For a link such as `/console#code=…`, which keeps the token out of URLs. The code is valid once, within ten minutes. It is exchanged for a new token with your scopes that is valid for twelve hours, at most as long as yours. That token is listed and can be revoked like any other.",
  ...needs("read"),
  request: { body: jsonBody(reasoned) },
  responses: {
    201: answers("The code", z.object({ code: z.string(), expires_at: timestamp })),
    ...problems(...BODY_REFUSALS),
  },
});

const traded = z.strictObject({ code: z.string().max(200).meta({ description: "The value after `#code=` in the link." }) });

/** Limits of the body of an unauthenticated request, which contains only a sign-in code. */
const BODY_OF_STRANGERS = { maxBytes: 1024, withinMs: 3000 } as const;

const trade = createRoute({
  method: "post",
  path: "/console/sign-in",
  operationId: "signIn",
  summary: "Exchange a sign-in code for a token",
  description: "A code works once. The console keeps the token until its tab is closed.",
  security: [],
  request: { body: jsonBody(traded) },
  responses: {
    200: answers("You are signed in", CallerSchema.extend({ id: z.string(), token: z.string() }).meta({ id: "SignedIn" })),
    ...problems("invalid_json", "unauthorized", "payload_too_large", "unsupported_media_type", "invalid_payload"),
  },
});

export function signIns() {
  return new Routes<HttpEnv>()
    .openapi(show, ({ var: { caller }, json }) => {
      const { tenantId: tenant, actor, scopes, expiresAt } = caller;
      return json({ tenant, actor, scopes: [...scopes], expires_at: isoOrNull(expiresAt ?? null), at: iso(Date.now()) }, 200);
    })
    .openapi(mint, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      const { code, expiresAt } = await issueCode(env, caller, reason);
      return json({ code, expires_at: iso(expiresAt) }, 201);
    });
}

/** Builds the route that exchanges a sign-in code for a token. The route needs no token. */
export function consoleSignIn() {
  return new Routes<HttpEnv>().openapi(trade, async (context) => {
    context.header("cache-control", "no-store");
    const { code } = await readBody(context.req, traded, BODY_OF_STRANGERS);
    const { text, tenantId, token } = await signIn(context.env, code).catch((error: unknown) => {
      context.header("www-authenticate", 'Bearer realm="millrace"');
      throw error;
    });
    const { id, actor, scopes, expires_at } = token;
    const caller = { tenant: tenantId, actor, scopes, expires_at, at: iso(Date.now()) };
    return context.json({ id, token: text, ...caller }, 200);
  });
}
