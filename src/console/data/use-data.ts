import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "./api.ts";
import { useCell } from "./cell.ts";
import { hear, heardNow, isPaused, type LiveEvent } from "./live.ts";
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
}

/** A burst of events is one look, and looks are this far apart. */
const LOOK_EVERY_MS = 700;

/**
 * Reads something now, when what it depends on changes, when an event of the stream is about it, when the page is looked at again, and
 * after somebody has signed in again. While live is paused, only what somebody does reads it.
 */
export function useData<T>(load: () => Promise<Result<T>>, depends: readonly unknown[], isAbout: (event: LiveEvent) => boolean): Data<T> {
  const [held, hold] = useState<{ data?: T | undefined; problem?: Problem | undefined; isLoading: boolean }>({ isLoading: true });
  const nth = useCell(session, (one) => one.nth);
  const latest = useRef({ load, isAbout, turn: 0 });
  latest.current.load = load;
  latest.current.isAbout = isAbout;

  const again = useCallback(async () => {
    const turn = ++latest.current.turn;
    hold((before) => ({ ...before, isLoading: true }));
    const result = await latest.current.load();
    // An answer that was overtaken by another question is nobody's.
    if (turn !== latest.current.turn) return;
    if (result.ok) heardNow();
    hold((before) =>
      result.ok ? { data: result.data, isLoading: false } : { data: before.data, problem: result.problem, isLoading: false },
    );
  }, []);

  useEffect(() => {
    hold({ isLoading: true });
  }, depends);
  useEffect(() => void again(), [...depends, nth]);

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = hear((event) => {
      if (!latest.current.isAbout(event)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void again();
      }, LOOK_EVERY_MS);
    });
    const look = () => void (!document.hidden && !isPaused() && again());
    document.addEventListener("visibilitychange", look);
    return () => {
      stop();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);

  return { data: held.data, problem: held.problem, isLoading: held.isLoading, again };
}
