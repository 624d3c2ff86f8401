import { cell } from "./cell.ts";

/** The time as the page shows it, to the second; it stands still while nobody looks. */
export const clock = cell(Date.now());

setInterval(() => {
  if (!document.hidden) clock.set(Date.now());
}, 1000);
