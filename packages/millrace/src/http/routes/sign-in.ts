import * as z from "zod";
import { issueCode, signIn } from "../../access/sign-in.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const CallerSchema = z
  .object({
    tenant: z.string(),
    actor: z.string().meta({ description: "As the audit and messages name you." }),
    scopes: z.array(z.string()),
    expires_at: timestamp.nullable().meta({ description: "When your token ends; null for never, and for who came without one." }),
    at: timestamp.meta({ description: "What time it is here: ages are told by this clock." }),
  })
  .meta({ id: "Caller" });

const show = createRoute({
  method: "get",
  path: "/v1/caller",
  operationId: "getCaller",
  summary: "Show who you are: your tenant, your name, your scopes",
  ...needs("read"),
  request: { query: z.strictObject({}) },
  responses: { 200: answers("You", CallerSchema), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const mint = createRoute({
  method: "post",
  path: "/v1/sign-in-codes",
  operationId: "mintSignInCode",
  summary: "Mint a code that signs a browser in to the console, once",
  description:
    "For a link such as `/console#code=…`, which keeps the token itself out of addresses. Within ten minutes it is traded for a token of its own, which does what yours does, for twelve hours and no longer than yours works; it is listed, and revoked as any other.",
  ...needs("read"),
  request: { body: jsonBody(reasoned) },
  responses: {
    201: answers("The code", z.object({ code: z.string(), expires_at: timestamp })),
    ...problems(...BODY_REFUSALS),
  },
});

const traded = z.strictObject({ code: z.string().max(200).meta({ description: "What stands behind `#code=` in the link." }) });

/** Nobody is known yet: a body is as small as a code, and comes at once. */
const BODY_OF_STRANGERS = { maxBytes: 1024, withinMs: 3000 } as const;

const trade = createRoute({
  method: "post",
  path: "/console/sign-in",
  operationId: "signIn",
  summary: "Trade a sign-in code for a token",
  description: "Each code works once. A browser keeps the token in its memory alone.",
  security: [],
  request: { body: jsonBody(traded) },
  responses: {
    200: answers("You are signed in", CallerSchema.extend({ id: z.string(), token: z.string() }).meta({ id: "SignedIn" })),
    ...problems("invalid_json", "unauthorized", "payload_too_large", "unsupported_media_type", "invalid_payload"),
  },
});

/** Who asks, and how their browser is let in. */
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

/** The trade itself, for a browser that is not let in yet. */
export function consoleSignIn() {
  return new Routes<HttpEnv>().openapi(trade, async (context) => {
    context.header("cache-control", "no-store");
    const { code } = await readBody(context.req, traded, BODY_OF_STRANGERS);
    const { text, tenantId, token } = await signIn(context.env, code).catch((error: unknown) => {
      context.header("www-authenticate", 'Bearer realm="millrace"');
      throw error;
    });
    const { id, actor, scopes, expiresAt } = token;
    const caller = { tenant: tenantId, actor, scopes: [...scopes], expires_at: isoOrNull(expiresAt), at: iso(Date.now()) };
    return context.json({ id, token: text, ...caller }, 200);
  });
}
