import type { AlertChange } from "../../../packages/millrace/src/alerts/evaluate.ts";
import type { AlertRule } from "../../../packages/millrace/src/alerts/rule.ts";

/** One sample of one group at one time; null: no sample. */
export interface Look {
  readonly at: number;
  readonly value: number | null;
  readonly muted: boolean;
}

/** The notified state of an alert. */
interface Told {
  readonly severity: "warning" | "critical";
  readonly at: number;
}

/**
 * A naive model of one alert. Each poll computes all durations from the whole history of samples. Returns the notifications, and
 * the severity of the alert that is open at the end.
 */
export function naive(rule: AlertRule, looks: readonly Look[]): { notices: { at: number; change: AlertChange }[]; open: string | null } {
  const notices: { at: number; change: AlertChange }[] = [];
  let firing: "warning" | "critical" | null = null;
  let begunAt = 0;
  let worseSince = 0;
  let told: Told | null = null;
  looks.forEach(({ at, muted }, index) => {
    const past = looks.slice(0, index + 1);
    const beyond = (bound: number | undefined) => (look: Look) => bound !== undefined && look.value !== null && look.value > bound;
    const isWarm = beyond(rule.warning?.above ?? rule.critical?.above);
    const isHot = beyond(rule.critical?.above);
    const heldMs = (holds: (look: Look) => boolean, from: number) => lastingMs(past, holds, from);
    const [warmMs, hotMs] = [heldMs(isWarm, begunAt), heldMs(isHot, begunAt)];
    const warmEnough = rule.warning !== undefined && warmMs !== null && warmMs >= rule.warning.forMs;
    const hotEnough = rule.critical !== undefined && hotMs !== null && hotMs >= rule.critical.forMs;
    const say = (change: AlertChange) => {
      notices.push({ at, change });
      if (change !== "resolved") told = { severity: firing ?? "warning", at };
    };
    if (firing === null) {
      if (!hotEnough && !warmEnough) return;
      firing = hotEnough ? "critical" : "warning";
      worseSince = at;
    } else {
      const coldMs = heldMs((look) => !isWarm(look), begunAt);
      const mildMs = heldMs((look) => !isHot(look), worseSince);
      if (coldMs !== null && coldMs >= rule.clearMs) {
        if (told && !muted) say("resolved");
        firing = null;
        told = null;
        begunAt = at + 1;
        return;
      }
      if (firing === "warning" && hotEnough) {
        firing = "critical";
        worseSince = at;
      } else if (firing === "critical" && mildMs !== null && mildMs >= rule.clearMs) firing = "warning";
    }
    if (muted || !isWarm(past[index] as Look)) return;
    if (told === null) say("firing");
    else if ((told as Told).severity !== firing) say(firing === "critical" ? "escalated" : "eased");
    else if (at - (told as Told).at >= rule.repeatMs) say("repeated");
  });
  return { notices, open: firing };
}

/**
 * The milliseconds for which a condition has been true at every poll up to the last one. Null when it is false at the last poll.
 */
function lastingMs(past: readonly Look[], holds: (look: Look) => boolean, from: number): number | null {
  let since: number | null = null;
  for (const look of past.toReversed()) {
    if (look.at < from || !holds(look)) break;
    since = look.at;
  }
  return since === null ? null : (past.at(-1)?.at ?? 0) - since;
}
