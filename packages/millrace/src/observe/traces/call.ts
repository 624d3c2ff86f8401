import { spanUnderWay, type TraceContext, traceHeaders } from "../../contract/trace.ts";
import { childOf, exportSpans, idsOf, KIND } from "./exporter.ts";

/**
 * Sends an external request with the headers of the current trace, unless the request has its own trace headers. Within a step with
 * exported spans, the call is a span that ends with the response's headers. That span contains only method, host, port and status of the
 * request. The call throws the errors of `send`.
 */
export async function tracedCall(
  request: Request,
  trace: TraceContext | undefined,
  send: (request: Request) => Promise<Response>,
): Promise<Response> {
  const parent = spanUnderWay();
  const own = parent && childOf(parent.traceparent);
  const headers = own === undefined ? traceHeaders(trace) : { ...traceHeaders(trace), traceparent: own };
  for (const [name, value] of Object.entries(headers)) if (!request.headers.has(name)) request.headers.set(name, value);
  if (own === undefined) return send(request);
  const startedAt = Date.now();
  const url = new URL(request.url);
  const note = (status: number | undefined, error: string | undefined) =>
    exportSpans(parent?.env ?? {}, {
      ...idsOf(own, parent?.traceparent),
      ...{ name: request.method, kind: KIND.client, startedAt, endedAt: Date.now(), error },
      attributes: {
        "http.request.method": request.method,
        "url.scheme": url.protocol.slice(0, -1),
        "server.address": url.hostname,
        "server.port": Number(url.port) || (url.protocol === "https:" ? 443 : 80),
        "http.response.status_code": status,
        "error.type": error && String(status ?? "no_answer"),
      },
    });
  try {
    const response = await send(request);
    note(response.status, response.status < 400 ? undefined : `${response.status}`);
    return response;
  } catch (error) {
    note(undefined, "no answer");
    throw error;
  }
}
