import { cell } from "./cell.ts";

/** How far the engine's clock is ahead of the browser's, in milliseconds. */
let ahead = 0;

/** What time it is where the engine is: what happened is told by its clock. */
export const timeNow = () => Date.now() + ahead;

/** The time as the page shows it, to the second; it stands still while nobody looks. */
export const clock = cell(timeNow());

/** Takes the time that an answer of the engine has just said. A small difference is the way that it took. */
export function setClock(engineTime: string): void {
  const difference = Date.parse(engineTime) - Date.now();
  ahead = Math.abs(difference) > SMALL_MS ? difference : 0;
  clock.set(timeNow());
}

const SMALL_MS = 2000;

setInterval(() => {
  if (!document.hidden) clock.set(timeNow());
}, 1000);
