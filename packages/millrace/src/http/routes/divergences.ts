import * as z from "zod";
import { countDivergences, type DivergenceRow, listDivergences } from "../../inspect/divergences.ts";
import { needsOneOf } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const STATES = ["suspected", "mending", "open", "mended", "gone"] as const;

const DivergenceSchema = z
  .object({
    kind: z.string().meta({ description: "The kind. See docs/reconciliation.md for the meaning and the fix of each." }),
    what: z.string().meta({ description: "The id of an instance, message, dead letter or action, or a digest of a named item." }),
    detail: z.string().meta({ description: "The values of both sides." }),
    state: z.enum(STATES).meta({
      description:
        "`suspected`: observed once. `mending`: just repaired. `open`: observed again; needs an operator. `mended`: repaired. `gone`: no longer present.",
    }),
    first_seen_at: timestamp,
    last_seen_at: timestamp,
    times: z.int().meta({ description: "The number of observations." }),
    mends: z.int().meta({ description: "The number of repairs." }),
    ended_at: timestamp.nullable(),
  })
  .meta({ id: "Divergence" });

const PageSchema = pageOf(DivergenceSchema).extend({
  open: z.record(z.string(), z.int()).meta({ description: "The number of open ones, by kind." }),
});

const list = createRoute({
  method: "get",
  path: "/v1/divergences",
  operationId: "listDivergences",
  command: "divergences list",
  summary: "List divergences, newest first",
  description: "The scope `observe` reads the divergences of all tenants, the scope `read` those of the token's tenant.",
  ...needsOneOf("read", "observe"),
  request: {
    query: z.strictObject({ state: z.enum(STATES).default("open"), kind: z.string().min(1).max(100).optional(), ...pageQuery }),
  },
  responses: { 200: answers("A page of divergences", PageSchema), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

export function divergences() {
  return new Routes<HttpEnv>().openapi(list, async ({ env, req, var: { caller }, json }) => {
    const [found, open] = await Promise.all([listDivergences(env, caller, req.valid("query")), countDivergences(env, caller)]);
    return json({ ...page(found, divergenceView), open }, 200);
  });
}

function divergenceView({ firstAt, seenAt, endedAt, ...row }: DivergenceRow): z.infer<typeof DivergenceSchema> {
  return { ...row, first_seen_at: iso(firstAt), last_seen_at: iso(seenAt), ended_at: isoOrNull(endedAt) };
}
