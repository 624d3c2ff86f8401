/** The results of several rounds. */
export async function repeat<T>(times: number, once: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let time = 0; time < times; time++) results.push(await once());
  return results;
}

export function median(numbers: readonly number[]): number {
  return percentile(numbers, 0.5);
}

/** The percentile of the numbers for this fraction (0 to 1). */
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
