import * as z from "zod";
import { unknownName } from "../../contract/known-fields.ts";
import { Collapsed, JobNode, JobSummary, readJob } from "../../inspect/correlation.ts";
import { describeKey, KeyView } from "../../inspect/keys.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import type { Finding } from "../../inspect/search/finder.ts";
import { instanceThatAsks } from "../../inspect/search/finders.ts";
import { Findings, search } from "../../inspect/search/search.ts";
import { namesOf } from "../../topology/catalog.ts";
import { operation } from "../operation.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { invalidRequest } from "../problem.ts";

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

export const finding = [
  operation("get", "/v1/search", "search", "search", {
    summary: "Search by any id or key",
    description: [
      "Finds instances by id, key, subject and trace; jobs by correlation id; dead letters by id, key and job;",
      "effects, approvals, actions, events, schedules and pruned keys; and items of the app.",
      "Hash ids match by their first 6 characters, other names by their first 3;",
      "the key of an instance matches only as a whole. A subject or a trace has no index:",
      "the search scans the newest 2,000 instances and reports the range in `scanned`. `GET /v1/instances?subject=` searches further.",
    ].join(" "),
    query: {
      q: z
        .string()
        .min(1)
        .max(500)
        .meta({ description: "An id, a key, a subject, a traceparent, or the beginning of one.", examples: EXAMPLES }),
    },
    answer: ["The results, exact matches first", Findings],
    async run({ env, by, catalog, engine, query }) {
      const found = await search(env, by, query.q, { known: namesOf(catalog), own: engine.finders });
      const asked = found.items.flatMap(({ kind, id }) => (kind === "approval" ? [instanceThatAsks(id)] : []));
      const hide = await redactionOf(catalog).ofInstances(env, by, asked);
      // The title of a question is text from a run, which may be sensitive. All other titles consist of names.
      const titled = (one: Finding) => (one.kind === "approval" ? hide(instanceThatAsks(one.id))(one.title) : one.title);
      return { ...found, items: found.items.map((one) => ({ ...one, title: titled(one) })) };
    },
  }),
  operation("get", "/v1/correlations/{id}", "getCorrelation", "correlations show", {
    summary: "Get a job: all its instances and messages",
    description: [
      "Returns a page of the graph: instances in order of acceptance, each with the messages that its steps emitted, and dead letters.",
      "The `cause` of a node is its edge and may be on an earlier page. For an instance with many messages, 20 are listed,",
      "and `collapsed` counts the others by type; GET /v1/instances/{id}/events lists them.",
      "Nodes removed by retention are `gone` as a cause and `pruned` as a result of a message.",
    ].join(" "),
    query: pageQuery,
    answer: [
      "A page of the job",
      pageOf(JobNode).extend({
        id: z.string(),
        summary: JobSummary.nullable().describe("Only on the first page."),
        collapsed: z.array(Collapsed),
        elsewhere: z.array(z.object({ kind: z.string(), url: z.string() })).describe("Lists of the app with more items of the job."),
      }),
    ],
    problems: ["correlation_not_found"],
    async run({ env, by, catalog: { workflows }, engine, param: { id }, query }) {
      const { summary, items, collapsed, next } = await readJob(env, by, id, { ...query, workflows });
      return { id, summary, items, collapsed, elsewhere: engine.elsewhere(id), next_cursor: next };
    },
  }),
  operation("get", "/v1/keys/{key}", "getKey", "keys show", {
    summary: "Get the holders of an idempotency key",
    description:
      "Each workflow and each event type has its own key space; `workflow` selects one. The key of a pruned instance remains in use until its tombstone is removed.",
    query: { workflow: z.string().optional().describe("The name of a deployed workflow or event type.") },
    answer: ["The key", KeyView],
    problems: ["key_not_found"],
    async run({ env, by, catalog, param: { key }, query: { workflow } }) {
      const known = namesOf(catalog);
      if (workflow !== undefined && !known.workflows.includes(workflow)) {
        throw invalidRequest([unknownName("workflow", workflow, known.workflows)]);
      }
      const names = workflow === undefined ? known : { workflows: [workflow], events: [] };
      return describeKey(env, by, key, names);
    },
  }),
];
