import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "./api.ts";
import { useCell } from "./cell.ts";
import { caughtUp, fallBehind, hear, heardNow, isPaused, type LiveEvent } from "./live.ts";
import type { Problem } from "./problem.ts";
import { session } from "./session.ts";

export interface Data<T> {
  /** The loaded data. The data is kept during a reload, and if the reload fails. */
  data: T | undefined;
  problem: Problem | undefined;
  isLoading: boolean;
  again: () => void;
  /** Reloads the data after a delay. Several calls within the delay cause one reload. */
  soon: () => void;
}

/** The delay before a reload, so that a burst of events causes only one request. */
const LOOK_EVERY_MS = 700;
/** The delay before a request with a retryable failure is repeated. */
export const AGAIN_MS = 5000;

/**
 * Loads data immediately, when `depends` changes, after a relevant event, when the page becomes visible, and after a sign-in. While live
 * updates are paused, only the user's actions load the data. Loads do not overlap: after a change during a load, the next load starts when
 * the current load has ended.
 */
export function useData<T>(load: () => Promise<Result<T>>, depends: readonly unknown[], isAbout: (event: LiveEvent) => boolean): Data<T> {
  const [held, hold] = useState<{ data?: T | undefined; problem?: Problem | undefined; isLoading: boolean }>({ isLoading: true });
  const nth = useCell(session, (one) => one.nth);
  const latest = useRef({
    load,
    isAbout,
    turn: 0,
    isOut: false,
    isAsked: false,
    timer: undefined as ReturnType<typeof setTimeout> | undefined,
  });
  latest.current.load = load;
  latest.current.isAbout = isAbout;

  /** Loads data immediately and ignores the result of a running load, because this result may belong to previous values of `depends`. */
  const look = useCallback(async () => {
    const turn = ++latest.current.turn;
    Object.assign(latest.current, { isOut: true, isAsked: false });
    hold((before) => ({ ...before, isLoading: true }));
    const askedAt = Date.now();
    const result = await latest.current.load();
    if (turn !== latest.current.turn) return;
    latest.current.isOut = false;
    if (result.ok) {
      heardNow();
      caughtUp(latest, askedAt);
    }
    hold((before) =>
      result.ok ? { data: result.data, isLoading: false } : { data: before.data, problem: result.problem, isLoading: false },
    );
    if (latest.current.isAsked) void look();
  }, []);
  const again = useCallback(() => {
    if (latest.current.isOut) latest.current.isAsked = true;
    else void look();
  }, []);

  useEffect(() => {
    hold({ isLoading: true });
  }, depends);
  useEffect(() => void look(), [...depends, nth]);

  useEffect(() => {
    if (!held.problem?.retryable) return;
    const timer = setTimeout(() => void (!document.hidden && !isPaused() && again()), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [held.problem]);

  const soon = useCallback(() => {
    fallBehind(latest);
    latest.current.timer ??= setTimeout(() => {
      latest.current.timer = undefined;
      again();
    }, LOOK_EVERY_MS);
  }, []);
  useEffect(() => {
    const stop = hear((event) => {
      if (latest.current.isAbout(event)) soon();
    });
    const seen = () => void (!document.hidden && !isPaused() && again());
    document.addEventListener("visibilitychange", seen);
    return () => {
      stop();
      clearTimeout(latest.current.timer);
      latest.current.turn++;
      caughtUp(latest);
      document.removeEventListener("visibilitychange", seen);
    };
  }, []);

  return { data: held.data, problem: held.problem, isLoading: held.isLoading, again, soon };
}
