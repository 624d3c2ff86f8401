import * as z from "zod";
import { callbackSecret } from "../../callbacks/secret.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const show = createRoute({
  ...at("get", "/v1/callback-secret", "getCallbackSecret", "callback-secret show"),
  summary: "Get the secret that signs the callbacks of your tenant",
  description:
    "The receiver verifies the signature with any library of Standard Webhooks. It proves that the call comes from this deployment and concerns your tenant. The secret is derived from `MILLRACE_KEY` and changes only with it.",
  ...needs("tokens"),
  responses: {
    200: answers("The secret", z.object({ secret: z.string().meta({ description: "`whsec_` followed by 32 bytes in base64." }) })),
    ...problems("unauthorized", "forbidden"),
  },
});

export function callbacks() {
  return new Routes<HttpEnv>().openapi(show, ({ env, var: { caller }, json }) =>
    json({ secret: callbackSecret(env.MILLRACE_KEY, caller.tenantId) }, 200),
  );
}
