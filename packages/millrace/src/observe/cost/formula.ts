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
const PLAN_USD = 5;

export type Priced = keyof typeof PRICES;

/** Quantities by priced item. */
export type Usage = Partial<Record<Priced, number>>;

/** Number of queue operations for a message of up to 64 KB: a write, a read and a deletion. */
export const OPERATIONS_PER_MESSAGE = 3;
/** Number of queue operations for each further delivery of a message: a read. */
export const OPERATIONS_PER_RETRY = 1;

/** A cost in dollars, by priced item. */
export type Split = Readonly<Partial<Record<Priced, number>>>;

/** The cost of a usage at list prices, as if the plan's quotas were used up, by priced item. */
export function splitUsd(usage: Usage): Split {
  return Object.fromEntries(entriesOf(usage).map(([priced, amount]) => [priced, amount * PRICES[priced].usd]));
}

/** The cost of a usage at list prices, as if the plan's quotas were used up, in dollars. */
export function marginalUsd(usage: Usage): number {
  return sum(Object.values(splitUsd(usage)));
}

export interface Bill {
  /** The price of the plan plus the cost of the usage beyond the plan's quotas, in dollars. */
  readonly usd: number;
  readonly plan_usd: number;
  /** The cost of the usage beyond the plan's quotas in dollars, by priced item. */
  readonly usd_by: Split;
  /** The month's usage of each priced item, with the plan's quota. */
  readonly used: { readonly of: Priced; readonly used: number; readonly included: number; readonly usd: number }[];
}

/** The monthly cost of a whole account, with the plan's price and free quotas. */
export function monthlyBill(usage: Usage): Bill {
  const lines = entriesOf(usage).map(([of, used]) => {
    const { included, usd } = PRICES[of];
    return { of, used, included, usd: Math.max(0, used - included) * usd };
  });
  const usd_by = Object.fromEntries(lines.filter(({ usd }) => usd > 0).map(({ of, usd }) => [of, usd]));
  return { usd: PLAN_USD + sum(lines.map(({ usd }) => usd)), plan_usd: PLAN_USD, usd_by, used: lines };
}

/** Rounds dollars to a billionth, the price of one read row, and other numbers to a hundredth. */
export function rounded<T>(value: T, isUsd = false): T {
  if (typeof value === "number") return (Math.round(value * (isUsd ? 1e9 : 100)) / (isUsd ? 1e9 : 100)) as T;
  if (Array.isArray(value)) return value.map((one) => rounded(one, isUsd)) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, rounded(one, isUsd || name.includes("usd"))])) as T;
}

/** Adds up usages by priced item. */
export function addUsage(...usages: readonly Usage[]): Usage {
  const total: Usage = {};
  for (const usage of usages) for (const [priced, amount] of entriesOf(usage)) total[priced] = (total[priced] ?? 0) + amount;
  return total;
}

export function timesUsage(usage: Usage, times: number): Usage {
  return Object.fromEntries(entriesOf(usage).map(([priced, amount]) => [priced, amount * times]));
}

function entriesOf(usage: Usage): [Priced, number][] {
  return Object.entries(usage) as [Priced, number][];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
