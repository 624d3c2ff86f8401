import { PLAN_USD, PRICES, type Priced, type Usage } from "./prices.ts";

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
