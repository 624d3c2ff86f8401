import { useEffect, useRef } from "preact/hooks";
import { useCell } from "./cell.ts";
import { live } from "./live.ts";

/** Numbers are gathered in rounds of ten seconds: more often there is nothing new. */
const EVERY_MS = 10_000;

/** Asks again every ten seconds while live is on and somebody looks: for what no event of the stream tells, such as a rate. */
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
