import * as z from "zod";
import { assertSchema } from "../../inspect/health.ts";
import { keeperAge } from "../../keeper/client.ts";
import type { Schema } from "../../store/schema.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const HealthSchema = z.object({
  ok: z.literal(true),
  keeper_seconds: z.int().nullable().meta({
    description:
      "Seconds since the last run of the keeper: about ten in a healthy deployment. Null if its alarm was not set; this request has set it.",
  }),
});

const healthz = createRoute({
  ...at("get", "/healthz", "getHealth", "health show"),
  summary: "Check the deployment, its database and the migrations",
  description:
    "Answers 200 if the deployment and its database work and all migrations are applied. 500 `config_invalid` names the first missing migration.",
  security: [],
  responses: { 200: answers("Healthy", HealthSchema), ...problems("config_invalid") },
});

export function health(schema: Schema) {
  return new Routes<HttpEnv>().openapi(healthz, async (context) => {
    await assertSchema(context.env, schema);
    context.header("cache-control", "no-store");
    const ageMs = await keeperAge(context.env);
    return context.json({ ok: true as const, keeper_seconds: ageMs === null ? null : Math.round(ageMs / 1000) }, 200);
  });
}
