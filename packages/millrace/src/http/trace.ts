import type { HonoRequest } from "hono";
import * as z from "zod";
import type { SaidTrace } from "../contract/trace.ts";

/** The headers of a request from which work follows. */
export const traceHeadersSchema = {
  traceparent: z.string().optional().meta({ description: "W3C trace context, passed on to all resulting messages." }),
  tracestate: z.string().optional().meta({ description: "Passed on with `traceparent`; up to 512 characters." }),
};

/** The trace that a request belongs to; undefined when it says nothing of one. */
export function traceOf(request: HonoRequest): SaidTrace | undefined {
  const traceparent = request.header("traceparent");
  return traceparent === undefined ? undefined : { traceparent, tracestate: request.header("tracestate") };
}
