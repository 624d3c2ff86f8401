import * as z from "zod";
import { KNOWN_NAMES } from "../../contract/known-fields.ts";
import { hiddenIn } from "../../contract/row.ts";
import { describeInstance, InstanceDetail } from "../../inspect/instance-detail.ts";
import { Instance } from "../../inspect/instance-row.ts";
import { countInstances, listInstances } from "../../inspect/instances.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { MAX_WAIT_S, untilSettled } from "../../inspect/settled.ts";
import { STANDINGS } from "../../inspect/standing.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery, wholeNumber } from "../paging.ts";
import { problems } from "../problem.ts";
import { asksToReveal, redactionFor, revealQuery } from "../redaction.ts";
import { answers, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const list = createRoute({
  ...at("get", "/v1/instances", "listInstances", "instances list"),
  summary: "List instances, newest first",
  description:
    "A page filtered by `workflow` or `subject` scans 50,000 instances. It may be short or empty and still have a `next_cursor`. Use `correlation` for all instances of a job.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      status: z.enum(INSTANCE_STATUSES).optional(),
      standing: z.enum(STANDINGS).optional().meta({
        description:
          "Only running instances that are delayed (`due_at` in the future), retrying, sleeping or waiting, as far as a list has this. The field with that name has the details.",
      }),
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      version: wholeNumber(1, 1_000_000).optional().meta({ type: "integer", description: "Instances of this version of their workflow." }),
      subject: z.string().optional(),
      correlation: z.string().optional(),
      tag: z.string().optional().meta({ description: "Instances with this tag." }),
      parent: z.string().optional().meta({ description: "Children of this instance." }),
      cause: z.string().optional().meta({ description: "An `id` of `/v1/instances/causes`: errored instances of this cause." }),
      overdue: z.enum(["true"]).optional().meta({
        description: "Only running instances past their `must_end_by`, most recent deadline first.",
      }),
      since: z.iso.datetime({ offset: true }).optional().meta({ description: "Accepted at or after this time." }),
      ...pageQuery,
    }),
  },
  responses: reads("A page of instances", pageOf(Instance)),
});

const counts = createRoute({
  ...at("get", "/v1/instances/counts", "countInstances", "instances counts"),
  summary: "Count instances by status",
  description: "A count is exact up to 1,000. It reads the newest 2,000 rows of the status; a filter can match more in older rows.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      subject: z.string().optional(),
      correlation: z.string().optional(),
      tag: z.string().optional().meta({ description: "Instances with this tag." }),
      since: z.iso.datetime({ offset: true }).optional().meta({ description: "Accepted at or after this time." }),
    }),
  },
  responses: {
    200: answers(
      "Each status with its count",
      z.object({
        items: z.array(
          z
            .object({
              status: z.enum(INSTANCE_STATUSES),
              count: z.int().max(1000),
              more: z.boolean().meta({ description: "True if there are, or may be, more than `count`." }),
            })
            .meta({ id: "StatusCount" }),
        ),
      }),
    ),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  ...at("get", "/v1/instances/{id}", "getInstance", "instances show"),
  summary: "Get an instance with its payload, result and platform status",
  description:
    "With `wait`, the answer is delayed until the instance has ended or needs an operator (an unknown outcome or a question), or until the seconds have passed; check `status`. Sleeps, event waits and back-offs do not end the wait.",
  ...needs("read"),
  request: {
    params: z.object({ id: z.string() }),
    query: z.strictObject({
      ...revealQuery,
      wait: wholeNumber(0, MAX_WAIT_S).default(0).meta({
        type: "integer",
        minimum: 0,
        maximum: MAX_WAIT_S,
        default: 0,
        description: "Seconds to wait for the end of the instance.",
      }),
    }),
  },
  responses: reads("The instance", InstanceDetail, "instance_not_found"),
});

export function instances(catalog: Catalog) {
  const known = catalog.workflows.map(({ name }) => name);
  return new Routes<HttpEnv>()
    .openapi(counts, async (context) => {
      const { since, ...filter } = context.req.valid("query");
      const items = await countInstances(context.env, context.var.caller, { ...filter, since: since ? Date.parse(since) : undefined });
      const there = { items: items.filter(({ count }) => count > 0), next: null };
      refuseUnknownNames(there, { workflow: { name: filter.workflow, known } });
      return context.json({ items }, 200);
    })
    .openapi(list, async (context) => {
      const { since, overdue, ...filter } = context.req.valid("query");
      const asked = { ...filter, since: since ? Date.parse(since) : undefined, overdue: overdue === "true" };
      const found = await listInstances(context.env, context.var.caller, asked);
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known } }, filter.cursor);
      const telling = found.items.filter(({ error, retrying, progress }) => error !== null || retrying !== null || progress !== null);
      const hide = await redactionOf(catalog).ofInstances(
        context.env,
        context.var.caller,
        telling.map(({ id }) => id),
      );
      return context.json(
        page(found, (one) => hiddenIn(Instance, one, hide(one.id))),
        200,
      );
    })
    .openapi(show, async (context) => {
      const { env, req, var: variables } = context;
      const { id } = req.valid("param");
      const { wait } = req.valid("query");
      // Checks the scope for revealed fields before the wait.
      asksToReveal(context);
      if (wait > 0) await untilSettled(env, variables.caller, id, wait * 1000, req.raw.signal);
      const instance = await describeInstance(env, variables.caller, id, catalog);
      const redaction = await redactionFor(context, catalog);
      const hide = (await redaction.ofInstances(env, variables.caller, [id]))(id);
      const payload = redaction.payload(instance, instance.payload);
      return context.json({ ...hiddenIn(InstanceDetail, instance, hide), payload }, 200);
    });
}
