import { useEffect, useRef } from "preact/hooks";
import { useCell } from "./cell.ts";
import { live } from "./live.ts";

/** Metrics are collected every 10 seconds. */
const EVERY_MS = 10_000;

/** Reloads every 10 seconds while live is on and the page is visible. For values without events, such as rates. */
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
