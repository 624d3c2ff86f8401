import type { Context } from "hono";
import { MillraceError } from "millrace";
import { callers, streams } from "millrace/http";
import * as z from "zod";
import { type Batch, findBatch } from "../systems/batches/batch.ts";
import { countFollower, FOLLOWED, hasEnded, seenAs } from "../systems/batches/follow.ts";
import { FORMATS } from "../systems/batches/layout.ts";
import { problemsFile, resultFile } from "../systems/batches/report.ts";
import { batchOf, batchView } from "./batch-view.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

const TYPES = { csv: "text/csv; charset=utf-8", jsonl: "application/x-ndjson" } as const;
const text = z.string();
const file = (description: string) => ({
  description,
  content: { "text/csv": { schema: text }, "application/x-ndjson": { schema: text } },
});

export const batchReports = [
  operation("get", "/v1/batches/{id}/errors", "getBatchErrors", "batches errors", {
    summary: "Download the refused rows of a batch",
    description: "Returns row, line, problem and the first characters of each refused row, in file order, as far as the batch has run.",
    query: { format: z.enum(FORMATS).default("csv") },
    answer: { 200: file("The report") },
    problems: ["batch_not_found"],
    async run({ env, param, query: { format }, context }) {
      const batch = await batchOf(context, param.id);
      return send(context, TYPES[format], problemsFile(env, batch, format), `${batch.batchId}-errors.${format}`);
    },
  }),
  operation("get", "/v1/batches/{id}/result", "getBatchResult", "batches result", {
    summary: "Download the result of a batch",
    description: "Returns the rows of an export or the findings of a reconciliation, in the requested format.",
    answer: { 200: file("The result") },
    problems: ["batch_not_found", "invalid_transition"],
    async run({ env, param, context }) {
      const batch = await batchOf(context, param.id);
      if (batch.operation === "import") {
        throw new MillraceError(
          "invalid_transition",
          `An import has no result: GET /v1/batches/${batch.batchId}/errors lists the refused rows.`,
        );
      }
      if (batch.state !== "complete") {
        throw new MillraceError("invalid_transition", `The batch is ${batch.state}: its result is available when it is complete.`, {
          from: batch.state,
          to: "complete",
        });
      }
      return send(context, TYPES[batch.format], resultFile(env, batch), `${batch.batchId}.${batch.format}`);
    },
  }),
  operation("get", "/v1/batches/{id}/stream", "followBatch", undefined, {
    summary: "Follow a batch as server-sent events",
    description:
      "The stream sends the events `progress` on every change, then `end`, each with the batch as data. With `Last-Event-ID` the stream continues after that event. The stream ends after at most a minute, or when the token becomes invalid: reconnect if it ends without `end`. A request with the id of the `end` event is answered with 204.",
    query: streams.query,
    headers: streams.headers.shape,
    answer: { 200: streams.documented("Events"), 204: { description: "`Last-Event-ID` is the id of the `end` event" } },
    problems: ["batch_not_found"],
    async run({ env, param, context }) {
      const batch = await batchOf(context, param.id);
      const seen = streams.lastEventId(context);
      if (hasEnded(batch) && seen === seenAs(batch)) return context.body(null, 204);
      // A HEAD request asks only for the headers, so it is not counted as a follower.
      if (context.req.method !== "HEAD") await countFollower(env, batch.tenantId);
      return streams.answer(context, () => followBatch(context, batch, seen));
    },
  }),
];

/** Sends the changes of a batch after the state that the follower has seen, until the batch ends or is removed. */
function followBatch(context: Context<ApiEnv>, first: Batch, seen: string | undefined): ReturnType<Parameters<typeof streams.answer>[1]> {
  let [next, last]: [Batch | undefined, string | undefined] = [first, seen];
  return {
    ...FOLLOWED,
    // While a batch is followed, the token is checked for revocation and expiry, with the same cache as other routes.
    mayRead: () => callers.mayStillRead(context),
    async look() {
      const batch = next ?? (await findBatch(context.env.DB, first.tenantId, first.batchId));
      next = undefined;
      if (batch === undefined) return { events: [], isOver: true };
      const [id, isOver] = [seenAs(batch), hasEnded(batch)];
      const isNews = id !== last || isOver;
      last = id;
      return { events: isNews ? [{ id, event: isOver ? "end" : "progress", data: batchView(batch) }] : [], isOver };
    },
  };
}

/** Streams strings with backpressure: each string is produced when the client is ready to receive it. */
function send(context: Context<ApiEnv>, type: string, texts: AsyncGenerator<string>, name?: string) {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      await texts.return(undefined);
    },
  });
  return context.body(body, 200, { "content-type": type, ...(name && { "content-disposition": `attachment; filename="${name}"` }) });
}
