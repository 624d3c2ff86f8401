import type { Context } from "hono";

/**
 * Sets headers of the response after the handler. `context.header` would copy the whole response for each header. The headers of a response
 * from `fetch` cannot be changed, so only such a response is copied.
 */
export function setHeaders(context: Pick<Context, "res" | "header">, headers: Readonly<Record<string, string>>): void {
  try {
    for (const [name, value] of Object.entries(headers)) context.res.headers.set(name, value);
  } catch {
    for (const [name, value] of Object.entries(headers)) context.header(name, value);
  }
}
