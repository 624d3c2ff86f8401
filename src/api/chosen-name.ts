import { z } from "@hono/zod-openapi";

/** A name that somebody else chose and that we keep and show: bounded, without control characters. */
export function chosenName(max: number) {
  return z
    .string()
    .min(1)
    .max(max)
    .regex(/^\P{Cc}*$/u, "must not contain control characters");
}
