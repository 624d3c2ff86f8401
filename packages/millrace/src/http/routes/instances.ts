import * as z from "zod";
import { hideNothing } from "../../contract/hide.ts";
import { hiddenIn } from "../../contract/row.ts";
import { InstanceCause, InstanceCauseFilter, listInstanceCauses } from "../../inspect/causes.ts";
import { describeInstance, InstanceDetail } from "../../inspect/instance-detail.ts";
import { CountFilter, InstanceFilter, StatusCount } from "../../inspect/instance-filter.ts";
import { Instance } from "../../inspect/instance-row.ts";
import { countInstances, getInstance, listInstances, MAX_WAIT_S, untilSettled } from "../../inspect/instances.ts";
import { EmittedMessage, emittedBy } from "../../inspect/messages.ts";
import { RunRecord, recordOf } from "../../inspect/record.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { Step, stepsOf } from "../../inspect/steps.ts";
import { operation } from "../operation.ts";
import { page, pageOf, pageQuery, refuseUnknownNames, wholeNumber } from "../paging.ts";
import { asksToReveal, hiddenRows, redactionFor, revealQuery } from "../redaction.ts";

export const instances = [
  // These two routes are registered before the routes with an id at the same position of the path.
  operation("get", "/v1/instances/causes", "listInstanceCauses", "instances causes", {
    summary: "Count errored instances by cause, most recent first",
    description: "A cause consists of workflow, step, code, and the error message without its variable parts.",
    query: { ...InstanceCauseFilter.shape, ...pageQuery },
    answer: ["A page of causes", pageOf(InstanceCause)],
    async run(asked) {
      const { env, by, catalog, query } = asked;
      return page(refuseUnknownNames(asked, await listInstanceCauses(env, by, query, redactionOf(catalog))));
    },
  }),
  operation("get", "/v1/instances/counts", "countInstances", "instances counts", {
    summary: "Count instances by status",
    description: "A count is exact up to 1,000. It reads the newest 2,000 rows of the status; a filter can match more in older rows.",
    query: CountFilter.shape,
    answer: ["Each status with its count", z.object({ items: z.array(StatusCount) })],
    async run(asked) {
      const items = await countInstances(asked.env, asked.by, asked.query);
      refuseUnknownNames(asked, { items: items.filter(({ count }) => count > 0), next: null });
      return { items };
    },
  }),
  operation("get", "/v1/instances", "listInstances", "instances list", {
    summary: "List instances, newest first",
    description:
      "A page filtered by `workflow` or `subject` scans 50,000 instances. It may be short or empty and still have a `next_cursor`. Use `correlation` for all instances of a job.",
    query: {
      ...InstanceFilter.shape,
      version: wholeNumber(1, 1_000_000).optional().describe("Instances of this version of their workflow."),
      ...pageQuery,
    },
    answer: ["A page of instances", pageOf(Instance)],
    async run(asked) {
      const found = refuseUnknownNames(asked, await listInstances(asked.env, asked.by, asked.query));
      const telling = found.items.filter(({ error, retrying, progress }) => error !== null || retrying !== null || progress !== null);
      const hidden = new Map((await hiddenRows(asked, Instance, telling, ({ id }) => id)).map((one) => [one.id, one]));
      return page(found, (one) => hidden.get(one.id) ?? one);
    },
  }),
  operation("get", "/v1/instances/{id}", "getInstance", "instances show", {
    summary: "Get an instance with its payload, result and platform status",
    description:
      "With `wait`, the answer is delayed until the instance has ended or needs an operator (an unknown outcome or a question), or until the seconds have passed; check `status`. Sleeps, event waits and back-offs do not end the wait.",
    query: {
      ...revealQuery,
      wait: wholeNumber(0, MAX_WAIT_S).default(0).describe("Seconds to wait for the end of the instance."),
    },
    answer: ["The instance", InstanceDetail],
    archived: true,
    async run(asked) {
      const { env, by, catalog, context, query } = asked;
      const { id } = asked.param;
      // Checks the scope for revealed fields before the wait.
      asksToReveal(asked);
      if (query.wait > 0) await untilSettled(env, by, id, query.wait * 1000, context.req.raw.signal);
      const instance = await describeInstance(env, by, id, catalog, asked.archivedAt);
      const redaction = await redactionFor(asked);
      const hide = (await redaction.ofInstances(env, by, [id]))(id);
      return { ...hiddenIn(InstanceDetail, instance, hide), payload: redaction.payload(instance, instance.payload) };
    },
  }),
  operation("get", "/v1/instances/{id}/record", "getRecord", "instances record", {
    summary: "Get everything that a replay of an instance reads",
    description:
      "For `millrace check`, which replays open instances with new code. Outputs above 64 KiB are left out. The fields follow the engine's tables and may change.",
    query: revealQuery,
    answer: ["The record", RunRecord],
    archived: true,
    async run(asked) {
      const { id } = await getInstance(asked.env, asked.by, asked.param.id);
      return recordOf(asked.env, asked.by, id, await redactionFor(asked));
    },
  }),
  operation("get", "/v1/instances/{id}/steps", "listSteps", "instances steps", {
    summary: "List the steps of an instance",
    description:
      "Returns the steps of the current run with attempts, sleeps and waits, from the history of the platform. Removed history is replaced by the recorded effects, without attempts. An inline step is shown by its effect, with its attempt.",
    answer: [
      "The steps, oldest first",
      z.object({
        items: z.array(Step),
        truncated: z.boolean().describe("True if the platform has more steps than this answer contains."),
      }),
    ],
    archived: true,
    async run(asked) {
      const instance = await getInstance(asked.env, asked.by, asked.param.id);
      const { steps, truncated } = await stepsOf(asked.env, asked.by, instance);
      return { items: await hiddenRows(asked, Step, steps, () => instance.id), truncated };
    },
  }),
  operation("get", "/v1/instances/{id}/events", "listEmittedMessages", "instances events", {
    summary: "List the messages that an instance emitted",
    description: "Returns the commands and events that the steps of the instance emitted.",
    query: {
      payload: z.enum(["true", "false"]).default("false").describe("True includes payloads."),
      ...revealQuery,
    },
    answer: [
      "Messages in the order of their steps",
      z.object({
        items: z.array(EmittedMessage),
        truncated: z.boolean(),
        omitted: z
          .int()
          .describe(
            "Messages that were sent but of which no copy is kept: the messages of one step are kept up to 250,000 characters. Find their results by the job: GET /v1/instances?correlation=. 0 for steps recorded before this count existed.",
          ),
      }),
    ],
    archived: true,
    async run(asked) {
      const { id } = await getInstance(asked.env, asked.by, asked.param.id);
      const withPayload = asked.query.payload === "true";
      const redaction = await redactionFor(asked);
      const { messages, leftOut } = await emittedBy(asked.env, asked.by, id);
      // Sensitive data of an instance may appear in any field of the messages that the instance emits.
      const hide = withPayload ? (await redaction.ofInstances(asked.env, asked.by, [id]))(id) : hideNothing;
      const items = messages.map(({ payload_inline, payload_ref, ...rest }) => {
        const payload = withPayload && { payload_inline: hide(redaction.payload(rest, payload_inline)), payload_ref };
        return { ...rest, ...payload };
      });
      return { items, truncated: leftOut > 0, omitted: leftOut };
    },
  }),
];
