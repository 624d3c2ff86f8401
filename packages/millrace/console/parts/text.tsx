import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import { clock } from "../data/clock.ts";
import { remembered } from "../data/remembered.ts";

/** The time zone of all shown times. When the user changes the time zone, the frame renders the screen again. */
export const zone = remembered<"local" | "utc">("zone", "local");

export const LOCAL_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const timeZone = () => (zone.get() === "utc" ? "UTC" : LOCAL_ZONE);

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function duration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${Number((ms / SECOND).toFixed(ms < 10 * SECOND ? 1 : 0))} s`;
  const [large, word, small, other] =
    ms < HOUR ? ([MINUTE, "m", SECOND, "s"] as const) : ms < DAY ? ([HOUR, "h", MINUTE, "m"] as const) : ([DAY, "d", HOUR, "h"] as const);
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${word}${rest > 0 ? ` ${rest} ${other}` : ""}`;
}

export const seconds = (value: number) => duration(value * 1000);

export function rounded(ms: number): string {
  const [seconds, minutes, hours] = [SECOND, MINUTE, HOUR].map((unit) => Math.round(ms / unit)) as [number, number, number];
  return seconds < 60 ? `${seconds} s` : minutes < 60 ? `${minutes} min` : hours < 48 ? `${hours} h` : `${Math.round(ms / DAY)} d`;
}

/** Formats the difference between a time and now, such as `12 s ago` or `in 3 min`. */
function distance(at: number, now: number): string {
  const said = rounded(Math.abs(now - at));
  // A difference below 2 s is not shown, because the clocks of the browser and the engine differ slightly.
  if (Math.abs(now - at) < 2 * SECOND) return "now";
  // `now` may be up to 1 s late, so a time that is less than 1 s after `now` is not in the future.
  return at - now >= SECOND ? `in ${said}` : `${said} ago`;
}

/** The Swedish locale writes a time as `2026-11-27 14:41:41`. */
const formatIn = (timeZone: string) => new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium", timeZone });
const [LOCAL, UTC] = [formatIn(LOCAL_ZONE), formatIn("UTC")];

/** The time in `zone`: `2026-11-27 14:41:41`. The page's footer has the zone. */
export function exact(at: string | number): string {
  return (zone.get() === "utc" ? UTC : LOCAL).format(new Date(at));
}

/** The number of milliseconds since 1970 at a time in `zone`, such as `2026-11-27 14:41:41`. NaN if the text is not a time. */
export function instant(text: string): number {
  return Date.parse(`${text.replace(" ", "T")}${zone.get() === "utc" ? "Z" : ""}`);
}

export function clockTime(at: string | number): string {
  return exact(at).slice(11);
}

/** The words of a name of the API, such as `in doubt` for `in_doubt`. */
export function inWords(name: string): string {
  return name.replaceAll("_", " ");
}

export function begun(name: string): string {
  const words = inWords(name);
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

/** A relative time, with the exact time as a tooltip. `label` is shown before the time. */
export function Ago({ at, label }: { at: string; label?: string | undefined }) {
  const said = useCell(clock, (now) => distance(Date.parse(at), now));
  const time = (
    <time datetime={at} title={exact(at)}>
      {said}
    </time>
  );
  return label === undefined ? time : <span>{[label, " ", time]}</span>;
}

/** A text of an unknown direction, with other texts beside it. An empty text is left out, with the texts beside it. */
export function Text({ of, before, after }: { of: unknown; before?: string; after?: string }) {
  if (of === null || of === undefined || of === "") return null;
  return (
    <>
      {before}
      <bdi>{String(of)}</bdi>
      {after}
    </>
  );
}

export function Quiet({ of, why }: { of: ComponentChildren; why?: string }) {
  return (
    <span class="quiet" title={why}>
      {of}
    </span>
  );
}

/** The workflow and the subject of an instance. The default subject, which is the name of the workflow, is omitted. */
export function InstanceName({ workflow, subject }: { workflow: string; subject: string }) {
  if (subject === workflow) return <>{workflow}</>;
  return (
    <>
      {workflow} <span class="quiet">·</span> <bdi>{subject}</bdi>
    </>
  );
}

export function Name({ of }: { of: string }) {
  return (
    <strong>
      <bdi>{of}</bdi>
    </strong>
  );
}

export function Moment({ at }: { at: string }) {
  return (
    <>
      {exact(at)}{" "}
      <span class="quiet">
        (<Ago at={at} />)
      </span>
    </>
  );
}

export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

export function withoutIds(sentence: string): string {
  return sentence.replaceAll(/\b[0-9a-f]{32}\b/g, shortId);
}

/** Shows the parts of a text of the API that are in backticks as code. */
export const marked = (text: string) => text.split("`").map((part, nth) => (nth % 2 === 1 ? <code key={nth}>{part}</code> : part));

/** A note on the message of a cause, in which placeholders replace the parts that differ. */
export const GAPS = '# and "…" replace parts that differ.';
export const hasGaps = (message = "") => /#|"…"/.test(message);

/** Replaces the API's way to correct an output by the place of the button on the page. */
export function onThePage(sentence: string): string {
  return sentence.replace(/ \(POST \S+\/confirm\)/, " under Effects");
}

export function Id({ id }: { id: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    setCopied(await copied(id));
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" class="plain id" title={`${id}: copy it`} onClick={copy}>
      <code>{shortId(id)}</code>
      <span role="status">{isCopied ? " copied" : ""}</span>
    </button>
  );
}

export async function copied(text: string): Promise<boolean> {
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}

export function Bar({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <span class="bar" style={{ "--share": Math.max(0, Math.min(1, share)) }}>
      {children}
    </span>
  );
}

/** The current width of an element in px. 0 before the first measurement. */
export function useWidth(box: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

/** Icons as SVG paths on a grid of 16 by 16. They are not characters, because a font may lack the characters. */
const DRAWN = {
  close: "M4 4l8 8M12 4l-8 8",
  light:
    "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  dark: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
  warning: "M8 2.2L14.3 13.3H1.7zM8 6.6v3.2M8 11.4v.2",
  system: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
} as const;

export function Icon({ name }: { name: keyof typeof DRAWN }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={DRAWN[name]} />
    </svg>
  );
}
