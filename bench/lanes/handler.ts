/** What the handlers of all sides have seen, by the name of the series: how many, and when each was handed out. */
const seen = new Map<string, number[]>();

/** The handler of all sides: it notes the time, and does nothing else. */
export async function handle({ messages }: { messages: readonly { body: { series: string } }[] }): Promise<void> {
  const now = Date.now();
  for (const { body } of messages) {
    const times = seen.get(body.series) ?? [];
    times.push(now);
    seen.set(body.series, times);
  }
}

/** Waits until so many of a series were handed out. */
export async function untilSeen(series: string, count: number): Promise<number[]> {
  for (const from = Date.now(); Date.now() - from < 60_000; await scheduler.wait(1)) {
    const times = seen.get(series) ?? [];
    if (times.length >= count) return times;
  }
  throw new Error(`Only ${seen.get(series)?.length ?? 0} of ${count} messages of ${series} were handed out.`);
}
