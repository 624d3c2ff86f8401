import * as z from "zod";
import { hideNothing } from "../../contract/hide.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { type Finder, MOST_OF_A_KIND } from "../../inspect/search/finder.ts";
import { instanceThatAsks } from "../../inspect/search/finders.ts";
import { Finding, LookedBack, search as lookFor } from "../../inspect/search/search.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { namesOf } from "../../topology/names.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

/** An example of each kind of id or key, for the OpenAPI document and for the tests of query plans. */
const EXAMPLES = [
  "5f0c2d9a1b3e4c6d8f7a9b0c1d2e3f40",
  "5f0c2d9a",
  "order-4711",
  "acme/cold-brew",
  "5f0c2d9a1b3e4c6d8f7a9b0c1d2e3f40.0a1b2c3d4e5f6071",
  "5f0c2d9a1b3e4c6d8f7a9b0c1d2e3f40-0a1b2c3d4e5f6071",
  "WyI1ZjBjMmQ5YTFiM2U0YzZkOGY3YTliMGMxZDJlM2Y0MCIsInB1dCBwYWdlIiwiIiwxXQ",
  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
];

const show = createRoute({
  ...at("get", "/v1/search", "search", "search"),
  summary: "Search by any id or key",
  description: [
    "Finds instances by id, key, subject, trace and platform id; jobs by correlation id; dead letters by id, key and job;",
    "effects, approvals, actions, events, schedules and pruned keys; and items of the app.",
    "Hash ids match by their first 6 characters, other names by their first 3;",
    "the key of an instance matches only as a whole. A subject or a trace has no index:",
    "the search scans the newest 2,000 instances and reports the range in `looked_back`. `GET /v1/instances?subject=` searches further.",
  ].join(" "),
  ...needs("read"),
  request: {
    query: z.strictObject({
      q: z
        .string()
        .min(1)
        .max(500)
        .meta({ description: "An id, a key, a subject, a traceparent, or the beginning of one.", examples: EXAMPLES }),
    }),
  },
  responses: {
    200: answers(
      "The results, exact matches first",
      z.object({
        items: z.array(Finding),
        more: z.array(z.string()).meta({ description: `Kinds with more results than the ${MOST_OF_A_KIND} shown.` }),
        looked_back: LookedBack,
      }),
    ),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

/** Builds the route that searches by any id. The parameter `own` contains the finders of the app. */
export function search(catalog: Catalog, own: readonly Finder[]) {
  const known = namesOf(catalog);
  return new Routes<HttpEnv>().openapi(show, async (context) => {
    const { q } = context.req.valid("query");
    const found = await lookFor(context.env, context.var.caller, q, { known, own });
    const asked = found.items.flatMap(({ kind, id }) => (kind === "approval" ? [instanceThatAsks(id)] : []));
    const hide = asked.length === 0 ? () => hideNothing : await redactionOf(catalog).ofInstances(context.env, context.var.caller, asked);
    // The title of a question is text from a run, which may be sensitive. All other titles consist of names.
    const titled = (one: Finding) => (one.kind === "approval" ? hide(instanceThatAsks(one.id))(one.title) : one.title);
    return context.json({ ...found, items: found.items.map((one) => ({ ...one, title: titled(one) })) }, 200);
  });
}
