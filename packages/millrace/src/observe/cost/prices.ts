/** The month in which the list prices were last compared with Cloudflare's pages. */
export const PRICES_DATE = "2026-10";

interface Price {
  /** The price per unit in dollars. */
  readonly usd: number;
  /** The units per month that the plan includes. */
  readonly included: number;
  /** The page of Cloudflare's documentation that states this price. */
  readonly source: string;
}

const DOCS = "https://developers.cloudflare.com";
const D1 = `${DOCS}/d1/platform/pricing/`;
const OBJECTS = `${DOCS}/durable-objects/platform/pricing/`;
const WORKFLOWS = `${DOCS}/workflows/reference/pricing/`;

/** Cloudflare's list prices on the Paid plan per unit. The unit of storage is a GB per month. */
export const PRICES = {
  /** A step, sleep or wait of a workflow. The retries of a step are free. */
  steps: { usd: 8e-6, included: 500_000, source: WORKFLOWS },
  /** A row written to D1. Each index on a written column adds one row. */
  rows_written: { usd: 1e-6, included: 50_000_000, source: D1 },
  rows_read: { usd: 1e-9, included: 25_000_000_000, source: D1 },
  /** A write, a read or a deletion of up to 64 KB of a message. */
  queue_operations: { usd: 0.4e-6, included: 1_000_000, source: `${DOCS}/queues/platform/pricing/` },
  /** An invocation of a Worker: a request, a batch of a queue or an instance of a workflow. */
  requests: { usd: 0.3e-6, included: 10_000_000, source: `${DOCS}/workers/platform/pricing/` },
  cpu_ms: { usd: 0.02e-6, included: 30_000_000, source: `${DOCS}/workers/platform/pricing/` },
  /** A call to a Durable Object. */
  object_requests: { usd: 0.15e-6, included: 1_000_000, source: OBJECTS },
  /** One GB of a Durable Object's memory for one second. An object of 128 MB uses 1/8 GB second per second. */
  object_gb_seconds: { usd: 12.5e-6, included: 400_000, source: OBJECTS },
  log_lines: { usd: 0.6e-6, included: 20_000_000, source: `${DOCS}/workers/observability/logs/workers-logs/` },
  d1_gb: { usd: 0.75, included: 5, source: D1 },
  workflow_gb: { usd: 0.2, included: 1, source: WORKFLOWS },
} as const satisfies Record<string, Price>;

/** The monthly price of the plan with its quotas, in dollars. */
export const PLAN_USD = 5;

export type Priced = keyof typeof PRICES;

/** Quantities by priced item. */
export type Usage = Partial<Record<Priced, number>>;
