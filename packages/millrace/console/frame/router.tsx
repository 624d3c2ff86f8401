import type { ComponentChildren, JSX, RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { cell, useCell } from "../data/cell.ts";
import { remembered } from "../data/remembered.ts";

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

export function go(href: string): void {
  history.pushState(null, "", href);
  place.set(placeNow());
}

/** Sets filters in the URL of the current screen. The values undefined and "" remove a filter. */
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

/** Handlers by key. `g i` means two keys in sequence. If a handler returns false, the next lower layer handles the key. */
type Keys = Readonly<Record<string, () => unknown>>;

/** The user's setting for shortcuts of single keys. Esc, Ctrl+Enter and the arrow keys always work. */
export const singleKeys = remembered<"on" | "off">("keys", "on");
export const isSheetShown = cell(false);

const SEQUENCE_MS = 1500;
const layers: { current: Keys }[] = [];
let before = "";
let beforeAt = 0;

/**
 * Handles keys while the component is mounted. If several components handle a key, the component that was mounted last has priority. Fields
 * and dialogs handle their keys themselves.
 */
export function useKeys(keys: Keys): void {
  const layer = useRef(keys);
  layer.current = keys;
  // The effect runs before the paint, because the user may press a key as soon as a row is visible.
  useLayoutEffect(() => {
    layers.push(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || !(target instanceof Element)) return;
  if (target.closest("input, textarea, select, dialog, [contenteditable]")) return;
  if (key.length === 1 && singleKeys.get() === "off") return;
  const sequence = event.timeStamp - beforeAt < SEQUENCE_MS ? `${before} ${key}` : key;
  [before, beforeAt] = [key, event.timeStamp];
  for (const name of [sequence, key]) {
    const isHeard = layers.toReversed().some(({ current }) => Object.hasOwn(current, name) && current[name]?.() !== false);
    if (!isHeard) continue;
    event.preventDefault();
    before = "";
    return;
  }
});

/** Handles Ctrl+Enter, which confirms a dialog or sends a form. */
export function onConfirm(confirm: (() => unknown) | undefined) {
  return (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    confirm?.();
  };
}

/** With the keys `j` and `k`, the focus moves to the first link of the next or previous row. */
export function useWalk(list: RefObject<HTMLElement>): void {
  const walk = (by: 1 | -1) => {
    const rows = [...(list.current?.querySelectorAll("li:not(li li)") ?? [])].filter((row) => row.querySelector("a"));
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1)];
    next?.querySelector("a")?.focus();
    // If the list is empty, the next handler gets the key.
    return next !== undefined;
  };
  useKeys({ j: () => walk(1), k: () => walk(-1) });
}
