import {
  InstanceCause,
  InstanceCauseFilter,
  LetterCause,
  LetterCauseFilter,
  listInstanceCauses,
  listLetterCauses,
} from "../../inspect/causes.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const refusals = problems("unauthorized", "forbidden", "invalid_payload");

const ofLetters = createRoute({
  ...at("get", "/v1/dead-letters/causes", "listDeadLetterCauses", "dead-letters causes"),
  summary: "Count open dead letters by cause, most recent first",
  description: "A cause consists of queue, message type, step (if any), code, and the error message without its variable parts.",
  ...needs("read"),
  request: { query: LetterCauseFilter.extend(pageQuery).strict() },
  responses: { 200: answers("A page of causes", pageOf(LetterCause)), ...refusals },
});

const ofInstances = createRoute({
  ...at("get", "/v1/instances/causes", "listInstanceCauses", "instances causes"),
  summary: "Count errored instances by cause, most recent first",
  description: "A cause consists of workflow, step, code, and the error message without its variable parts.",
  ...needs("read"),
  request: { query: InstanceCauseFilter.extend(pageQuery).strict() },
  responses: { 200: answers("A page of causes", pageOf(InstanceCause)), ...refusals },
});

export function causes(catalog: Catalog, codes: readonly string[]) {
  return new Routes<HttpEnv>()
    .openapi(ofLetters, async (context) => {
      const filter = context.req.valid("query");
      const found = await listLetterCauses(context.env, context.var.caller, filter, redactionOf(catalog));
      refuseUnknownNames(found, {
        queue: { name: filter.queue, known: catalog.consumers.map(({ queue }) => queue.name) },
        reason: { name: filter.reason, known: ["exhausted", ...codes] },
      });
      return context.json(page(found), 200);
    })
    .openapi(ofInstances, async (context) => {
      const filter = context.req.valid("query");
      const found = await listInstanceCauses(context.env, context.var.caller, filter, redactionOf(catalog));
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known: catalog.workflows.map(({ name }) => name) } });
      return context.json(page(found), 200);
    });
}
