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

/** Dollars for a million messages of a lane, without what their handler uses. */
export function usdPerMillionLaneMessages({ rowsWritten, objectRequests }: { rowsWritten: number; objectRequests: number }): number {
  return Math.round((rowsWritten * PRICE.rowWritten + objectRequests * PRICE.objectRequest) * 1e8) / 100;
}

/** Dollars for a million messages of a queue, without the calls of their handler. */
export function usdPerMillionQueueMessages(): number {
  return PRICE.message * 1e6;
}
