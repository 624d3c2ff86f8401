import type { RefObject } from "preact";
import { useKeys } from "./keys.ts";

/** `j` and `k` walk a list that is no table: from the first link of one row to that of the next, which Enter opens. */
export function useWalk(list: RefObject<HTMLElement>): void {
  const walk = (by: 1 | -1) => {
    const rows = [...(list.current?.querySelectorAll(":scope > li") ?? [])].filter((row) => row.querySelector("a"));
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)];
    next?.querySelector("a")?.focus();
    // A list that has no row leaves the key to others.
    return next !== undefined;
  };
  useKeys({ j: () => walk(1), k: () => walk(-1) });
}
