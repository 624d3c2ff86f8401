import * as z from "zod";

// HubSpot's page "Error handling" says that every field of an error is optional, although HubSpot's schemas require some fields.
const Context = z.record(z.string(), z.array(z.string())).catch({});

/** HubSpot's error. A 207 response contains such an error for each failed record, and an error response has one as its body. */
export const HubspotError = z.object({
  category: z.string().catch("UNKNOWN"),
  message: z.string().catch(""),
  correlationId: z.string().optional().catch(undefined),
  /** The rate limit that a 429 response reports as reached. */
  policyName: z.string().optional().catch(undefined),
  /** The id of the error in a 207 response, if HubSpot sends an id. */
  id: z.string().optional().catch(undefined),
  context: Context.default({}),
  errors: z.array(z.object({ message: z.string().catch(""), code: z.string().optional().catch(undefined) })).catch([]),
});
export type HubspotError = z.infer<typeof HubspotError>;

const Properties = z.record(z.string(), z.string().nullable());

const errors = z.array(HubspotError).default([]);

/** HubSpot also returns 2xx for a batch that HubSpot has not processed. The status is then `PENDING` or `CANCELED`. */
const done = { status: z.string().default("COMPLETE"), numErrors: z.int().default(0), errors };
const End = z.object({ id: z.string() });

export const Upserted = z.object({
  results: z.array(
    z.object({
      id: z.string(),
      new: z.boolean().default(false),
      objectWriteTraceId: z.string().optional(),
      properties: Properties.default({}),
    }),
  ),
  errors,
});

export const Read = z.object({
  results: z.array(z.object({ id: z.string(), properties: Properties, updatedAt: z.string(), archived: z.boolean().default(false) })),
  ...done,
});

export const Associated = z.object({ results: z.array(z.object({ from: End, to: End })), ...done });

export const Renamed = z.object({ results: z.array(z.object({ id: z.string(), properties: Properties.default({}) })), ...done });

export const Merged = z.object({ id: z.string() });

/** The schema of a 204 response, which has no body. */
export const Erased = z.undefined();
