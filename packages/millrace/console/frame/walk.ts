import type { RefObject } from "preact";
import { useKeys } from "./keys.ts";

/** `j` and `k` move the focus between the first links of a list's rows. */
export function useWalk(list: RefObject<HTMLElement>): void {
  const walk = (by: 1 | -1) => {
    const rows = [...(list.current?.querySelectorAll("li") ?? [])].filter((row) => row.querySelector("a"));
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)];
    next?.querySelector("a")?.focus();
    // The keys of an empty list go to the next handler.
    return next !== undefined;
  };
  useKeys({ j: () => walk(1), k: () => walk(-1) });
}
