/** Dollars as the API says them: to a billionth, which is what one read row costs. */
export function usdView(usd: number): number {
  return Math.round(usd * 1e9) / 1e9;
}
