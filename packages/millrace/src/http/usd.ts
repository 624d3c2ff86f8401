/** Rounds dollars to a billionth, the price of one read row. */
export function usdView(usd: number): number {
  return Math.round(usd * 1e9) / 1e9;
}
