import { digest } from "millrace";

/** Answers a text that was made for this request, or 304 to whoever holds it already, by its tag. */
export function answerTagged(request: Request, text: string, headers: Record<string, string>): Response {
  const etag = `"${digest(text)}"`;
  // Compared weakly, as RFC 9110 asks: proxies that compress put `W/` before a tag.
  const held: readonly string[] = request.headers.get("if-none-match")?.match(/"[^"]*"|\*/g) ?? [];
  const known = held.includes(etag) || held.includes("*");
  return new Response(known ? null : text, { status: known ? 304 : 200, headers: { ...headers, etag } });
}
