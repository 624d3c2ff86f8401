import { errors } from "millrace";
import { answers, bodies, createRoute, idempotency, needs, pages, Routes, traceContext } from "millrace/http";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { acceptBatch } from "../systems/batches/accept.ts";
import { listBatches } from "../systems/batches/batch.ts";
import { cancelBatch } from "../systems/batches/cancel.ts";
import { retryFailed } from "../systems/batches/retry-failed.ts";
import { documentedSchema, readBatchRequest, uploadQuery } from "./batch-request.ts";
import { BatchSchema, batchOf, batchParams, batchView, noSuchBatch } from "./batch-view.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const AcceptedSchema = BatchSchema.extend({
  replayed: z.boolean().meta({ description: "True if the same batch was accepted before: nothing new was started." }),
}).meta({ id: "AcceptedBatch" });

const accept = createRoute({
  method: "post",
  path: "/v1/batches",
  operationId: "acceptBatch",
  command: "batches start",
  summary: "Accept a batch job: import, export or reconcile",
  description: [
    "The file is the body (`text/csv` or `application/x-ndjson` with `Content-Length`; the query has the job parameters), or is already in the bucket (JSON, `manifest`). A few rows can be `items` of the JSON, all of them valid.",
    "A CSV file is UTF-8 with a header, separated by `,` or `;`. An unusable header is refused immediately. An unusable row is reported and does not affect other rows.",
  ].join("\n\n"),
  ...needs("enqueue"),
  request: {
    query: uploadQuery,
    headers: z.object({
      ...idempotency.keyHeader("The batch's id if `batch_id` is omitted: up to 64 letters, digits, - and _."),
      ...traceContext.headers,
    }),
    body: {
      required: true,
      content: {
        ...bodies.json(documentedSchema).content,
        "text/csv": { schema: { type: "string" as const } },
        "application/x-ndjson": { schema: { type: "string" as const } },
      },
    },
  },
  responses: {
    202: {
      ...answers("Accepted: its row is committed", AcceptedSchema),
      headers: { Location: { description: "The batch.", schema: { type: "string" as const } }, ...idempotency.replayedSchema },
    },
    ...problems(
      "invalid_json",
      "unauthorized",
      "forbidden",
      "file_not_found",
      "length_required",
      "payload_too_large",
      "unsupported_media_type",
      "invalid_payload",
      "idempotency_key_reused",
    ),
  },
});

const list = createRoute({
  method: "get",
  path: "/v1/batches",
  operationId: "listBatches",
  command: "batches list",
  summary: "List batches, newest first",
  description: "Returns the batches of your tenant with their progress.",
  ...needs("read"),
  request: { query: z.strictObject(pages.query) },
  responses: {
    200: answers("A page of batches", pages.schema(BatchSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/batches/{id}",
  operationId: "getBatch",
  command: "batches show",
  summary: "Get a batch with its progress",
  description: "Returns the state of the batch and its counts of rows.",
  ...needs("read"),
  request: { params: batchParams },
  responses: { 200: answers("The batch", BatchSchema), ...problems("unauthorized", "forbidden", "batch_not_found") },
});

const cancel = createRoute({
  method: "post",
  path: "/v1/batches/{id}/cancel",
  operationId: "cancelBatch",
  command: "batches cancel",
  summary: "Cancel a batch",
  description:
    "Stops the batch at its next chunk. Rows that the batch has processed remain and are counted. A repeated cancel has no effect. A batch that finishes its last chunk meanwhile is complete.",
  ...needs("operate"),
  request: { params: batchParams, body: bodies.json(bodies.reasoned) },
  responses: {
    200: answers("The batch was already cancelled; the attempt is audited", BatchSchema.extend({ action_id: z.string() })),
    202: answers("The cancel was accepted", BatchSchema.extend({ action_id: z.string() })),
    ...problems(...bodies.refusals, "batch_not_found", "invalid_transition"),
  },
});

const retry = createRoute({
  method: "post",
  path: "/v1/batches/{id}/retry-failed",
  operationId: "retryFailedRows",
  command: "batches retry-failed",
  summary: "Import the failed rows of a batch again",
  description: [
    "Starts a batch of the failed rows of a complete or cancelled import. The id of the new batch derives from the id of the old one: a repeated request returns the same batch.",
    "The new batch omits rows that could not be read, and rows of forgotten contacts.",
  ].join(" "),
  ...needs("operate"),
  request: { params: batchParams, headers: z.object(traceContext.headers), body: bodies.json(bodies.reasoned) },
  responses: {
    202: {
      ...answers("Accepted: its row is committed", AcceptedSchema.extend({ action_id: z.string() })),
      headers: { Location: { description: "The new batch.", schema: { type: "string" as const } }, ...idempotency.replayedSchema },
    },
    ...problems(...bodies.refusals, "batch_not_found", "invalid_transition", "idempotency_key_reused"),
  },
});

export function batches(catalog: Catalog) {
  return new Routes<ApiEnv>()
    .openapi(accept, async (context) => {
      const { request, file, uploaded } = await readBatchRequest(context);
      const { tenantId, actor } = context.var.caller;
      // Deletes a refused upload. If the request is a repetition, this call deletes the second copy of the uploaded file. After an
      // incomplete acceptance the uploaded file is kept, because the batch's row may exist.
      const drop = async () => void (uploaded && file && (await context.env.PAYLOADS.delete(file.key)));
      try {
        const { batch, replayed } = await acceptBatch(context.env, catalog, { tenantId, source: `api/${actor}` }, request, file, {
          trace: traceContext.of(context.req),
        });
        if (batch.fileKey !== (file?.key ?? null)) await drop();
        return context.json({ ...batchView(batch), replayed }, 202, {
          location: `/v1/batches/${request.batchId}`,
          ...idempotency.replayed({ replayed }),
        });
      } catch (error) {
        if (["invalid_payload", "idempotency_key_reused"].includes(errors.codeOf(error) ?? "")) await drop();
        throw error;
      }
    })
    .openapi(retry, async (context) => {
      const parent = await batchOf(context, context.req.valid("param").id);
      const { reason } = await bodies.read(context.req, bodies.reasoned);
      const { batch, replayed, actionId } = await retryFailed(
        context.env,
        catalog,
        context.var.caller,
        parent,
        reason,
        traceContext.of(context.req),
      );
      return context.json({ ...batchView(batch), replayed, action_id: actionId }, 202, {
        location: `/v1/batches/${batch.batchId}`,
        ...idempotency.replayed({ replayed }),
      });
    })
    .openapi(list, async (context) => {
      const found = await listBatches(context.env.DB, context.var.caller.tenantId, context.req.valid("query"));
      return context.json(pages.of(found, batchView), 200);
    })
    .openapi(show, async (context) => context.json(batchView(await batchOf(context, context.req.valid("param").id)), 200))
    .openapi(cancel, async (context) => {
      const { id } = context.req.valid("param");
      const { reason } = await bodies.read(context.req, bodies.reasoned);
      const done = await cancelBatch(context.env, context.var.caller, id, reason);
      if (!done) throw noSuchBatch(id);
      return context.json({ ...batchView(done.batch), action_id: done.actionId }, done.changed ? 202 : 200);
    });
}
