import type * as z from "zod";
import type { EngineCode } from "../contract/errors.ts";
import { BODY_REFUSALS } from "./actions.ts";
import { problems } from "./problem.ts";

/** Documents a successful JSON response. */
export function answers<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { "application/json": { schema } } };
}

/** Documents the responses of a route that reads: the success, and the problems of any request with parameters. */
export function reads<Schema extends z.ZodType>(description: string, schema: Schema, ...codes: EngineCode[]) {
  return { 200: answers(description, schema), ...problems("unauthorized", "forbidden", "invalid_payload", ...codes) };
}

/** Documents the responses of a route with a body: the success, and the problems of any request with a body. */
export function changes<Schema extends z.ZodType>(description: string, schema: Schema, ...codes: EngineCode[]) {
  return { 200: answers(description, schema), ...problems(...BODY_REFUSALS, ...codes) };
}
