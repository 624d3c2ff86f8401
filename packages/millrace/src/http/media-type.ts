import type { HonoRequest, MiddlewareHandler } from "hono";
import { beginning } from "../contract/text.ts";
import type { HttpEnv } from "./env.ts";
import { HttpRefusal } from "./problem.ts";

/**
 * The media type of a request in lower case, without parameters. A malformed header, for instance one that was sent twice, is returned
 * whole.
 */
export function mediaTypeOf(request: HonoRequest): string {
  const header = (request.header("content-type") ?? "").trim().toLowerCase();
  return header.includes(",") ? header : (header.split(";")[0]?.trim() ?? "");
}

/** True for `application/json` and types such as `application/vnd.shop.order+json`. */
export function isJsonType(mediaType: string): boolean {
  return /^[\w!#$&^.-]+\/([\w!#$&^.+-]+\+)?json$/.test(mediaType);
}

/** The error for a body in an unsupported media type. `taken` are the supported media types. */
export function notTaken(sent: string, ...taken: string[]): HttpRefusal {
  const types = taken.map((type) => `\`Content-Type: ${type}\``).join(" or ");
  return new HttpRefusal("unsupported_media_type", `Send ${types}${sent ? `, not ${beginning(sent, 100)}` : ""}.`);
}

/**
 * Refuses a body that is compressed or not in UTF-8, because such a body would be misread. Requests without a body, GET and DELETE are not
 * checked, because no route reads their body. Errors: `unsupported_media_type`.
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
/** The supported charsets: UTF-8, and ASCII as its subset. */
const PLAIN = new Set(["utf-8", "utf8", "us-ascii", "ascii"]);
