import { useCell } from "../data/cell.ts";
import { clock } from "../data/clock.ts";
import { isPaused, live, pause } from "../data/live.ts";

const WORDS = {
  connecting: "connecting",
  live: "live",
  paused: "paused",
  hidden: "resting",
  off: "no connection",
} as const;

export function turnLive(): void {
  pause(!isPaused());
}

export function LiveDot() {
  const { state, heardAt, behindSince } = useCell(live);
  const now = useCell(clock);
  const asOf = behindSince === 0 ? heardAt : Math.min(heardAt, behindSince);
  const age = heardAt === 0 ? "" : ageOf(Math.max(0, now - asOf));
  return (
    <button type="button" class="plain live" data-state={state} onClick={turnLive} title={`${state === "paused" ? "Resume" : "Pause"} (p)`}>
      <svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
        {state === "paused" ? <path d="M2 1h2v8H2zM6 1h2v8H6z" /> : <circle cx="5" cy="5" r={state === "live" ? 4 : 3} />}
      </svg>
      {WORDS[state]} <span class="age">{age}</span>
    </button>
  );
}

function ageOf(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}
