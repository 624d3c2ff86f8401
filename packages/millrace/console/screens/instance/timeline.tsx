import { useCell } from "../../data/cell.ts";
import { clock, timeNow } from "../../data/clock.ts";
import { useKeys } from "../../frame/router.tsx";
import { Records } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, clockTime, duration, Quiet } from "../../parts/text.tsx";
import { Until } from "./cause.tsx";
import type { Step, Whole } from "./history.tsx";
import { kindOf, ms } from "./step.ts";

interface Span {
  kind: "attempt" | "failed" | "pause" | "wait";
  from: number;
  to: number;
}

function spansOf(step: Step, now: number): Span[] {
  if (step.kept) return [];
  const from = ms(step.started_at);
  if (step.type !== "do") {
    return from === undefined ? [] : [{ kind: "wait", from, to: ms(step.ended_at) ?? Math.min(ms(step.until) ?? now, now) }];
  }
  return step.attempts.flatMap(({ started_at, ended_at, error, retry_delay_ms: delay }): Span[] => {
    const began = Date.parse(started_at);
    const ended = ms(ended_at) ?? now;
    const own: Span = { kind: error ? "failed" : "attempt", from: began, to: ended };
    return delay && error ? [own, { kind: "pause", from: ended, to: Math.min(ended + delay, Math.max(now, ended)) }] : [own];
  });
}

const WIDTH = 1000;
const LEAST = 5;

interface TimelineProps {
  steps: readonly Step[];
  /** The end time of the instance, at which its open steps also end. Null while the instance is running. */
  over: string | null;
  trouble: string | undefined;
  actsOf: (step: Step) => preact.ComponentChildren;
}

/** Shows the steps on a time axis. Each step also shows its times as text, and can be opened to show its attempts. */
export function Timeline({ steps, over, trouble, actsOf }: TimelineProps) {
  const isUnderWay = over === null && steps.some(({ ended_at, started_at }) => started_at !== null && ended_at === null);
  const now = useCell(clock, (time) => (isUnderWay ? time : 0)) || (over === null ? timeNow() : Date.parse(over));
  const focus = (by: number) => {
    const all = [...document.querySelectorAll<HTMLElement>('[aria-label="Steps"] summary')];
    const current = all.indexOf(document.activeElement as HTMLElement);
    all[current < 0 ? 0 : Math.max(0, Math.min(current + by, all.length - 1))]?.focus();
  };
  useKeys({ "]": () => focus(1), "[": () => focus(-1) });
  const spans = new Map(steps.map((step) => [step, spansOf(step, now)]));
  const all = [...spans.values()].flat();
  const first = Math.min(...all.map(({ from }) => from));
  const whole = Math.max(1, Math.max(...all.map(({ to }) => to)) - first);
  return (
    <>
      {all.length > 0 && (
        <p class="quiet">
          From {clockTime(first)}, {duration(whole)} in total
        </p>
      )}
      <Records
        label="Steps"
        columns="minmax(0, 1.2fr) minmax(0, 3fr) 168px 88px"
        minor={1}
        of={steps.map((step) => {
          const own = spans.get(step) ?? [];
          const took = Math.max(...own.map(({ to }) => to)) - Math.min(...own.map(({ from }) => from));
          return {
            key: `${step.name} ${step.count}`,
            isOpen: step.name === trouble && step.state !== "complete",
            cells: [
              [<bdi key="name">{step.own?.of ?? step.name}</bdi>, " ", <Quiet key="kind" of={kindOf(step)} />],
              <Spans key="spans" of={own} first={first} whole={whole} />,
              <>
                <Status word={step.state} tone={step.state === "stopped" ? "grey" : undefined} />
                {step.attempts.length > 1 && <span class="quiet"> {step.attempts.length} attempts</span>}
              </>,
              own.length > 0 && duration(took),
            ],
            details: (
              <>
                <Attempts step={step} isOver={over !== null} />
                {actsOf(step)}
              </>
            ),
          };
        })}
      />
    </>
  );
}

function Spans({ of, first, whole }: { of: readonly Span[]; first: number; whole: number }) {
  return (
    <svg class="spans" aria-hidden="true" viewBox={`0 0 ${WIDTH} 16`} preserveAspectRatio="none" width="100%" height="16">
      {of.map(({ kind, from, to }) => {
        const width = Math.max(LEAST, ((to - from) / whole) * WIDTH);
        const x = Math.min(((from - first) / whole) * WIDTH, WIDTH - width);
        const [y, height] = kind === "pause" || kind === "wait" ? [6, 4] : [2, 12];
        return <rect key={`${kind} ${from}`} class={kind} x={x} y={y} width={width} height={height} />;
      })}
    </svg>
  );
}

/**
 * Shows the last reported progress of the instance and of each open step. The progress of an inline step is only in the instance, because
 * the list of steps contains an inline step only after its end.
 */
export function ShownProgress({ instance, steps }: Pick<Whole, "instance" | "steps">) {
  const open = [instance, ...steps.filter(({ ended_at }) => ended_at === null)].flatMap(({ progress }) => progress ?? []);
  if (open.length === 0) return null;
  return (
    <ul class="progress">
      {[...new Map(open.map((one) => [one.step, one])).values()].map(({ step, share, done, of, text, at: reportedAt }) => (
        <li key={step}>
          <bdi>{step}</bdi>
          {share !== null && <progress value={share} aria-label={`Progress of ${step}`} />}
          <bdi>
            {share !== null && `${Math.floor(share * 100)} % `}
            {[done, of].filter((one) => one !== null).join(" of ")} {text}
          </bdi>
          <span class="quiet">
            <Ago at={reportedAt} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Attempts({ step, isOver }: { step: Step; isOver: boolean }) {
  const { attempts, event_type: event, subject, started_at: began, next_attempt_at: next } = step;
  const until = isOver ? null : step.until;
  return (
    <ol class="attempts">
      {attempts.map(({ attempt, started_at, ended_at, error, retry_delay_ms: delay }) => (
        <li key={`${attempt} ${started_at}`}>
          <span class="quiet">
            attempt {attempt} · {clockTime(started_at)}
            {ended_at && ` · ${duration(Date.parse(ended_at) - Date.parse(started_at))}`}
          </span>
          {error && (
            <bdi class="said">
              {error.name}: {error.message}
            </bdi>
          )}
          {delay !== null && error && <span class="quiet">again after {duration(delay)}</span>}
        </li>
      ))}
      {next && !isOver && <li class="quiet">The next attempt is made at {clockTime(next)}.</li>}
      {step.type === "waitForEvent" && (
        <li>
          {isOver ? "waited" : "waits"} for {event ?? "an answer"}
          {subject && ` about ${subject}`}
          <Until at={until} />
        </li>
      )}
      {step.type === "sleep" && step.state === "sleeping" && (
        <li>
          {isOver ? "slept" : "sleeps"}
          <Until at={until} />
        </li>
      )}
      {attempts.length === 0 && began === null && (
        <li class="quiet">The platform no longer has its attempts. Its result is under Effects.</li>
      )}
    </ol>
  );
}
