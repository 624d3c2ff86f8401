import { ids } from "millrace";

/** Responds with a generated text, or with 304 if the ETag in the request shows that the client has the same version. */
export function answerTagged(request: Request, text: string, headers: Record<string, string>): Response {
  const etag = `"${ids.digest(text)}"`;
  // ETags are compared weakly, as RFC 9110 requires, because compressing proxies put `W/` before a tag.
  const held: readonly string[] = request.headers.get("if-none-match")?.match(/"[^"]*"|\*/g) ?? [];
  const known = held.includes(etag) || held.includes("*");
  return new Response(known ? null : text, { status: known ? 304 : 200, headers: { ...headers, etag } });
}
