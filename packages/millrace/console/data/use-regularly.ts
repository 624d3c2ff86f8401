import { useEffect, useRef } from "preact/hooks";
import { useCell } from "./cell.ts";
import { live } from "./live.ts";

/** The interval of the reload, in which the engine collects new metrics. */
const EVERY_MS = 10_000;

/**
 * Reloads values that change without an event, such as rates. Reloads them every 10 seconds while live updates are on and the page is
 * visible.
 */
export function useRegularly(again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  const isLive = useCell(live, ({ state }) => state === "live");
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => latest.current(), EVERY_MS);
    return () => clearInterval(timer);
  }, [isLive]);
}
