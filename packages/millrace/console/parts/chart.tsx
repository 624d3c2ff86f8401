import { useId, useRef, useState } from "preact/hooks";
import "./chart.css";
import { toneOf } from "./status.tsx";
import { type Column, Table } from "./table.tsx";
import { clockTime, useWidth } from "./text.tsx";

/** The values of one name in each period. No bar is drawn for a period without a value, or with the value 0. */
export interface Series {
  name: string;
  values: readonly (number | null | undefined)[];
  /** True for values that are listed, but not drawn. */
  isListed?: true;
}

export interface ChartProps {
  title: string;
  /** The name of the chart for screen readers. */
  label: string;
  series: readonly Series[];
  none: string;
  /** Default: a number. */
  says?: (value: number) => string;
  /** True if the value of a series contains the value of the series before. By default, the values are added. */
  isCumulative?: true;
}

interface ChartsProps {
  charts: readonly ChartProps[];
  table: string;
  /** The start times of the periods, the oldest first. The last period has not ended yet. */
  times: readonly number[];
  /** Default: the hour and the minute. */
  labelOf?: (at: number) => string;
}

const minuteOf = (at: number) => clockTime(at).slice(0, -3);

/** The start times of the newest periods of a length, the oldest first. The last period contains the time `at`. */
export function periodsTo(at: number, lengthMs: number, count: number): number[] {
  const last = Math.floor(at / lengthMs) * lengthMs;
  return Array.from({ length: count }, (_, nth) => last - (count - 1 - nth) * lengthMs);
}

const HEIGHT = 168;
const TOP = 8;
const LEFT = 56;
const GROUND = HEIGHT - 24;
const LABEL = 88;

const inWords = (value: number) => value.toLocaleString();
const named = ({ name }: Series) => name.replaceAll("_", " ");

/** Draws charts over the same periods. The values of the period that the user chooses, and all values in a table, are text. */
export function Charts({ charts, table, times, labelOf = minuteOf }: ChartsProps) {
  const [chosen, choose] = useState<number>();
  const [isOpen, open] = useState(false);
  const saidOf = ({ series, none, says }: ChartProps, at: number) =>
    series.flatMap((one) => (one.values[at] ? [`${named(one)} ${wordsOf(one, at, says)}`] : [])).join(", ") || none;
  const rows = times
    .map((at, nth) => ({ at, nth }))
    .filter(({ nth }) => charts.some(({ series }) => series.some((one) => one.values[nth])));
  const columns: Column<{ at: number; nth: number }>[] = [
    { head: "Time", width: "104px", narrow: "92px", cell: ({ at }) => <time datetime={new Date(at).toISOString()}>{labelOf(at)}</time> },
    ...charts.flatMap(({ series, says }) =>
      series.map((one) => ({
        ...{ head: named(one), width: "96px", narrow: "1fr", isNumber: true, isMinor: one.isListed ?? false },
        cell: ({ nth }: { nth: number }) => wordsOf(one, nth, says),
      })),
    ),
  ];
  return (
    <>
      <div class="plots">
        {charts.map((one) => (
          <Chart key={one.title} {...{ ...one, times, labelOf, chosen, choose }} said={(at) => saidOf(one, at)} />
        ))}
      </div>
      <p class="value">
        {chosen === undefined ? (
          <span class="quiet">Point at a bar, or focus a chart and use the arrow keys, to read its values.</span>
        ) : (
          <>
            <strong>{labelOf(times[chosen] ?? 0)}</strong> {charts.map((one) => saidOf(one, chosen)).join(" · ")}
          </>
        )}
      </p>
      <details onToggle={(event) => open(event.currentTarget.open)}>
        <summary class="quiet">As a table</summary>
        {/* A table handles keys, so that a closed one is not rendered. */}
        <div class="twin">{isOpen && <Table label={table} rows={rows.reverse()} columns={columns} nameOf={({ at }) => String(at)} />}</div>
      </details>
    </>
  );
}

function wordsOf({ values, isListed }: Series, at: number, says = inWords): string {
  const value = values[at];
  if (value === null || value === undefined) return says === inWords || isListed ? "0" : "–";
  return isListed ? inWords(value) : says(value);
}

/** The smallest number that is 1, 2 or 5 times a power of ten and not less than the value. */
function niceTop(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5, 10].find((one) => one * power >= most) ?? 10) * power;
}

/** The strokes of each pattern on a grid of 6 px. Bars of the first series are plain. */
const PATTERNS = ["", "M0 3h6", "M-1.5 1.5l3-3M0 6l6-6M4.5 7.5l3-3", "M3 0v6", "M0 0l6 6M0 6l6-6"] as const;

interface Shown extends ChartProps, Required<Omit<ChartsProps, "charts" | "table">> {
  chosen: number | undefined;
  choose: (at: number) => void;
  said: (at: number) => string;
}

function Chart({ title, label, series, says, isCumulative, times, labelOf, chosen, choose, said }: Shown) {
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const width = Math.max(200, useWidth(box));
  const drawn = series.filter(({ isListed }) => !isListed);
  const bars = barsOf(drawn, isCumulative);
  // The maximum of an axis of counts is even, so that the middle of the axis is an integer.
  const top = Math.max(says ? 0 : 2, niceTop(mostOf(bars)));
  const count = times.length;
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
        <span class="name">{title}</span>
        <ul class="legend">
          {drawn.map((one, nth) => (
            <li key={one.name}>
              <svg width="18" height="12" aria-hidden="true">
                <pattern id={`${id}-${nth}`} width="6" height="6" patternUnits="userSpaceOnUse" data-tone={toneOf(one.name)}>
                  <rect class="base" width="6" height="6" data-plain={nth === 0 || undefined} />
                  <path d={PATTERNS[nth % PATTERNS.length] ?? ""} />
                </pattern>
                <rect class="bar" width="18" height="12" fill={`url(#${id}-${nth})`} data-tone={toneOf(one.name)} />
              </svg>
              {named(one)} {!says && <strong>{inWords(sumOf(one.values))}</strong>}
            </li>
          ))}
        </ul>
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
        aria-valuetext={`${labelOf(times[at] ?? 0)}: ${said(at)}`}
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
                {says?.(value) ?? (Number.isInteger(value) && inWords(value))}
              </text>
            </g>
          ))}
          {times.map(
            (time, nth) =>
              (count - 1 - nth) % every === 0 &&
              x(nth) >= LEFT && (
                <text key={time} x={Math.min(x(nth + 0.5), width - LABEL / 3)} y={HEIGHT - 6} text-anchor="middle">
                  {labelOf(time)}
                </text>
              ),
          )}
          {chosen !== undefined && <rect class="chosen" x={x(chosen)} y={TOP} width={step} height={GROUND - TOP} />}
          {/* The last period is marked, because it has not ended yet. */}
          <rect class="open" x={x(count - 1)} y={TOP} width={step} height={GROUND - TOP} />
          {bars.map((one) => (
            <rect
              key={`${one.at} ${one.name}`}
              class="bar"
              data-tone={toneOf(one.name)}
              {...{ x: x(one.at) + step * 0.1, width: step * 0.8, y: y(one.to), height: Math.max(1.5, y(one.from) - y(one.to)) }}
              fill={`url(#${id}-${one.nth})`}
            />
          ))}
        </svg>
      </div>
    </figure>
  );
}

const sumOf = (values: Series["values"]) => values.reduce<number>((sum, one) => sum + (one ?? 0), 0);
const mostOf = (bars: ReturnType<typeof barsOf>) => Math.max(0, ...bars.map(({ to }) => to));

/** The bars of all series. In each period, the bar of a series is above the bars of the series before. */
function barsOf(series: readonly Series[], isCumulative = false) {
  const tops: number[] = [];
  return series.flatMap(({ name, values }, nth) =>
    values.flatMap((value, at) => {
      if (!value) return [];
      const from = tops[at] ?? 0;
      const to = isCumulative ? value : from + value;
      tops[at] = to;
      return [{ name, nth, at, from, to }];
    }),
  );
}

export function Spark({ series, count }: { series: readonly Series[]; count: number }) {
  const bars = barsOf(series);
  const most = Math.max(1, mostOf(bars));
  // A small value is drawn as a tenth of the largest, so that it is visible.
  const shown = (to: number) => Math.max(to, most / 10);
  return (
    <svg class="spark" viewBox={`0 0 ${count} ${most}`} preserveAspectRatio="none" aria-hidden="true">
      {bars.map(({ name, at, from, to }) => (
        <rect key={`${at} ${name}`} data-tone={toneOf(name)} x={at} y={most - shown(to)} width={0.8} height={shown(to) - from} />
      ))}
    </svg>
  );
}
