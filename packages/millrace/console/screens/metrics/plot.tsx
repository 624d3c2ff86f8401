import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Item } from "../../data/api.ts";
import { toneOf } from "../../parts/status.tsx";
import { seconds } from "../../parts/text.tsx";

export interface Window {
  /** The start times of the periods, the oldest first. */
  times: readonly number[];
  labelOf: (at: number) => string;
}

export type Period = Item<"/v1/workflows/by-time">;

interface Shared {
  workflow: string;
  window: Window;
  /** The counts of each period of the window. Undefined for a period without counts. */
  slots: readonly (Period | undefined)[];
  /** The index of the period whose values are shown. */
  chosen: number | undefined;
  choose: (at: number | undefined) => void;
  said: (at: number) => string;
}

const HEIGHT = 168;
const TOP = 8;
const LEFT = 56;
const GROUND = HEIGHT - 24;
const LABEL = 88;

/** The smallest number that is 1, 2 or 5 times a power of ten and not less than the value. */
function niceTop(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5, 10].find((one) => one * power >= most) ?? 10) * power;
}

interface FrameProps extends Shared {
  name: string;
  label: string;
  legend: ComponentChildren;
  top: number;
  tick: (value: number) => string;
  children: (x: (at: number) => number, y: (value: number) => number, step: number) => ComponentChildren;
}

/** Draws a legend, the axes with labels, and a slider over the plot. The user chooses a period with the pointer or the arrow keys. */
function Frame({ window, label, chosen, choose, said, name, legend, top, tick, children }: FrameProps) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(200, Math.round(entry?.contentRect.width ?? 0))));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const count = window.times.length;
  const step = (width - LEFT - 4) / count;
  const x = (at: number) => LEFT + at * step;
  const y = (value: number) => GROUND - (value / top) * (GROUND - TOP);
  const within = (at: number) => Math.min(count - 1, Math.max(0, at));
  const every = Math.ceil(count / Math.max(1, Math.floor((width - LEFT) / LABEL)));
  const at = chosen ?? count - 1;
  const keys = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: count - 1 };
  const pointAt = (event: PointerEvent & { currentTarget: HTMLElement }) =>
    choose(within(Math.floor((event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / step)));
  return (
    <figure>
      <figcaption>
        <span class="name">{name}</span>
        <ul class="legend">{legend}</ul>
      </figcaption>
      <div
        ref={box}
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={count - 1}
        aria-valuenow={at}
        aria-valuetext={`${window.labelOf(window.times[at] ?? 0)}: ${said(at)}`}
        onPointerMove={pointAt}
        onPointerDown={pointAt}
        onFocus={() => chosen === undefined && choose(count - 1)}
        onKeyDown={(event) => {
          const next: number | undefined = keys[event.key as keyof typeof keys];
          if (next === undefined) return;
          event.preventDefault();
          choose(within(next));
        }}
      >
        <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
          {[0, top / 2, top].map((value) => (
            <g key={value}>
              <line class="grid" x1={LEFT} x2={width - 4} y1={y(value)} y2={y(value)} />
              <text x={LEFT - 8} y={y(value) + 4} text-anchor="end">
                {tick(value)}
              </text>
            </g>
          ))}
          {window.times.map(
            (time, nth) =>
              (count - 1 - nth) % every === 0 &&
              x(nth) >= LEFT && (
                <text key={time} x={Math.min(x(nth + 0.5), width - LABEL / 3)} y={HEIGHT - 6} text-anchor="middle">
                  {window.labelOf(time)}
                </text>
              ),
          )}
          {chosen !== undefined && <rect class="chosen" x={x(chosen)} y={TOP} width={step} height={GROUND - TOP} />}
          {/* The last period is marked, because it has not ended yet. */}
          <rect class="open" x={x(count - 1)} y={TOP} width={step} height={GROUND - TOP} />
          {children(x, y, step)}
        </svg>
      </div>
    </figure>
  );
}

/** The strokes of each pattern on a grid of 6 px. Bars of the first status are plain. */
const PATTERNS = ["", "M0 3h6", "M-1.5 1.5l3-3M0 6l6-6M4.5 7.5l3-3", "M3 0v6", "M0 0l6 6M0 6l6-6"] as const;

export function Bars({ statuses, ...shared }: Shared & { statuses: readonly string[] }) {
  const id = useId();
  const counts = shared.slots.map((one) => one?.ended ?? {});
  // The maximum of the axis is even, so that the middle of the axis is an integer.
  const top = Math.max(2, niceTop(Math.max(...counts.map((one) => Object.values(one).reduce((sum, count) => sum + count, 0)))));
  const legend = statuses.map((status, nth) => (
    <li key={status}>
      <svg width="18" height="12" aria-hidden="true">
        <pattern id={`${id}-${nth}`} width="6" height="6" patternUnits="userSpaceOnUse" data-tone={toneOf(status)}>
          <rect class="base" width="6" height="6" data-plain={nth === 0 || undefined} />
          <path d={PATTERNS[nth % PATTERNS.length] ?? ""} />
        </pattern>
        <rect class="bar" width="18" height="12" fill={`url(#${id}-${nth})`} data-tone={toneOf(status)} />
      </svg>
      {status} <strong>{counts.reduce((total, one) => total + (one[status] ?? 0), 0).toLocaleString()}</strong>
    </li>
  ));
  return (
    <Frame
      {...shared}
      name="Ended runs"
      label={`Ended runs of ${shared.workflow}`}
      legend={legend}
      top={top}
      tick={(value) => (Number.isInteger(value) ? value.toLocaleString() : "")}
    >
      {(x, y, step) =>
        counts.map((one, at) => {
          let below = 0;
          return statuses.map((status, nth) => {
            const count = one[status] ?? 0;
            if (count === 0) return null;
            const from = below;
            below += count;
            return (
              <rect
                key={`${at} ${status}`}
                class="bar"
                data-tone={toneOf(status)}
                {...{ x: x(at) + step * 0.1, width: step * 0.8, y: y(below), height: Math.max(1.5, y(from) - y(below)) }}
                fill={`url(#${id}-${nth})`}
              />
            );
          });
        })
      }
    </Frame>
  );
}

/** The legend for the lines of p50 and p99: a circle on a solid line, and a square on a dashed line. */
const PERCENTILES = (["p50", "p99"] as const).map((name) => (
  <li key={name}>
    <svg class={name} width="24" height="12" aria-hidden="true">
      <path d="M0 6h24" />
      <Mark name={name} x={12} y={6} />
    </svg>
    {name}
  </li>
));

function Mark({ name, x, y }: { name: "p50" | "p99"; x: number; y: number }) {
  return name === "p50" ? <circle cx={x} cy={y} r={2.5} /> : <rect x={x - 2.5} y={y - 2.5} width={5} height={5} />;
}

/** Draws two lines. A line has a gap at each period without a value. */
export function Lines(shared: Shared) {
  const low = shared.slots.map((one) => one?.step_p50_seconds ?? null);
  const high = shared.slots.map((one) => one?.step_p99_seconds ?? null);
  const top = niceTop(Math.max(0, ...[...low, ...high].map((value) => value ?? 0)));
  return (
    <Frame {...shared} name="Step duration" label={`Step durations of ${shared.workflow}`} legend={PERCENTILES} top={top} tick={seconds}>
      {(x, y) =>
        (["p99", "p50"] as const).map((name) => {
          const values = name === "p50" ? low : high;
          const points = values.flatMap((value, at) => (value === null ? [] : [{ at, x: x(at + 0.5), y: y(value) }]));
          return (
            <g key={name} class={name}>
              <path d={points.map((one, nth) => `${points[nth - 1]?.at === one.at - 1 ? "L" : "M"}${one.x} ${one.y}`).join("")} />
              {points.map((one) => (
                <Mark key={one.at} name={name} x={one.x} y={one.y} />
              ))}
            </g>
          );
        })
      }
    </Frame>
  );
}
