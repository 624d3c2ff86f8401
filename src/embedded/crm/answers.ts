/** A response of the embedded CRM. */
export interface CrmAnswer {
  status: number;
  body: object;
  headers?: Record<string, string>;
  /** The number of the call's inputs that failed. */
  failed?: number;
}

type ErrorContext = Record<string, string[]>;

/** An error of the embedded CRM with HubSpot's wording. The error is thrown, so that the call's changes are rolled back. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly category: string,
    message: string,
    readonly context: ErrorContext = {},
  ) {
    super(message);
  }
}

/** Converts an error to the response to a whole call. */
export function errorAnswer({ status, category, message, context }: Refused, correlationId: string): CrmAnswer {
  return { status, body: { status: "error", message, correlationId, category, ...(Object.keys(context).length > 0 && { context }) } };
}

/** Converts the error of one input to the entry for this input in a 207 response. */
export function inputError({ category, message, context }: Refused, correlationId: string): object {
  return { status: "error", id: correlationId, category, message, context, errors: [], links: {} };
}

/** Builds the response to a batch, with status 200 if all inputs succeeded and 207 if at least one input failed. */
export function batchAnswer(results: object[], errors: object[], startedAt: number): CrmAnswer {
  const body = {
    status: "COMPLETE",
    startedAt: new Date(startedAt).toISOString(),
    completedAt: new Date().toISOString(),
    results,
    ...(errors.length > 0 && { numErrors: errors.length, errors }),
  };
  return { status: errors.length > 0 ? 207 : 200, body, failed: errors.length };
}
