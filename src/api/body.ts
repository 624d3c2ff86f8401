import { z } from "@hono/zod-openapi";
import type { HonoRequest } from "hono";
import { beginning, issuesOf, MillraceError, parseBounded } from "../engine/index.ts";
import { invalidRequest } from "./invalid-request.ts";
import { HttpRefusal } from "./problem.ts";

/** Largest body of a route that does not say otherwise: many at once fit an isolate's memory. */
const USUAL_MAX_BYTES = 64 * 1024;

/**
 * Reads a JSON body: its type, its size, its shape, then its schema, in the order of what each costs. The handlers call it
 * themselves, because the router's own validator would parse whatever size and depth it is sent.
 */
export async function readBody<Schema extends z.ZodType>(
  request: HonoRequest,
  schema: Schema,
  { mediaType = "application/json", maxBytes = USUAL_MAX_BYTES }: { mediaType?: string; maxBytes?: number } = {},
): Promise<z.output<Schema>> {
  const sent = mediaTypeOf(request);
  if (sent !== mediaType) {
    throw new HttpRefusal("unsupported_media_type", `Send \`Content-Type: ${mediaType}\`${sent ? `, not ${beginning(sent, 100)}` : ""}.`);
  }
  const text = await readText(request.raw, maxBytes);
  const value = parseBounded(text, maxBytes);
  refuseHalfCharacters(text);
  return parseWith(schema, value);
}

/** A value that fits its schema. Errors: `invalid_payload` with an issue per wrong field. */
export function parseWith<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalidRequest(issuesOf(parsed.error));
}

/** Documents the body of a route: the same schema that its handler passes to `readBody`. */
export function jsonBody(schema: z.ZodType) {
  // As plain JSON Schema, which OpenAPI 3.1 takes as it is: a zod schema here would switch the router's validator on.
  return { required: true, content: { "application/json": { schema: jsonSchema(schema) } } };
}

export function jsonSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return rest;
}

/** The bare media type of a request: lower case, without parameters. */
export function mediaTypeOf(request: HonoRequest): string {
  return (request.header("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
}

/** Reads no further than the limit: a body without a length could fill the isolate's memory. Errors: `payload_too_large`, `invalid_json` for bytes that are no text. */
export async function readText(request: Request, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  let text = "";
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw new MillraceError("payload_too_large", `The body is larger than ${maxBytes} bytes: send less at once.`);
    text += decoded(() => decoder.decode(chunk, { stream: true }));
  }
  return text + decoded(() => decoder.decode());
}

/** What cannot be read is not guessed: a replaced character would be stored as if it had been sent. */
function decoded(decode: () => string): string {
  try {
    return decode();
  } catch {
    throw new MillraceError("invalid_json", "The body is not UTF-8. Send JSON in UTF-8, whatever its Content-Type says of a charset.");
  }
}

/** JSON can escape half of a surrogate pair, which is no character: it has no UTF-8, so it could be neither stored nor hashed. */
function refuseHalfCharacters(text: string): void {
  if (!/\\u[dD][89a-fA-F]/.test(text)) return;
  JSON.parse(text, (key, value) => {
    if (key.isWellFormed() && !(typeof value === "string" && !value.isWellFormed())) return value;
    throw invalidRequest([{ path: key.toWellFormed(), message: "contains half of a surrogate pair: send whole characters" }]);
  });
}
