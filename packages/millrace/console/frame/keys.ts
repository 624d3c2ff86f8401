import { useLayoutEffect, useRef } from "preact/hooks";
import { cell } from "../data/cell.ts";
import { remembered } from "./remembered.ts";

/** What a key does, by the key as an event names it; `g i` is one after the other. One that answers false leaves it to who heard it before. */
export type Keys = Readonly<Record<string, () => unknown>>;

/** Whether single keys do anything. Esc, Ctrl+Enter and the arrows always do. */
export const singleKeys = remembered<"on" | "off">("keys", "on");
/** Whether the sheet of keys is shown. */
export const isSheetShown = cell(false);

const SEQUENCE_MS = 1500;
const layers: { current: Keys }[] = [];
let before = "";
let beforeAt = 0;

/** Hears keys while the component is shown; of two that hear the same one, the later. Keys of a field and of a dialog are its own. */
export function useKeys(keys: Keys): void {
  const layer = useRef(keys);
  layer.current = keys;
  // Before it is painted: whoever sees a row may press a key for it.
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
