import { useEffect, useState } from "preact/hooks";
import type { Result } from "../data/api.ts";
import { useCell } from "../data/cell.ts";
import { session } from "../data/session.ts";
import { AGAIN_MS } from "../data/use-data.ts";

const LOOK_BEHIND_MS = 250;

/**
 * What an act would do, or a message that is not sent yet: asked anew as its fields change (`of`), after somebody has signed in again, and by
 * itself where nothing answered. Undefined until the answer is about the fields as they are.
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
  // What was said of other values of the fields says nothing of these.
  return { plan: answer?.of === of ? answer.plan : undefined, again };
}
