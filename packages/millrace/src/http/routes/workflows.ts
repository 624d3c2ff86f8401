import * as z from "zod";
import { durationMs } from "../../contract/duration.ts";
import { COUNTED_INSTANCES, listWorkflows } from "../../inspect/workflows.ts";
import { vitalsOf } from "../../keeper/client.ts";
import { PeriodOfWorkflow, workflowsByTime } from "../../observe/metrics/by-workflow.ts";
import { readHours } from "../../observe/metrics/folding.ts";
import { PausePlan, type PauseVerb, pauseWork, planWork, resumeWork, WorkPaused } from "../../operate/pause-work.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Pause, PausedKind } from "../../store/pauses.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { invalidRequest } from "../invalid-request.ts";
import { problems } from "../problem.ts";
import { answers, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";
import { iso, timestamp } from "../time.ts";

export const PausedSchema = z
  .object({
    queue: z.string().nullable().meta({ description: "The paused queue; null if the workflow itself is paused." }),
    all_tenants: z.boolean().meta({ description: "True if paused for all tenants, false if paused for your tenant." }),
    by: z.string().meta({ description: "The actor who paused; `millrace` for a breaker." }),
    reason: z.string(),
    since: timestamp,
    cause: z.string().nullable().meta({
      description: "The id of the cause of failures after which a breaker paused, see `GET /v1/instances/causes`; null for an operator.",
    }),
  })
  .meta({ id: "Paused" });

/** The view of a pause in an API answer. */
export function pausedView(pause: Pause | undefined): z.infer<typeof PausedSchema> | null {
  if (pause === undefined) return null;
  const { id, tenant_id, actor: by, reason, since, cause } = pause;
  const [kind, name = ""] = id.split("/");
  return { queue: kind === "queue" ? name : null, all_tenants: tenant_id === "", by, reason, since: iso(since), cause };
}

const WorkflowSchema = z
  .object({
    name: z.string(),
    state: z.enum(["active", "paused"]),
    paused: PausedSchema.nullable().meta({ description: "The pause of the workflow or of its queue; null while the workflow is active." }),
    breaker: z
      .object({ failures: z.int(), within_seconds: z.number() })
      .nullable()
      .meta({ description: "The workflow is paused after this number of failures of one cause; null without a breaker." }),
    counts: z.partialRecord(z.enum(INSTANCE_STATUSES), z.int()).meta({
      description: `Its instances by status, among the newest ${COUNTED_INSTANCES} instances of your tenant.`,
    }),
    versions: z
      .array(
        z.object({
          version: z.int(),
          deployed: z.boolean().meta({ description: "False if the deployed code lacks it: its instances make no step until it is back." }),
          open: z
            .int()
            .meta({ description: "Instances of your tenant that run, or that an operator can retry. At 0 the old function can go." }),
        }),
      )
      .meta({ description: "Its versions, the highest first." }),
  })
  .meta({ id: "WorkflowState" });

const list = createRoute({
  ...at("get", "/v1/workflows", "listWorkflows", "workflows list"),
  summary: "List the workflows with their state",
  description: "Returns each workflow of the deployed code, its pause, and the instances of your tenant by status.",
  ...needs("read"),
  request: { query: z.strictObject({}) },
  responses: reads("All workflows", z.object({ items: z.array(WorkflowSchema) })),
});

/** Number of hours that `span=hour` covers. */
const WINDOW_HOURS = 48;

const byTime = createRoute({
  ...at("get", "/v1/workflows/by-time", "listWorkflowsByTime", "workflows by-time"),
  summary: "Get ended runs and step durations of each workflow over time",
  description:
    "Returns the last 60 minutes, or the last 48 hours with `span=hour`, newest first, for all tenants. A period without counts is not in the list. The newest period is not over.",
  ...needs("observe"),
  request: {
    query: z.strictObject({ span: z.enum(["minute", "hour"]).default("minute").meta({ description: "The length of a period." }) }),
  },
  responses: reads("The periods with counts", z.object({ at: timestamp, items: z.array(PeriodOfWorkflow) })),
});

const common = reasoned.extend({
  all_tenants: z
    .boolean()
    .default(false)
    .meta({ description: "True: for all tenants of the deployment. Requires the scope `observe` too. Default: for your tenant." }),
  dry_run: z.boolean().default(false).meta({ description: "True returns the consequences and changes nothing." }),
});
const bodies = {
  pause: common.extend({
    running: z.enum(["go_on", "pause"]).default("go_on").meta({
      description: "`pause` also pauses the running instances of your tenant, by a bulk action. Not with `all_tenants`.",
    }),
  }),
  resume: common,
} as const;

const params = z.object({ name: z.string().min(1).max(100) });

const SAYS = {
  pause:
    "Commands are accepted, and their instances remain `accepted` until the resume. A command accepted less than two seconds before may still start. Retries, undos and resumes of single instances are not affected.",
  resume:
    "The keeper starts the waiting instances within seconds, in the order of their acceptance. Instances paused with `running` are resumed by the bulk action `resume`.",
} as const;

function routeOf<Kind extends PausedKind, Verb extends PauseVerb>(kind: Kind, verb: Verb) {
  return createRoute({
    method: "post",
    path: `/v1/${kind}s/{name}/${verb}` as `/v1/${Kind}s/{name}/${Verb}`,
    operationId: `${verb}${kind === "workflow" ? "Workflow" : "Queue"}`,
    command: `${kind}s ${verb}`,
    summary: `${verb === "pause" ? "Pause" : "Resume"} a ${kind}`,
    description: kind === "queue" ? `${SAYS[verb]} The queue must carry commands.` : SAYS[verb],
    ...needs("operate"),
    request: { params, query: z.strictObject({}), body: jsonBody(bodies[verb]) },
    responses: {
      200: answers(`A dry run: the consequences of the ${verb}`, PausePlan),
      202: answers(verb === "pause" ? "It is paused" : "It is resumed", WorkPaused),
      ...problems(...BODY_REFUSALS, "invalid_transition", "bulk_actions_running", "config_invalid"),
    },
  });
}

/** The lists of workflows, and the routes that pause and resume workflows and queues. */
export function workflows(catalog: Catalog) {
  const acting = <Kind extends PausedKind, Verb extends PauseVerb>(kind: Kind, verb: Verb) =>
    new Routes<HttpEnv>().openapi(routeOf(kind, verb), (async (context: ActContext) => {
      const { env, req, json, var: known } = context;
      const { caller } = known;
      const given = await readBody(req, bodies[verb] as typeof bodies.resume);
      const { reason, all_tenants, dry_run } = given;
      const pausesRunning = "running" in given && given.running === "pause";
      if (pausesRunning && all_tenants) {
        const message = "pauses instances of your tenant only: leave it out with `all_tenants`";
        throw invalidRequest([{ path: "running", message }]);
      }
      const work = { kind, name: req.valid("param").name, allTenants: all_tenants };
      if (dry_run) return json(await planWork(env, catalog, caller, verb, work, pausesRunning), 200);
      const done =
        verb === "pause"
          ? await pauseWork(env, catalog, caller, work, { reason, pausesRunning })
          : await resumeWork(env, catalog, caller, work, reason);
      return json(done, 202);
    }) as never);
  return new Routes<HttpEnv>()
    .openapi(list, async ({ env, var: { caller }, json }) => {
      const states = await listWorkflows(env, catalog, caller);
      return json(
        {
          items: states.map(({ workflow: { name, breaker }, pause, counts, versions }) => ({
            name,
            state: pause ? ("paused" as const) : ("active" as const),
            paused: pausedView(pause),
            breaker: breaker ? { failures: breaker.failures, within_seconds: durationMs(breaker.within) / 1000 } : null,
            counts,
            versions: [...versions],
          })),
        },
        200,
      );
    })
    .openapi(byTime, async (context) => {
      const { span } = context.req.valid("query");
      const { at, minutes } = await vitalsOf(context.env);
      const periods = span === "minute" ? minutes : await readHours(context.env, at, WINDOW_HOURS);
      return context.json({ at: iso(at), items: workflowsByTime(periods) }, 200);
    })
    .route("/", acting("workflow", "pause"))
    .route("/", acting("workflow", "resume"))
    .route("/", acting("queue", "pause"))
    .route("/", acting("queue", "resume"));
}

type ActContext = import("hono").Context<HttpEnv, string, { in: { param: { name: string } }; out: { param: { name: string } } }>;
