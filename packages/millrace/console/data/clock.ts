import { cell } from "./cell.ts";

let ahead = 0;

/** The current time by the engine's clock, in ms. The times in events also come from the engine's clock. */
export const timeNow = () => Date.now() + ahead;

/** The current time for display, which is updated every second. It is not updated while the page is hidden. */
export const clock = cell(timeNow());

/** Sets the clock to the engine's time. A small difference is ignored, because the latency of the network causes it. */
export function setClock(engineTime: string): void {
  const difference = Date.parse(engineTime) - Date.now();
  ahead = Math.abs(difference) > SMALL_MS ? difference : 0;
  clock.set(timeNow());
}

const SMALL_MS = 2000;

setInterval(() => {
  if (!document.hidden) clock.set(timeNow());
}, 1000);

const UNITS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Converts an age such as `15m` to a time, rounded to the minute. Any other text is returned unchanged. */
export function sinceOf(age: string): string {
  const [, count, unit] = /^(\d+)([mhd])$/.exec(age) ?? [];
  if (!count) return age;
  const at = timeNow() - Number(count) * UNITS[unit as keyof typeof UNITS];
  return new Date(Math.max(0, Math.floor(at / 60_000) * 60_000)).toISOString();
}
