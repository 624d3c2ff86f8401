interface Timed {
  type: "do" | "sleep" | "waitForEvent";
  started_at: string | null;
  ended_at: string | null;
}

const ms = (time: string | null) => (time === null ? undefined : Date.parse(time));

/** The duration of an ended run in ms, and how much of this time the run waited or slept. The time between runs is not included. */
export function tookOf(
  { accepted_at, updated_at }: { accepted_at: string; updated_at: string },
  steps: readonly Timed[],
  runs: readonly { begunAt: string }[],
): { took: number; waited: number } {
  const from = Date.parse(runs.at(-1)?.begunAt ?? accepted_at);
  const to = Date.parse(updated_at);
  const waits = steps.flatMap(({ type, started_at, ended_at }) => {
    const [began, ended] = [ms(started_at), ms(ended_at)];
    // An open step that started before this run belongs to the previous run.
    return type === "do" || began === undefined || (began < from && ended === undefined) ? [] : [{ began, ended: ended ?? to }];
  });
  let [waited, until] = [0, from];
  for (const { began, ended } of waits.toSorted((one, other) => one.began - other.began)) {
    waited += Math.max(0, Math.min(ended, to) - Math.max(began, until));
    until = Math.max(until, Math.min(ended, to));
  }
  return { took: Math.max(0, to - from), waited };
}
