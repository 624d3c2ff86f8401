import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "./api.ts";
import { useCell } from "./cell.ts";
import { caughtUp, fallBehind, hear, heardNow, isPaused, type LiveEvent } from "./live.ts";
import type { Problem } from "./problem.ts";
import { session } from "./session.ts";

/** Something that is read from the API and kept as new as the page is. */
export interface Data<T> {
  /** What was read last; it stays while it is asked for again, and where that is refused. */
  data: T | undefined;
  /** Why the last look failed. */
  problem: Problem | undefined;
  isLoading: boolean;
  /** Asks again. */
  again: () => void;
  /** Asks again before long: however often within that, once. */
  soon: () => void;
}

/** A burst of events is one look, and looks are this far apart. */
const LOOK_EVERY_MS = 700;
/** What had no answer, and may have one later, is asked for again so much later. */
export const AGAIN_MS = 5000;

/**
 * Reads something now, when what it depends on changes, when an event of the stream is about it, when the page is looked at again, and
 * after somebody has signed in again. While live is paused, only what somebody does reads it. A look that takes long is not overtaken by
 * another: what happens meanwhile is looked at behind it, and until then the page is as old as it says.
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

  /** Looks now, and gives up whatever look is out: what it asks for is not what is shown any more. */
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
  /** Looks as soon as no look is out. */
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
