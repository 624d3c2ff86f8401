/** Calls a function several times, one call after another, and returns the results. */
export async function repeat<T>(times: number, once: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let time = 0; time < times; time++) results.push(await once());
  return results;
}

export function median(numbers: readonly number[]): number {
  return percentile(numbers, 0.5);
}

/** The percentile of a list of numbers; 0.99 as the fraction gives the 99th percentile. */
export function percentile(numbers: readonly number[], share: number): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length * share)] ?? Number.NaN;
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}

export function say(what: string, ...figures: (string | number)[]): void {
  console.log(`${what}\n  ${figures.join(" · ")}`);
}

/** Sends a request to the measured Worker. */
export type AskWorker = <T>(path: string) => Promise<T>;
