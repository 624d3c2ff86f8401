import * as z from "zod";
import { iso, timestamp } from "../../contract/row.ts";
import { listWorkflows, WorkflowState } from "../../inspect/workflows.ts";
import { vitalsOf } from "../../keeper/client.ts";
import { readHours } from "../../observe/metrics/folding.ts";
import { PeriodOfWorkflow, workflowsByTime } from "../../observe/metrics/queue-health.ts";
import { actOnWork, PausePlan, type PauseVerb, planWork, type Work, WorkPaused } from "../../operate/pause-work.ts";
import type { PausedKind } from "../../store/pauses.ts";
import { needs, operation, reasoned } from "../operation.ts";
import { invalidRequest } from "../problem.ts";

/** Number of hours that `span=hour` covers. */
const WINDOW_HOURS = 48;

const common = reasoned.extend({
  all_tenants: z
    .boolean()
    .default(false)
    .describe("For all tenants of the deployment, not only for yours. Requires the scope `observe` too."),
  dry_run: z.boolean().default(false).describe("True returns the consequences and changes nothing."),
});
const bodies = {
  pause: common.extend({
    running: z
      .enum(["continue", "pause"])
      .default("continue")
      .describe("Running instances of your tenant continue, or a bulk action pauses them. `pause` is refused with `all_tenants`."),
  }),
  resume: common,
} as const;

const SAYS = {
  pause:
    "Commands are accepted, and their instances remain `accepted` until the resume. A command accepted less than two seconds before may still start. Retries, undos and resumes of single instances are not affected.",
  resume:
    "The keeper starts the waiting instances within seconds, in the order of their acceptance. Instances paused with `running` are resumed by the bulk action `resume`.",
} as const;

function acting<const Kind extends PausedKind, const Verb extends PauseVerb>(kind: Kind, verb: Verb) {
  const body: z.ZodType<z.output<typeof common> & { running?: "continue" | "pause" }> = bodies[verb];
  return operation("post", `/v1/${kind}s/{name}/${verb}`, `${verb}${kind === "workflow" ? "Workflow" : "Queue"}`, `${kind}s ${verb}`, {
    summary: `${verb === "pause" ? "Pause" : "Resume"} a ${kind}`,
    description: kind === "queue" ? `${SAYS[verb]} The queue must carry commands.` : SAYS[verb],
    params: { name: z.string().min(1).max(100) },
    body,
    plan: {
      answer: [`A dry run: the consequences of the ${verb}`, PausePlan],
      run: ({ env, by, catalog, param, body }) =>
        planWork(env, catalog, by, verb, workOf(kind, param.name, body), body.running === "pause"),
    },
    answer: [verb === "pause" ? "It is paused" : "It is resumed", WorkPaused],
    status: 202,
    problems: ["invalid_transition", "bulk_actions_running", "config_invalid"],
    run({ env, by, catalog, param, body }) {
      const asked = { reason: body.reason, pausesRunning: body.running === "pause" };
      return actOnWork(env, catalog, by, verb, workOf(kind, param.name, body), asked);
    },
  });
}

/** Errors: `invalid_payload` for running instances of all tenants. */
function workOf(kind: PausedKind, name: string, { running, all_tenants }: { running?: string; all_tenants: boolean }): Work {
  if (running === "pause" && all_tenants) {
    const message = "pauses instances of your tenant only: leave it out with `all_tenants`";
    throw invalidRequest([{ path: "running", message }]);
  }
  return { kind, name, allTenants: all_tenants };
}

export const workflows = [
  operation("get", "/v1/workflows", "listWorkflows", "workflows list", {
    summary: "List the workflows with their state",
    description: "Returns each workflow of the deployed code, its pause, and the instances of your tenant by status.",
    answer: ["All workflows", z.object({ items: z.array(WorkflowState) })],
    run: async ({ env, by, catalog }) => ({ items: await listWorkflows(env, catalog, by) }),
  }),
  operation("get", "/v1/workflows/by-time", "listWorkflowsByTime", "workflows by-time", {
    summary: "Get ended runs and step durations of each workflow over time",
    description:
      "Returns the last 60 minutes, or the last 48 hours with `span=hour`, newest first, for all tenants. A period without counts is not in the list. The newest period is not over.",
    ...needs("observe"),
    query: { span: z.enum(["minute", "hour"]).default("minute").describe("The length of a period.") },
    answer: ["The periods with counts", z.object({ at: timestamp, items: z.array(PeriodOfWorkflow) })],
    async run({ env, query: { span } }) {
      const { at, minutes } = await vitalsOf(env);
      const periods = span === "minute" ? minutes : await readHours(env, at, WINDOW_HOURS);
      return { at: iso(at), items: workflowsByTime(periods) };
    },
  }),
  acting("workflow", "pause"),
  acting("workflow", "resume"),
  acting("queue", "pause"),
  acting("queue", "resume"),
];
