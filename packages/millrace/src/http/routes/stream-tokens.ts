import * as z from "zod";
import { mintStreamToken, STREAM_PATH } from "../../access/stream-token.ts";
import { BODY_REFUSALS } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";
import { iso, timestamp } from "../time.ts";

const wanted = z.strictObject({
  path: z
    .string()
    .max(200)
    .regex(STREAM_PATH, "must be the path of a stream, such as /v1/stream or /v1/instances/{id}/stream, without a query")
    .meta({ description: "The path of the stream, without a query.", example: "/v1/stream" }),
});

const mint = createRoute({
  ...at("post", "/v1/stream-tokens", "mintStreamToken", "stream-tokens mint"),
  summary: "Mint a stream token for a browser",
  description:
    "For an EventSource, which cannot send `Authorization`. As `?token=`, it opens only the stream of this path, within 60 seconds, with the identity of your token. It is not stored and cannot be revoked separately: when your token ends, it and its streams end too.",
  ...needs("read"),
  request: { body: jsonBody(wanted) },
  responses: {
    201: answers("The token", z.object({ token: z.string(), path: z.string(), expires_at: timestamp })),
    ...problems(...BODY_REFUSALS),
  },
});

export function streamTokens() {
  return new Routes<HttpEnv>().openapi(mint, async (context) => {
    const { path } = await readBody(context.req, wanted);
    const { token, expiresAt } = mintStreamToken(context.env, context.var.caller, path);
    return context.json({ token, path, expires_at: iso(expiresAt) }, 201);
  });
}
