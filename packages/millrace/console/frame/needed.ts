import { cell } from "../data/cell.ts";

/** Items that need an operator, shown in the tab's title. The number is 0 if the screen does not count such items. */
export const needed = cell(0);
