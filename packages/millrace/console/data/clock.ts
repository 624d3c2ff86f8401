import { cell } from "./cell.ts";

let ahead = 0;

/** The current time of the engine's clock, in ms. Events have times of that clock. */
export const timeNow = () => Date.now() + ahead;

/** The displayed time, to the second. The clock stops while the page is hidden. */
export const clock = cell(timeNow());

/** Sets the difference of the clocks from a response. Small differences are ignored: they are the network's latency. */
export function setClock(engineTime: string): void {
  const difference = Date.parse(engineTime) - Date.now();
  ahead = Math.abs(difference) > SMALL_MS ? difference : 0;
  clock.set(timeNow());
}

const SMALL_MS = 2000;

setInterval(() => {
  if (!document.hidden) clock.set(timeNow());
}, 1000);
