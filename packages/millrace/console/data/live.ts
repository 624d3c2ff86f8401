import { cell } from "./cell.ts";
import { follow, type ServerEvent } from "./events.ts";
import { session } from "./session.ts";

/** State of the stream. `off` reconnects automatically. */
export interface Live {
  state: "connecting" | "live" | "paused" | "hidden" | "off";
  heardAt: number;
  /** The time of the oldest change that the page does not show yet. 0 if the page shows all changes. */
  behindSince: number;
}

/** An event of the live stream (docs/live.md). */
export interface LiveEvent {
  kind: string;
  data: Record<string, unknown>;
}

export const live = cell<Live>({ state: "connecting", heardAt: 0, behindSince: 0 });

export const heard = cell<LiveEvent | undefined>(undefined);

const last = { id: "" };
let following: AbortController | undefined;

export function heardNow(): void {
  live.set({ ...live.get(), heardAt: Date.now() });
}

const behind = new Map<object, number>();

export function fallBehind(part: object): void {
  if (!behind.has(part)) setBehind(part, Date.now());
}

export function caughtUp(part: object, asOf = Number.POSITIVE_INFINITY): void {
  const since = behind.get(part);
  if (since !== undefined) setBehind(part, since <= asOf ? undefined : since);
}

function setBehind(part: object, since: number | undefined): void {
  if (since === undefined) behind.delete(part);
  else behind.set(part, since);
  live.set({ ...live.get(), behindSince: behind.size === 0 ? 0 : Math.min(...behind.values()) });
}

export function pause(paused: boolean): void {
  turn(paused ? "paused" : "connecting");
  settle();
}

export const isPaused = () => live.get().state === "paused";

/** The interval in which the engine collects new metrics. */
const TICK_MS = 10_000;

/**
 * Follows the tenant's events while the page is visible. Adds an event `tick`, after which values are reloaded that change without an
 * event, such as rates. This function must be called only once.
 */
export function followLive(): void {
  setInterval(() => live.get().state === "live" && heard.set({ kind: "tick", data: {} }), TICK_MS);
  session.listen(() => {
    following?.abort();
    following = undefined;
    settle();
  });
  document.addEventListener("visibilitychange", settle);
  settle();
}

function settle(): void {
  const isSignedIn = session.get().state === "in";
  if (isSignedIn && !isPaused() && !document.hidden) {
    if (following !== undefined) return;
    following = new AbortController();
    turn("connecting");
    return void follow({ path: "/v1/stream", over: following.signal, last, hear: tell, turn });
  }
  following?.abort();
  following = undefined;
  if (!isPaused()) turn(isSignedIn ? "hidden" : "off");
}

function turn(state: Live["state"]): void {
  live.set({ ...live.get(), state });
  if (state === "live") heardNow();
}

function tell(event: ServerEvent | undefined): void {
  heardNow();
  if (event?.event !== undefined) heard.set({ kind: event.event, data: event.data });
}
