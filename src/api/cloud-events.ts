import { z } from "@hono/zod-openapi";
import type { HonoRequest } from "hono";
import { type CommandRequest, INTAKE_LIMITS } from "../engine/index.ts";
import { chosenName } from "../facts/chosen-name.ts";
import { mediaTypeOf, parseWith, readBody } from "./body.ts";
import { MAX_KEY_CHARACTERS } from "./idempotency-key.ts";

export const CLOUD_EVENT = "application/cloudevents+json";

/** CloudEvents 1.0. Extensions are anybody's; those named here are read, others and `subject` are not. */
export const cloudEventSchema = z.looseObject({
  specversion: z.literal("1.0"),
  id: chosenName(MAX_KEY_CHARACTERS),
  source: chosenName(MAX_KEY_CHARACTERS).regex(/^\S+$/, "must be a URI reference, without spaces"),
  type: chosenName(100),
  data: z.unknown(),
  data_base64: z.undefined("is not taken: send JSON in `data`").optional(),
  datacontenttype: z
    .string()
    .regex(/^application\/([a-z.-]+\+)?json\b/i, "must be JSON")
    .optional(),
  correlationid: chosenName(200).optional(),
  causationid: chosenName(300).optional(),
  traceparent: z.string().optional(),
  tracestate: z.string().optional(),
});

const identified = cloudEventSchema.refine(({ source, id }) => keyOf(source, id).length <= MAX_KEY_CHARACTERS, {
  path: ["id"],
  message: `must have, together with source, at most ${MAX_KEY_CHARACTERS - 1} characters`,
});

/** True when the request is a CloudEvent: by its content type (structured), or by its `ce-` headers (binary). */
export function isCloudEvent(request: HonoRequest): boolean {
  return mediaTypeOf(request) === CLOUD_EVENT || request.header("ce-specversion") !== undefined || request.header("ce-type") !== undefined;
}

/**
 * Reads a CloudEvent as a command: `type` and `data` say what to do, and source and id together, which the standard makes
 * unique per event, are its idempotency key.
 */
export async function readCloudEvent(request: HonoRequest): Promise<CommandRequest> {
  const { maxBytes } = INTAKE_LIMITS;
  const structured = mediaTypeOf(request) === CLOUD_EVENT;
  const event = structured
    ? await readBody(request, identified, { mediaType: CLOUD_EVENT, maxBytes })
    : parseWith(identified, { ...attributesOf(request), data: await readBody(request, z.unknown(), { maxBytes }) });
  return {
    type: event.type,
    payload: event.data,
    idempotencyKey: keyOf(event.source, event.id),
    correlationId: event.correlationid,
    causationId: event.causationid,
    traceparent: event.traceparent,
    tracestate: event.tracestate,
  };
}

/** No URI holds a space, so source and id cannot run into each other. */
function keyOf(source: string, id: string): string {
  return `${source} ${id}`;
}

/** The `ce-` headers, whose values are percent-encoded UTF-8. */
function attributesOf(request: HonoRequest): Record<string, string> {
  const sent = Object.entries(request.header()).filter(([name]) => name.startsWith("ce-"));
  return Object.fromEntries(sent.map(([name, value]) => [name.slice("ce-".length), decoded(value ?? "")]));
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
