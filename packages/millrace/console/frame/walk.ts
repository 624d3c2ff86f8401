import type { RefObject } from "preact";
import { useKeys } from "./keys.ts";

/** With the keys `j` and `k`, the focus moves to the first link of the next or previous row. */
export function useWalk(list: RefObject<HTMLElement>): void {
  const walk = (by: 1 | -1) => {
    const rows = [...(list.current?.querySelectorAll("li") ?? [])].filter((row) => row.querySelector("a"));
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)];
    next?.querySelector("a")?.focus();
    // If the list is empty, the next handler gets the key.
    return next !== undefined;
  };
  useKeys({ j: () => walk(1), k: () => walk(-1) });
}
