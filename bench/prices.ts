/** Cloudflare's marginal prices on the Paid plan, in dollars each (2026-10; see docs/performance.md). */
const PRICE = {
  step: 8e-6,
  rowWritten: 1e-6,
  rowRead: 1e-9,
  /** Three operations a delivery. */
  message: 1.2e-6,
  request: 0.3e-6,
  objectRequest: 0.15e-6,
} as const;

/** What one run uses. */
export interface Usage {
  steps: number;
  rowsWritten: number;
  rowsRead: number;
  messages: number;
  /** HTTP requests, queue batches and instances started. */
  requests: number;
  /** Calls to Durable Objects. */
  objectRequests: number;
}

/** Dollars for a million such runs, without CPU time and storage, which depend on what the steps do. */
export function usdPerMillionRuns(usage: Usage): number {
  const each =
    usage.steps * PRICE.step +
    usage.rowsWritten * PRICE.rowWritten +
    usage.rowsRead * PRICE.rowRead +
    usage.messages * PRICE.message +
    usage.requests * PRICE.request +
    usage.objectRequests * PRICE.objectRequest;
  return Math.round(each * 1e6 * 100) / 100;
}
