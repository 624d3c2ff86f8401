/** The delivery times of each series of messages, for both compared designs. */
const seen = new Map<string, number[]>();

/** The handler that both compared designs call; it records only the delivery time. */
export async function handle({ messages }: { messages: readonly { body: { series: string } }[] }): Promise<void> {
  const now = Date.now();
  for (const { body } of messages) {
    const times = seen.get(body.series) ?? [];
    times.push(now);
    seen.set(body.series, times);
  }
}

/** Waits until this many messages of a series were delivered. */
export async function untilSeen(series: string, count: number): Promise<number[]> {
  for (const from = Date.now(); Date.now() - from < 60_000; await scheduler.wait(1)) {
    const times = seen.get(series) ?? [];
    if (times.length >= count) return times;
  }
  throw new Error(`Only ${seen.get(series)?.length ?? 0} of ${count} messages of ${series} were delivered.`);
}
