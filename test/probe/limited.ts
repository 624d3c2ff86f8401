import { defineCommand, defineWorkflow, type WorkflowCall } from "millrace";
import type * as z from "zod";
import { keyOf, LIMITED, LIMITS, type Limited, type Limits } from "../proof/flow.ts";
import { probeCommands } from "./messages.ts";

interface Lab<Payload> {
  payload: z.ZodType<Payload>;
  run: (call: WorkflowCall<Payload>) => Promise<unknown>;
}

/** The workflow `lab` with the flow control of the random tests, once for each kind. */
export function labsInFlow<Payload extends { name: string }>({ payload, run }: Lab<Payload>) {
  const define = (kind: Limited) => {
    const { concurrency, throttle, debounce }: Limits = LIMITS[kind];
    const on = defineCommand({
      type: `lab.requested.${kind}`,
      payload,
      key: ({ name }) => name,
      subject: ({ name }) => name,
      queue: probeCommands,
    });
    return defineWorkflow({
      name: `lab-${kind}`,
      on,
      concurrency: { key: keyOf, limit: concurrency },
      ...(throttle && { throttle: { ...throttle, key: keyOf } }),
      ...(debounce && { debounce: { ...debounce, key: keyOf } }),
      run,
    });
  };
  return Object.fromEntries(LIMITED.map((kind) => [kind, define(kind)])) as Record<Limited, ReturnType<typeof define>>;
}
