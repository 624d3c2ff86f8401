import { cell } from "../data/cell.ts";

/** Items that need an operator, shown in the tab's title. 0 if the screen does not count them. */
export const needed = cell(0);
