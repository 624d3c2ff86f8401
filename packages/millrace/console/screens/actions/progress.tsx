import { type Bulk, counted, resultOf } from "./words.ts";

const PARTS = ["done", "skipped", "failed"] as const;

export function Bar({ bulk }: { bulk: Bulk }) {
  let x = 0;
  return (
    <svg class="actions-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={inWords(bulk)}>
      {PARTS.map((part) => {
        const width = (bulk[part] / Math.max(bulk.matched, 1)) * 100;
        x += width;
        return width > 0 && <rect key={part} class={part} x={x - width} y="0" width={width} height="8" />;
      })}
    </svg>
  );
}

function inWords({ verb, matched, done, skipped, failed, left }: Bulk): string {
  return `Of ${counted(verb, matched)}: ${done} ${resultOf(verb, "done")}, ${skipped} not needed, ${failed} failed, ${left} to do`;
}
