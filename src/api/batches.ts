import { errors } from "millrace";
import { answers, bodies, needs, pages, traceContext } from "millrace/http";
import * as z from "zod";
import { acceptBatch } from "../systems/batches/accept.ts";
import { listBatches } from "../systems/batches/batch.ts";
import { cancelBatch } from "../systems/batches/cancel.ts";
import { retryFailed } from "../systems/batches/retry-failed.ts";
import { documentedSchema, readBatchRequest, uploadQuery } from "./batch-request.ts";
import { BatchSchema, batchOf, batchView, noSuchBatch } from "./batch-view.ts";
import { operation } from "./operation.ts";

const AcceptedSchema = BatchSchema.extend({
  replayed: z.boolean().meta({ description: "True if the same batch was accepted before: nothing new was started." }),
}).meta({ id: "AcceptedBatch" });

const text = { schema: { type: "string" } };

export const batches = [
  operation("post", "/v1/batches", "acceptBatch", "batches start", {
    summary: "Accept a batch job: import, export or reconcile",
    description: [
      "The file is the body (`text/csv` or `application/x-ndjson` with `Content-Length`; the query has the job parameters), or is already in the bucket (JSON, `manifest`). A few rows can be `items` of the JSON, all of them valid.",
      "A CSV file is UTF-8 with a header, separated by `,` or `;`. An unusable header is refused immediately. An unusable row is reported and does not affect other rows.",
    ].join("\n\n"),
    ...needs("enqueue"),
    key: "The batch's id if `batch_id` is omitted: up to 64 letters, digits, - and _.",
    query: uploadQuery,
    headers: traceContext.headers,
    content: { "application/json": { schema: documentedSchema }, "text/csv": text, "application/x-ndjson": text },
    answer: ["Accepted: its row is committed", AcceptedSchema],
    status: 202,
    location: "The batch.",
    problems: ["file_not_found", "length_required", "idempotency_key_reused"],
    async run({ env, by: { tenantId, actor }, catalog, context }) {
      const { request, file, uploaded } = await readBatchRequest(context);
      // Deletes a refused upload. If the request is a repetition, this call deletes the second copy of the uploaded file. After an
      // incomplete acceptance the uploaded file is kept, because the batch's row may exist.
      const drop = async () => void (uploaded && file && (await env.PAYLOADS.delete(file.key)));
      try {
        const by = { tenantId, source: `api/${actor}` };
        const { batch, replayed } = await acceptBatch(env, catalog, by, request, file, { trace: traceContext.of(context.req) });
        if (batch.fileKey !== (file?.key ?? null)) await drop();
        context.header("location", `/v1/batches/${request.batchId}`);
        return { ...batchView(batch), replayed };
      } catch (error) {
        if (["invalid_payload", "idempotency_key_reused"].includes(errors.codeOf(error) ?? "")) await drop();
        throw error;
      }
    },
  }),
  operation("get", "/v1/batches", "listBatches", "batches list", {
    summary: "List batches, newest first",
    description: "Returns the batches of your tenant with their progress.",
    query: pages.query,
    answer: ["A page of batches", pages.schema(BatchSchema)],
    run: async ({ env, by, query }) => pages.of(await listBatches(env.DB, by.tenantId, query), batchView),
  }),
  operation("get", "/v1/batches/{id}", "getBatch", "batches show", {
    summary: "Get a batch with its progress",
    description: "Returns the state of the batch and its counts of rows.",
    answer: ["The batch", BatchSchema],
    problems: ["batch_not_found"],
    run: async ({ param, context }) => batchView(await batchOf(context, param.id)),
  }),
  operation("post", "/v1/batches/{id}/cancel", "cancelBatch", "batches cancel", {
    summary: "Cancel a batch",
    description:
      "Stops the batch at its next chunk. Rows that the batch has processed remain and are counted. A repeated cancel has no effect. A batch that finishes its last chunk meanwhile is complete.",
    body: bodies.reasoned,
    answer: {
      200: answers("The batch was already cancelled; the attempt is audited", BatchSchema.extend({ action_id: z.string() })),
      202: answers("The cancel was accepted", BatchSchema.extend({ action_id: z.string() })),
    },
    problems: ["batch_not_found", "invalid_transition"],
    async run({ env, by, param: { id }, body, context }) {
      const done = await cancelBatch(env, by, id, body.reason);
      if (!done) throw noSuchBatch(id);
      return context.json({ ...batchView(done.batch), action_id: done.actionId }, done.changed ? 202 : 200);
    },
  }),
  operation("post", "/v1/batches/{id}/retry-failed", "retryFailedRows", "batches retry-failed", {
    summary: "Import the failed rows of a batch again",
    description: [
      "Starts a batch of the failed rows of a complete or cancelled import. The id of the new batch derives from the id of the old one: a repeated request returns the same batch.",
      "The new batch omits rows that could not be read, and rows of forgotten contacts.",
    ].join(" "),
    headers: traceContext.headers,
    body: bodies.reasoned,
    answer: ["Accepted: its row is committed", AcceptedSchema.extend({ action_id: z.string() })],
    status: 202,
    location: "The new batch.",
    repeats: true,
    problems: ["batch_not_found", "invalid_transition", "idempotency_key_reused"],
    async run({ env, by, catalog, param, body, context }) {
      const parent = await batchOf(context, param.id);
      const { batch, replayed, actionId } = await retryFailed(env, catalog, by, parent, body.reason, traceContext.of(context.req));
      context.header("location", `/v1/batches/${batch.batchId}`);
      return { ...batchView(batch), replayed, action_id: actionId };
    },
  }),
];
