import { cell } from "../data/cell.ts";

/** The number of items that need an operator, which the tab's title shows. The number is 0 on a screen that does not count such items. */
export const needed = cell(0);
