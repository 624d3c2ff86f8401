import { PLAN_USD, PRICES, type Priced, type Usage } from "./prices.ts";

/** Operations of a queue for each delivery of a message of up to 64 KB: it is written, read and deleted. */
export const OPERATIONS_PER_MESSAGE = 3;

/** Dollars by what they are for. */
export type Split = Readonly<Partial<Record<Priced, number>>>;

/** What a usage costs at list prices, beyond what the plan includes: by what it is for. */
export function splitUsd(usage: Usage): Split {
  return Object.fromEntries(entriesOf(usage).map(([priced, amount]) => [priced, amount * PRICES[priced].usd]));
}

/** What a usage costs at list prices, beyond what the plan includes, in dollars. */
export function marginalUsd(usage: Usage): number {
  return sum(Object.values(splitUsd(usage)));
}

/** What a month costs. */
export interface Bill {
  /** The plan, and what is beyond its quotas, in dollars. */
  readonly usd: number;
  /** Dollars beyond the plan's quotas, by what they are for. */
  readonly beyond: Split;
  /** What the month uses, each with what the plan includes of it. */
  readonly lines: readonly { readonly priced: Priced; readonly used: number; readonly included: number; readonly usd: number }[];
}

/** What a whole account's month costs with the plan: what is included in it is free. */
export function monthlyBill(usage: Usage): Bill {
  const lines = entriesOf(usage).map(([priced, used]) => {
    const { included, usd } = PRICES[priced];
    return { priced, used, included, usd: Math.max(0, used - included) * usd };
  });
  const beyond = Object.fromEntries(lines.filter(({ usd }) => usd > 0).map(({ priced, usd }) => [priced, usd]));
  return { usd: PLAN_USD + sum(lines.map(({ usd }) => usd)), beyond, lines };
}

/** Several usages as one. */
export function addUsage(...usages: readonly Usage[]): Usage {
  const total: Usage = {};
  for (const usage of usages) for (const [priced, amount] of entriesOf(usage)) total[priced] = (total[priced] ?? 0) + amount;
  return total;
}

/** A usage so many times. */
export function timesUsage(usage: Usage, times: number): Usage {
  return Object.fromEntries(entriesOf(usage).map(([priced, amount]) => [priced, amount * times]));
}

function entriesOf(usage: Usage): [Priced, number][] {
  return Object.entries(usage) as [Priced, number][];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
