import type { HonoRequest } from "hono";
import * as z from "zod";
import { issuesIn } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Items, parseBounded } from "../contract/limits.ts";
import { beginning } from "../contract/text.ts";
import { HttpRefusal, invalidRequest } from "./problem.ts";

/** Default size limit of a request body. Many concurrent bodies of this size fit in an isolate's memory. */
const USUAL_MAX_BYTES = 64 * 1024;
/** Maximum bytes and time for reading the rest of a refused body: a client receives the response only after it has sent the body. */
const MAX_DRAINED_BYTES = 8 * 1024 * 1024;
const MAX_DRAINING_MS = 5000;
/** Default time for a request body to arrive: enough for 4 MB at 1.1 Mbit/s. The received part of the body is in memory meanwhile. */
const USUAL_WITHIN_MS = 30_000;

interface BodyOptions {
  /** The media type that the route accepts. Default `application/json`. */
  mediaType?: string;
  /** True for further media types that the route accepts and parses in the same way. */
  isTaken?: (mediaType: string) => boolean;
  maxBytes?: number;
  /** Time for the body to arrive, in ms. Default 30 s. */
  withinMs?: number;
  /** The list in the body whose items get their own results: an invalid item becomes an error at its position. */
  items?: Items;
}

/** Reads a JSON body. Checks media type, size, depth, then schema, in the order of their cost. */
export async function readBody<Schema extends z.ZodType>(
  request: HonoRequest,
  schema: Schema,
  options: BodyOptions = {},
): Promise<z.output<Schema>> {
  const { mediaType = "application/json", isTaken, maxBytes = USUAL_MAX_BYTES, withinMs, items } = options;
  const sent = mediaTypeOf(request);
  if (sent !== mediaType && !isTaken?.(sent)) throw notTaken(sent, mediaType);
  return parseWith(schema, parseBounded(await readText(request.raw, maxBytes, withinMs), maxBytes, items));
}

/** Validates a value by a schema. Errors: `invalid_payload` with an issue per invalid field. */
export function parseWith<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalidRequest(issuesIn(schema, value, parsed.error));
}

/** Documents the body of a route. Pass the same schema as to `readBody`. */
export function jsonBody(schema: z.ZodType) {
  return { required: true, content: { "application/json": { schema } } };
}

export function jsonSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return rest;
}

/**
 * Reads a body up to the limit, because a body without a length could fill the isolate's memory. A body of a known and permitted length is
 * read at once, which takes a third of the processor time. Errors: `payload_too_large`; `invalid_json` for bytes that are not UTF-8, end
 * early or arrive too late.
 */
export async function readText(request: Request, maxBytes: number, withinMs = USUAL_WITHIN_MS): Promise<string> {
  const deadline = after(withinMs);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  try {
    if (Number(request.headers.get("content-length") ?? Number.NaN) <= maxBytes) {
      const whole = await inTime(request.arrayBuffer(), deadline);
      // A Worker in front can set a wrong length.
      if (whole.byteLength > maxBytes) throw tooLarge(maxBytes);
      return decoded(() => decoder.decode(whole));
    }
    const reader = request.body?.getReader();
    let text = "";
    let bytes = 0;
    for (let chunk = await next(reader, deadline); reader && chunk; chunk = await next(reader, deadline)) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) {
        await drain(reader);
        throw tooLarge(maxBytes);
      }
      text += decoded(() => decoder.decode(chunk, { stream: true }));
    }
    return text + decoded(() => decoder.decode());
  } finally {
    deadline.clear();
  }
}

function tooLarge(maxBytes: number): MillraceError {
  return new MillraceError("payload_too_large", `The body is larger than ${maxBytes} bytes. Send less at once.`);
}

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">;

type Deadline = ReturnType<typeof after>;

function after(ms: number) {
  const { promise: passed, resolve } = Promise.withResolvers<"late">();
  const timer = setTimeout(resolve, ms, "late");
  return { ms, passed, clear: () => clearTimeout(timer) };
}

/** The next bytes of a body; undefined at the end. */
async function next(reader: Reader | undefined, deadline: Deadline): Promise<Uint8Array | undefined> {
  try {
    return reader && (await inTime(reader.read(), deadline)).value;
  } catch (error) {
    void reader?.cancel().catch(() => {});
    throw error;
  }
}

/** The result of a read that ends in time. An aborted upload is the client's error, not a 5xx to log. Errors: `invalid_json`. */
async function inTime<Read extends object>(reading: Promise<Read>, deadline: Deadline): Promise<Read> {
  const read = await Promise.race([deadline.passed, reading.catch(() => "broken" as const)]);
  if (typeof read === "object") return read;
  const why = read === "late" ? `The body did not end within ${deadline.ms / 1000} s.` : "The body ended early.";
  throw new MillraceError("invalid_json", `${why} Send it again.`);
}

/**
 * Reads and discards the rest of a refused body, within bounds: a client that is still sending would lose the response if the connection
 * closed. The timeout also ends an idle upload.
 */
async function drain(reader: Reader): Promise<void> {
  const deadline = after(MAX_DRAINING_MS);
  let bytes = 0;
  while (bytes <= MAX_DRAINED_BYTES) {
    const chunk = await next(reader, deadline).catch(() => undefined);
    if (!chunk) break;
    bytes += chunk.byteLength;
  }
  deadline.clear();
  void reader.cancel().catch(() => {});
}

export async function drainBody({ body, bodyUsed }: Request): Promise<void> {
  if (body && !bodyUsed && !body.locked) await drain(body.getReader());
}

/** Errors: `invalid_json` for invalid UTF-8. Replacement characters would be stored as if the client had sent them. */
function decoded(decode: () => string): string {
  try {
    return decode();
  } catch {
    throw new MillraceError("invalid_json", "The body is not UTF-8. Send JSON in UTF-8.");
  }
}

/** The media type in lower case, without parameters. A malformed header, such as a repeated one, is returned whole. */
export function mediaTypeOf(request: HonoRequest): string {
  const header = (request.header("content-type") ?? "").trim().toLowerCase();
  return header.includes(",") ? header : (header.split(";")[0]?.trim() ?? "");
}

/** Also true for types such as `application/vnd.shop.order+json`. */
export function isJsonType(mediaType: string): boolean {
  return /^[\w!#$&^.-]+\/([\w!#$&^.+-]+\+)?json$/.test(mediaType);
}

export function notTaken(sent: string, ...taken: string[]): HttpRefusal {
  const types = taken.map((type) => `\`Content-Type: ${type}\``).join(" or ");
  return new HttpRefusal("unsupported_media_type", `Send ${types}${sent ? `, not ${beginning(sent, 100)}` : ""}.`);
}

/** Refuses a body that is compressed or not in UTF-8, which would be misread. Errors: `unsupported_media_type`. */
export function assertReadable(request: HonoRequest): void {
  const encoding = (request.header("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding !== "identity") {
    refuseBody(request, `Send the body without encoding: \`Content-Encoding: ${beginning(encoding, 50)}\` is not supported.`, {
      "accept-encoding": "identity",
    });
  }
  for (const [, charset = ""] of (request.header("content-type") ?? "").matchAll(CHARSET)) {
    if (PLAIN.has(charset.toLowerCase())) continue;
    refuseBody(request, `Send the body in UTF-8: \`charset=${beginning(charset, 50)}\` is not supported.`);
  }
}

/** Does not refuse a GET or a DELETE, because no route reads their body. */
function refuseBody({ method, raw }: HonoRequest, message: string, headers?: Record<string, string>): void {
  if (method === "GET" || method === "DELETE" || raw.body === null) return;
  throw new HttpRefusal("unsupported_media_type", message, headers);
}

const CHARSET = /;\s*charset\s*=\s*["']?([^\s;"',]*)/gi;
/** The supported charsets: UTF-8, and ASCII as its subset. */
const PLAIN = new Set(["utf-8", "utf8", "us-ascii", "ascii"]);
