import type { HonoRequest } from "hono";
import * as z from "zod";
import { MAX_ADDRESS_CHARACTERS } from "../contract/address-guard.ts";
import { chosenName, MAX_KEY_CHARACTERS } from "../contract/chosen-name.ts";
import { MillraceError } from "../contract/errors.ts";
import { INTAKE_LIMITS } from "../contract/limits.ts";
import { characterCount } from "../contract/text.ts";
import type { UntypedRequest } from "../intake/accept/enqueue.ts";
import { isJsonType, mediaTypeOf, notTaken, parseWith, readBody } from "./body.ts";
import { invalidRequest } from "./problem.ts";

/** Media types of one event (structured mode) and of a list (batched mode). */
const CLOUD_EVENT = "application/cloudevents+json";
const CLOUD_EVENT_BATCH = "application/cloudevents-batch+json";

/** An optional attribute. CloudEvents treats a null attribute as absent. */
const attribute = <Of extends z.ZodType>(schema: Of) => schema.nullish().transform((value) => value ?? undefined);

/** CloudEvents 1.0, with the extensions that the engine reads. Other extensions and `subject` are ignored. */
const cloudEventSchema = z
  .looseObject({
    specversion: z.literal("1.0"),
    id: chosenName(MAX_KEY_CHARACTERS),
    source: chosenName(MAX_KEY_CHARACTERS).regex(/^\S+$/, "must be a URI reference, without spaces"),
    type: chosenName(100),
    data: z.unknown(),
    data_base64: z.null("is not supported: send JSON in `data`").optional(),
    datacontenttype: attribute(z.string().refine((type) => isJsonType((type.split(";")[0] ?? "").trim().toLowerCase()), "must be JSON")),
    correlationid: attribute(chosenName(200)),
    causationid: attribute(chosenName(300)),
    mustendby: attribute(z.string().max(100)),
    callbackurl: attribute(z.string().max(MAX_ADDRESS_CHARACTERS)),
    traceparent: attribute(z.string()),
    tracestate: attribute(z.string()),
  })
  .meta({ id: "CloudEvent" });

const identified = cloudEventSchema.refine(({ source, id }) => characterCount(keyOf(source, id)) <= MAX_KEY_CHARACTERS, {
  path: ["id"],
  message: `must have, together with source, at most ${MAX_KEY_CHARACTERS - 1} characters`,
});

const header = (description: string) => z.string().optional().meta({ description });
/** The headers of binary mode, for clients that validate requests against the document. */
export const cloudEventHeaders = {
  "ce-specversion": header("CloudEvents in binary mode: `1.0`."),
  "ce-id": header("Identifies the event within its source. Percent-encoded UTF-8, like all of these headers."),
  "ce-source": header("The sender, as a URI reference."),
  "ce-type": header("What it is."),
  "ce-correlationid": header("The correlation id of the job."),
  "ce-causationid": header("What caused this."),
  "ce-mustendby": header("For a command: its `must_end_by`."),
  "ce-callbackurl": header("For a command: its `callback_url`."),
};

const dataSchema = z.record(z.string(), z.unknown()).meta({ title: "CloudEventData", description: "With `ce-` headers: the payload." });

/** The body of a binary CloudEvent is any object. So `schema` needs a name, by which a generated client detects misspelt fields. */
export function orCloudEvent(schema: z.ZodType) {
  return { "application/json": { schema: z.union([schema, dataSchema]) }, [CLOUD_EVENT]: { schema: cloudEventSchema } };
}

export function orCloudEvents(schema: z.ZodType, most: number) {
  return { "application/json": { schema }, [CLOUD_EVENT_BATCH]: { schema: z.array(cloudEventSchema).max(most) } };
}

/** The required attributes. A `ce-` header with the name of a required attribute marks binary mode. */
const REQUIRED = ["specversion", "id", "source", "type"];

/** The CloudEvent of a request, structured or binary; undefined for another body. Errors: `invalid_payload`, `unsupported_media_type`. */
export async function readCloudEvent(request: HonoRequest): Promise<UntypedRequest | undefined> {
  const { maxBytes } = INTAKE_LIMITS;
  const sent = mediaTypeOf(request);
  if (sent === CLOUD_EVENT_BATCH) {
    throw notTaken(`${CLOUD_EVENT_BATCH}, which goes to POST ${request.path}/batch`, "application/json", CLOUD_EVENT);
  }
  if (sent === CLOUD_EVENT) return messageIn(await readBody(request, z.unknown(), { mediaType: CLOUD_EVENT, maxBytes }));
  if (REQUIRED.every((name) => request.header(`ce-${name}`) === undefined)) return undefined;
  const attributes = attributesOf(request);
  return messageIn({ ...attributes, data: await readBody(request, z.unknown(), { isTaken: isJsonType, maxBytes }) });
}

/** The list of a request in batched mode, for `messageIn`; undefined for another body. Errors: `invalid_payload`. */
export async function readCloudEvents(request: HonoRequest, { most, maxBytes }: { most: number; maxBytes: number }) {
  if (mediaTypeOf(request) !== CLOUD_EVENT_BATCH) return undefined;
  const items = { key: "", most };
  return readBody(request, z.array(z.unknown()).max(most), { mediaType: CLOUD_EVENT_BATCH, maxBytes, items });
}

export function orThrow<Read>(read: Read | MillraceError): Read {
  if (read instanceof MillraceError) throw read;
  return read;
}

/**
 * The command or event in a CloudEvent. Its idempotency key is source and id, which the standard makes unique per event. Errors:
 * `invalid_payload` with the invalid attributes.
 */
export function messageIn(value: unknown): UntypedRequest {
  const event = parseWith(identified, value);
  return {
    type: event.type,
    payload: event.data,
    idempotencyKey: keyOf(event.source, event.id),
    correlationId: event.correlationid,
    causationId: event.causationid,
    mustEndBy: event.mustendby,
    callbackUrl: event.callbackurl,
    called: { mustEndBy: "mustendby", callbackUrl: "callbackurl" },
    traceparent: event.traceparent,
    tracestate: event.tracestate,
  };
}

/** A URI contains no space, so the space separates source and id unambiguously. */
function keyOf(source: string, id: string): string {
  return `${source} ${id}`;
}

function attributesOf(request: HonoRequest): Record<string, string> {
  const sent = Object.entries(request.header()).filter(([name]) => name.startsWith("ce-"));
  return Object.fromEntries(sent.map(([name, value]) => [name.slice("ce-".length), attributeIn(name, value ?? "")]));
}

/** Earlier versions of CloudEvents quoted values with spaces. */
const QUOTED = /^"((?:[^"\\]|\\.)*)"$/;

/**
 * Decodes percent-encoded UTF-8. Ambiguous values are refused: the runtime replaces bytes outside ASCII by one replacement character, and
 * joins a repeated header with a comma.
 */
function attributeIn(header: string, value: string): string {
  const refuse = (message: string) => invalidRequest([{ path: header, message }]);
  if (!/^[\x20-\x7e]*$/.test(value)) throw refuse("must be ASCII: send other characters percent-encoded in UTF-8, such as %C3%BC for ü");
  const quoted = QUOTED.exec(value)?.[1]?.replaceAll(/\\(.)/g, "$1");
  if (quoted === undefined && value.includes(", ")) throw refuse("was sent twice: send it once, with spaces as %20");
  try {
    return decodeURIComponent(quoted ?? value);
  } catch {
    throw refuse("is not percent-encoded UTF-8: send the character % itself as %25");
  }
}
