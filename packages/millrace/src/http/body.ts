import type { HonoRequest } from "hono";
import * as z from "zod";
import { issuesIn } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Items, parseBounded } from "../contract/limits.ts";
import { invalidRequest } from "./invalid-request.ts";
import { mediaTypeOf, notTaken } from "./media-type.ts";

/** Largest body of a route that does not say otherwise: many at once fit an isolate's memory. */
const USUAL_MAX_BYTES = 64 * 1024;
/** How much of what is too large is read all the same, and for how long: who is still sending does not hear the answer. */
const MAX_DRAINED_BYTES = 8 * 1024 * 1024;
const MAX_DRAINING_MS = 5000;
/** How long a body may take to come: 4 MB at 1.1 Mbit/s. The bytes that have come are held in memory meanwhile. */
const USUAL_WITHIN_MS = 30_000;

interface BodyOptions {
  /** What the body may be, beside what `isTaken` says; default `application/json`. */
  mediaType?: string;
  /** Says of other media types whether they are read the same. */
  isTaken?: (mediaType: string) => boolean;
  maxBytes?: number;
  /** How long it may take to come; default 30 s. */
  withinMs?: number;
  /** The list whose items are answered one by one: one that cannot be taken is its own error, in its place. */
  items?: Items;
}

/**
 * Reads a JSON body: its type, its size, its shape, then its schema, in the order of what each costs. The handlers call it
 * themselves, because the router's own validator would parse whatever size and depth it is sent.
 */
export async function readBody<Schema extends z.ZodType>(
  request: HonoRequest,
  schema: Schema,
  {
    mediaType = "application/json",
    isTaken = () => false,
    maxBytes = USUAL_MAX_BYTES,
    withinMs = USUAL_WITHIN_MS,
    items,
  }: BodyOptions = {},
): Promise<z.output<Schema>> {
  const sent = mediaTypeOf(request);
  if (sent !== mediaType && !isTaken(sent)) throw notTaken(sent, mediaType);
  return parseWith(schema, parseBounded(await readText(request.raw, maxBytes, withinMs), maxBytes, items));
}

/** A value that fits its schema. Errors: `invalid_payload` with an issue per wrong field. */
export function parseWith<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalidRequest(issuesIn(schema, value, parsed.error));
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

/**
 * Reads no further than the limit: a body without a length could fill the isolate's memory. The whole body has to come in time as well.
 * Errors: `payload_too_large`, `invalid_json` for bytes that are no text, that break off or that come too late.
 */
export async function readText(request: Request, maxBytes: number, withinMs = USUAL_WITHIN_MS): Promise<string> {
  const reader = request.body?.getReader();
  if (!reader) return "";
  const deadline = after(withinMs);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  let text = "";
  let bytes = 0;
  try {
    for (let chunk = await next(reader, deadline); chunk; chunk = await next(reader, deadline)) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) {
        await drain(reader);
        throw new MillraceError("payload_too_large", `The body is larger than ${maxBytes} bytes. Send less at once.`);
      }
      text += decoded(() => decoder.decode(chunk, { stream: true }));
    }
  } finally {
    deadline.clear();
  }
  return text + decoded(() => decoder.decode());
}

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">;

interface Deadline {
  ms: number;
  passed: Promise<"late">;
  clear: () => void;
}

function after(ms: number): Deadline {
  const { promise: passed, resolve } = Promise.withResolvers<"late">();
  const timer = setTimeout(resolve, ms, "late");
  return { ms, passed, clear: () => clearTimeout(timer) };
}

/** The next bytes; undefined at the end. A caller who hangs up hears no answer, so it is none of ours to log as an error. */
async function next(reader: Reader, deadline: Deadline): Promise<Uint8Array | undefined> {
  const read = await Promise.race([deadline.passed, reader.read().catch(() => "broken" as const)]);
  if (typeof read === "object") return read.value;
  void reader.cancel().catch(() => {});
  const why = read === "late" ? `The body did not end within ${deadline.ms / 1000} s.` : "The body ended early.";
  throw new MillraceError("invalid_json", `${why} Send it again.`);
}

/**
 * Reads on and keeps nothing, within bounds: a connection that is closed on somebody who is still sending loses the answer with it. The
 * time is looked at while nothing comes, too: who is refused could otherwise hold a request open for nothing.
 */
async function drain(reader: Reader): Promise<void> {
  const deadline = after(MAX_DRAINING_MS);
  for (let bytes = 0; bytes <= MAX_DRAINED_BYTES; ) {
    const read = await Promise.race([deadline.passed, reader.read().catch(() => "broken" as const)]);
    if (typeof read === "string" || !read.value) break;
    bytes += read.value.byteLength;
  }
  deadline.clear();
  void reader.cancel().catch(() => {});
}

/** Drains the body of a request, unless a handler has begun to read it. */
export async function drainBody({ body, bodyUsed }: Request): Promise<void> {
  if (body && !bodyUsed && !body.locked) await drain(body.getReader());
}

/** What cannot be read is not guessed: a replaced character would be stored as if it had been sent. */
function decoded(decode: () => string): string {
  try {
    return decode();
  } catch {
    throw new MillraceError("invalid_json", "The body is not UTF-8. Send JSON in UTF-8.");
  }
}
