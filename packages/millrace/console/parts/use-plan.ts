import { useEffect, useState } from "preact/hooks";
import type { Result } from "../data/api.ts";
import { useCell } from "../data/cell.ts";
import { session } from "../data/session.ts";
import { AGAIN_MS } from "../data/use-data.ts";

const LOOK_BEHIND_MS = 250;

/**
 * The dry run of an action or a message. The dry run is repeated when the fields of the action or message (`of`) change, after a sign-in,
 * and after a failed request. The plan is undefined until a response for the current fields arrives.
 */
export function usePlan<Plan>(dryRun: (() => Promise<Result<Plan>>) | undefined, of: string, isReady: boolean) {
  const [answer, setAnswer] = useState<{ of: string; plan: Result<Plan> } | undefined>();
  const [times, setTimes] = useState(0);
  const nth = useCell(session, (one) => one.nth);
  const again = () => setTimes((before) => before + 1);
  useEffect(() => {
    if (!isReady) return;
    let isOver = false;
    const look = async () => {
      const plan = dryRun ? await dryRun() : { ok: true as const, data: undefined as Plan };
      if (!isOver) setAnswer({ of, plan });
    };
    const timer = setTimeout(look, answer === undefined ? 0 : LOOK_BEHIND_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isReady, of, times, nth]);
  useEffect(() => {
    if (!answer || answer.plan.ok || !answer.plan.problem.retryable) return;
    const timer = setTimeout(again, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [answer]);
  // A response for previous values of the fields is ignored.
  return { plan: answer?.of === of ? answer.plan : undefined, again };
}
