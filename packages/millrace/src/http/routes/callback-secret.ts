import * as z from "zod";
import { callbackSecret } from "../../callbacks/secret.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";

const show = createRoute({
  method: "get",
  path: "/v1/callback-secret",
  operationId: "getCallbackSecret",
  summary: "Show the secret that signs your tenant's callbacks",
  description:
    "Whoever is called verifies with it that the call is this deployment's, and about your tenant: by any library of Standard Webhooks. It is derived from `MILLRACE_KEY`, and changes with that alone.",
  ...needs("tokens"),
  responses: {
    200: answers("The secret", z.object({ secret: z.string().meta({ description: "`whsec_` and 32 bytes in base64." }) })),
    ...problems("unauthorized", "forbidden"),
  },
});

export function callbacks() {
  return new Routes<HttpEnv>().openapi(show, ({ env, var: { caller }, json }) =>
    json({ secret: callbackSecret(env.MILLRACE_KEY, caller.tenantId) }, 200),
  );
}
