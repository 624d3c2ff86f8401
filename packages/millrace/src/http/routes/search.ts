import * as z from "zod";
import { hideNothing } from "../../contract/hide.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { type Finder, MOST_OF_A_KIND } from "../../inspect/search/finder.ts";
import { instanceThatAsks } from "../../inspect/search/others.ts";
import { search as lookFor } from "../../inspect/search/search.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { namesOf } from "../../topology/names.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { isoOrNull, timestamp } from "../time.ts";

/** What kinds of names look like: people read them in the document, and the tests of plans ask for each. */
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

const FindingSchema = z
  .object({
    kind: z.string().meta({ description: "What it is, such as `instance`, `correlation`, `dead_letter`, or a kind of the app's." }),
    id: z.string(),
    title: z.string().meta({ description: "A line for people: text, never to be shown as HTML." }),
    status: z.string().nullable(),
    at: timestamp.nullable().meta({ description: "When it came into being." }),
    url: z.string().meta({ description: "The route that shows it." }),
    by: z.string().meta({ description: "Which of its names is as the text says, such as `id`, `idempotency_key` or `subject`." }),
    match: z.enum(["exact", "prefix"]).meta({ description: "`prefix` where that name only begins so." }),
  })
  .meta({ id: "Finding" });

const show = createRoute({
  method: "get",
  path: "/v1/search",
  operationId: "search",
  summary: "Find anything by any id or key",
  description: [
    "Instances by id, key, subject, trace and the platform's id; jobs by correlation id; dead letters by id, key and job;",
    "effects, approvals, actions, events, schedules, pruned keys; and what the app adds.",
    "Ids that are hashes are found by their first 6 characters, other names by their first 3;",
    "a key of an instance only whole, because its id is a hash of it. No index serves a subject or a trace:",
    "for these the newest 2,000 instances are looked through, `looked_back` says until when, and `GET /v1/instances?subject=` goes on.",
  ].join(" "),
  ...needs("read"),
  request: {
    query: z.strictObject({
      q: z.string().min(1).max(500).meta({ description: "An id, a key, a subject, a traceparent, or how one begins.", examples: EXAMPLES }),
    }),
  },
  responses: {
    200: answers(
      "What was found, exact names first",
      z.object({
        items: z.array(FindingSchema),
        more: z.array(z.string()).meta({ description: `Kinds of which there are more than the ${MOST_OF_A_KIND} that are shown.` }),
        looked_back: z.object({
          instances: z.int().meta({ description: "So many of the newest were looked through for a subject or a trace." }),
          since: timestamp.nullable().meta({ description: "When the oldest of these was accepted; null where these are all." }),
        }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

/** The box that takes any id. `own` look for things of the app's. */
export function search(catalog: Catalog, own: readonly Finder[]) {
  const known = namesOf(catalog);
  return new Routes<HttpEnv>().openapi(show, async (context) => {
    const { q } = context.req.valid("query");
    const { items, more, lookedBack } = await lookFor(context.env, context.var.caller, q, { known, own });
    const looked = { instances: lookedBack.instances, since: isoOrNull(lookedBack.since) };
    const asked = items.flatMap(({ kind, id }) => (kind === "approval" ? [instanceThatAsks(id)] : []));
    const hide = asked.length === 0 ? () => hideNothing : await redactionOf(catalog).ofInstances(context.env, context.var.caller, asked);
    // What a question says is text of a run; every other title is made of names.
    const titled = (one: (typeof items)[number]) => (one.kind === "approval" ? hide(instanceThatAsks(one.id))(one.title) : one.title);
    const shown = items.map((one) => ({ ...one, title: titled(one), at: isoOrNull(one.at) }));
    return context.json({ items: shown, more, looked_back: looked }, 200);
  });
}
