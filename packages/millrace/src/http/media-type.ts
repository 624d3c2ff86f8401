import type { HonoRequest, MiddlewareHandler } from "hono";
import { beginning } from "../contract/text.ts";
import type { HttpEnv } from "./env.ts";
import { HttpRefusal } from "./problem.ts";

/** The bare media type of a request: lower case, without parameters; all of the header where it is none, as when it came twice. */
export function mediaTypeOf(request: HonoRequest): string {
  const header = (request.header("content-type") ?? "").trim().toLowerCase();
  return header.includes(",") ? header : (header.split(";")[0]?.trim() ?? "");
}

/** True for JSON by its media type: `application/json`, and `application/vnd.shop.order+json` as well. */
export function isJsonType(mediaType: string): boolean {
  return /^[\w!#$&^.-]+\/([\w!#$&^.+-]+\+)?json$/.test(mediaType);
}

/** A body of a type that the route does not take. */
export function notTaken(sent: string, ...taken: string[]): HttpRefusal {
  const types = taken.map((type) => `\`Content-Type: ${type}\``).join(" or ");
  return new HttpRefusal("unsupported_media_type", `Send ${types}${sent ? `, not ${beginning(sent, 100)}` : ""}.`);
}

/**
 * Refuses a body that is packed, or written in other characters than UTF-8: nothing here unpacks or converts one, so it would be
 * misread. A request without a body, a GET and a DELETE are not judged: no route reads a body of theirs. Errors: `unsupported_media_type`.
 */
export const readable: MiddlewareHandler<HttpEnv> = async ({ req }, next) => {
  if (req.raw.body === null || req.method === "GET" || req.method === "DELETE") return next();
  const encoding = (req.header("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding !== "identity") {
    throw new HttpRefusal(
      "unsupported_media_type",
      `Send the body without encoding: \`Content-Encoding: ${beginning(encoding, 50)}\` is not supported.`,
      { "accept-encoding": "identity" },
    );
  }
  for (const [, charset = ""] of (req.header("content-type") ?? "").matchAll(CHARSET)) {
    if (PLAIN.has(charset.toLowerCase())) continue;
    throw new HttpRefusal("unsupported_media_type", `Send the body in UTF-8: \`charset=${beginning(charset, 50)}\` is not supported.`);
  }
  await next();
};

const CHARSET = /;\s*charset\s*=\s*["']?([^\s;"',]*)/gi;
/** UTF-8 by its names, and what is UTF-8 as it is. */
const PLAIN = new Set(["utf-8", "utf8", "us-ascii", "ascii"]);
