import { cell } from "../data/cell.ts";

/** How much waits for a person, as far as the screen that is shown knows it: the tab's title begins with it. 0 where it does not. */
export const needed = cell(0);
