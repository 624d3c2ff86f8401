import type { HonoRequest } from "hono";
import * as z from "zod";
import type { SaidTrace } from "../contract/trace.ts";

/** The trace headers of a request that starts work. */
export const traceHeadersSchema = {
  traceparent: z.string().optional().meta({ description: "W3C trace context, passed on to all resulting messages." }),
  tracestate: z.string().optional().meta({ description: "Passed on with `traceparent`; up to 512 characters." }),
};

/** The trace context of a request; undefined without a trace context. */
export function traceOf(request: HonoRequest): SaidTrace | undefined {
  const traceparent = request.header("traceparent");
  return traceparent === undefined ? undefined : { traceparent, tracestate: request.header("tracestate") };
}
