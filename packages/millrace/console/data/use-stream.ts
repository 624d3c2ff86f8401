import { useEffect, useRef } from "preact/hooks";
import { useCell } from "./cell.ts";
import { readEvents } from "./events.ts";
import { live } from "./live.ts";
import { session } from "./session.ts";

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Follows the event stream of one instance while the instance is running and live updates are on. Calls `hear` for each event. When the
 * next run of the instance starts, the stream is opened again.
 */
export function useStream(path: string, isUnderWay: boolean, hear: (event: string) => void): void {
  const latest = useRef(hear);
  latest.current = hear;
  const lastId = useRef("");
  const isLive = useCell(live, ({ state }) => state === "live");
  const { token } = useCell(session);
  useEffect(() => {
    if (!isLive || !isUnderWay) return;
    const over = new AbortController();
    void follow(path, token, over.signal, lastId, (event) => latest.current(event));
    return () => over.abort();
  }, [path, isLive, isUnderWay, token]);
}

async function follow(
  path: string,
  token: string | undefined,
  over: AbortSignal,
  lastId: { current: string },
  hear: (event: string) => void,
): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  while (!over.aborted) {
    try {
      const headers = { ...(token && { authorization: `Bearer ${token}` }), ...(lastId.current && { "last-event-id": lastId.current }) };
      const answer = await fetch(path, { headers, signal: over });
      // The API has ended or refused the instance's stream. Later changes of the instance arrive in the tenant's stream.
      if (answer.status === 204 || (answer.status >= 400 && answer.status < 500 && answer.status !== 429)) return;
      if (answer.ok && answer.body) {
        await readEvents(answer.body, (event) => {
          lastId.current = event?.id ?? lastId.current;
          if (event?.event !== undefined) hear(event.event);
        });
        pauseMs = FIRST_PAUSE_MS;
      }
    } catch {
      // Reconnects below.
    }
    if (!over.aborted) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}
