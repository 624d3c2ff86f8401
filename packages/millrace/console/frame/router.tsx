import type { ComponentChildren, JSX } from "preact";
import { cell, useCell } from "../data/cell.ts";

const BASE = "/console";
/** An escape for `.` and `..`, which browsers resolve even if encoded. */
const DOTS = "named";
const isDots = (name: string) => /^\.{1,2}$/.test(name);

/** A location in the console: the path after `/console`, and the query with the filters. */
export interface Place {
  path: readonly string[];
  query: URLSearchParams;
}

function placeNow(): Place {
  const parts = location.pathname.slice(BASE.length).split("/").filter(Boolean);
  const query = new URLSearchParams(location.search);
  return { path: [...parts.map(decoded), ...query.getAll(DOTS)], query };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const place = cell<Place>(placeNow());
addEventListener("popstate", () => place.set(placeNow()));

export function usePlace(): Place {
  return useCell(place);
}

export function hrefOf(...parts: (string | Readonly<Record<string, string | undefined>>)[]): string {
  const names = parts.filter((part): part is string => typeof part === "string" && part !== "");
  const path = names.filter((name) => !isDots(name)).map(encodeURIComponent);
  const query = new URLSearchParams(names.filter(isDots).map((name) => [DOTS, name]));
  for (const part of parts)
    if (typeof part === "object") for (const [name, value] of Object.entries(part)) if (value) query.set(name, value);
  return [BASE, ...path].join("/") + (query.size > 0 ? `?${query}` : "");
}

/** Navigates to a URL of the console. With `replace`, no entry is added to the browser's history. */
export function go(href: string, { replace = false } = {}): void {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  place.set(placeNow());
}

/**
 * Sets filters in the URL of the current screen. The values undefined and "" remove a filter. Filters that are not passed remain unchanged.
 */
export function setFilters(filters: Readonly<Record<string, string | undefined>>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(filters)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  go(location.pathname + (query.size > 0 ? `?${query}` : ""));
}

type LinkProps = Omit<JSX.IntrinsicElements["a"], "href"> & { to: string; children: ComponentChildren };

/** A link without a page load. Clicks with a modifier keep the browser's behavior. */
export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a {...rest} href={to} onClick={follow}>
      {children}
    </a>
  );
}
